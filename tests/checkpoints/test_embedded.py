"""The model inside the package."""

import hashlib
import json
import math
import re

import jax
import numpy as np
import pytest

import faith_jax
from faith_jax.checkpoints import embedded
from faith_jax.checkpoints.embedded import checkpoint_path, embedded_models, reads_two_sides
from faith_jax.core import templates
from faith_jax.core.progress import log_once
from faith_jax.core.rows import BadRows
from faith_jax.core.types import GroundedExample, Grounding
from faith_jax.datasets.raw.dialfact import read_claims
from faith_jax.datasets.samples import sample_folder
from faith_jax.scoring.claims import ClaimVerifier
from faith_jax.scoring.registry import load_scorer
from faith_jax.statistics.texts.argument_coverage import tell_arguments
from faith_jax.tokenizers.vocabularies import load_vocabulary

# Nothing of this is in the package's sample or in the model's training text.
QUERY = "Should the village keep its old mill?"
PRO = ["School classes learn there how flour was made.", "The mill draws walkers to the inn."]
CON = [
    "The roof lets in rain and repairs cost a lot.",
    "Bats and owls would have it to themselves.",
]


@pytest.fixture(scope="module")
def mini():
    return faith_jax.load_model("mini")


def test_what_is_embedded():
    assert embedded_models() == ["mini", "mini_nli"]
    assert reads_two_sides("mini")
    assert not reads_two_sides("mini_nli")


@pytest.mark.parametrize("name", ["mini", "mini_nli"])
def test_its_card_and_weights(name):
    folder = checkpoint_path(name)
    weights = (folder / "model.safetensors").read_bytes()
    assert len(weights) < 12e6
    header = json.loads(weights[8 : 8 + int.from_bytes(weights[:8], "little")])
    header.pop("__metadata__", None)
    assert {entry["dtype"] for entry in header.values()} == {"BF16"}
    assert hashlib.sha256(weights).hexdigest() in (folder / "README.md").read_text()


def test_its_size_and_vocabulary(mini):
    assert sum(leaf.size for leaf in jax.tree.leaves(mini.params)) == 5_767_136
    assert mini.config.vocab_size >= load_vocabulary().vocab_size  # filled up to whole blocks


def test_it_tells_all_arguments_as_two_views(mini):
    vocabulary = load_vocabulary()
    inputs = templates.npov_generate_inputs(QUERY, PRO, CON)
    tokens = np.asarray([[*vocabulary.encode(inputs), 1]])
    result = mini.decode(tokens, max_length=96)
    text = vocabulary.decode([int(token) for token in result.tokens[0][: int(result.length[0])]])
    response = templates.npov_response(text)
    assert response.endswith(".")
    coverage = tell_arguments(response, [*PRO, *CON], QUERY)
    assert (coverage.recall(1), coverage.precision(1)) == (1, 1), response
    pro, con = response.index(PRO[0][7:]), response.index(CON[0][4:])
    assert re.search(r"\b(Supporters|Proponents|Advocates|Those|Some)\b", response[:pro])
    assert re.search(r"\b([Oo]pponents|[Cc]ritics|[Tt]hose|[Oo]thers?)\b", response[pro:con])


def test_mini_nli_tells_what_is_added_and_what_is_left_out():
    link = "Supporters say that", "Opponents, however, argue:"
    text = f"{link[0]} {PRO[0][:1].lower()}{PRO[0][1:]} {PRO[1]} {link[1]} {CON[0]} {CON[1]}"
    added = text.replace(PRO[1], f"{PRO[1]} Its wheel could give power to forty houses.")
    left_out = text.replace(PRO[1], "")
    responses, arguments = [text, added, left_out], {"pro": PRO, "con": CON}
    for name, worse in (("hallucination", 1), ("coverage", 2)):
        scorer = faith_jax.load_scorer(f"npov_nli_{name}", model="mini_nli")
        values = [s.value for s in scorer.score([arguments] * 3, responses, [[QUERY]] * 3)]
        assert values[worse] < 0.1
        assert min(value for place, value in enumerate(values) if place != worse) > 0.9


def test_mini_nli_verifies_claims_of_the_sample():
    """Claims on articles that it was not trained on; chance is a third (docs/dialfact.md)."""
    rows = list(read_claims(sample_folder("dialfact") / "valid_split.jsonl", BadRows()))
    examples = [
        GroundedExample(
            row["id"],
            Grounding(tuple(row["evidence"]), tuple(row["evidence_titles"])),
            (),
            row["response"],
        )
        for row in rows
    ]
    verifier = ClaimVerifier("mini_nli")
    verdicts = verifier.verdicts([verifier.read(example) for example in examples])
    right = [v.label == row["response_label"] for v, row in zip(verdicts, rows, strict=True)]
    assert sum(right) / len(right) > 0.7


def test_scores_of_mini_on_other_texts_are_warned_of_once(caplog):
    log_once.cache_clear()
    two_sides = Grounding(("It is hot.", "It is dear."), ("pro", "con"))
    embedded.warn_of_other_texts("mini", [two_sides])
    embedded.warn_of_other_texts("mini_nli", [Grounding(("Tea is hot.",))])
    embedded.warn_of_other_texts(None, [Grounding(("Tea is hot.",))])
    assert not caplog.messages
    scorer = load_scorer("pmi_faith_mean", model="mini")
    for _ in range(2):
        example = GroundedExample("1", Grounding(("Tea is hot.",)), (), "Tea is hot.")
        (score,) = scorer.score([example])
        assert math.isfinite(score.value)
    (warning,) = [text for text in caplog.messages if "two sides" in text]
    assert "mini was trained on arguments of two sides: its scores" in warning
