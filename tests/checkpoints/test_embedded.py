"""The model inside the package."""

import hashlib
import json
import re

import jax
import numpy as np
import pytest

import faith_jax
from faith_jax.checkpoints.embedded import checkpoint_path, embedded_models
from faith_jax.core import templates
from faith_jax.statistics.told_arguments import tell_arguments
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
    assert embedded_models() == ["mini"]
    folder = checkpoint_path("mini")
    weights = (folder / "model.safetensors").read_bytes()
    assert len(weights) < 12e6
    header = json.loads(weights[8 : 8 + int.from_bytes(weights[:8], "little")])
    header.pop("__metadata__", None)
    assert {entry["dtype"] for entry in header.values()} == {"BF16"}
    assert hashlib.sha256(weights).hexdigest() in (folder / "README.md").read_text()


def test_its_size_and_vocabulary(mini):
    assert sum(leaf.size for leaf in jax.tree.leaves(mini.params)) == 5_767_136
    assert mini.config.vocab_size >= load_vocabulary().vocab_size  # filled up to whole blocks


@pytest.mark.parametrize("sides", [1, 2])
def test_it_tells_all_arguments_as_two_views(mini, sides):
    vocabulary = load_vocabulary()
    inputs = templates.npov_generate_inputs(QUERY, PRO[:sides], CON[:sides])
    tokens = np.asarray([[*vocabulary.encode(inputs), 1]])
    found = mini.decode(tokens, max_length=96)
    text = vocabulary.decode([int(token) for token in found.tokens[0][: int(found.length[0])]])
    response = templates.npov_response(text)
    assert response.endswith(".")
    told = tell_arguments(response, [*PRO[:sides], *CON[:sides]], QUERY)
    assert (told.recall(1), told.precision(1)) == (1, 1), response
    pro, con = response.index(PRO[0][7:]), response.index(CON[0][4:])
    assert re.search(r"\b(Supporters|Proponents|Advocates|Those|Some)\b", response[:pro])
    assert re.search(r"\b([Oo]pponents|[Cc]ritics|[Tt]hose|[Oo]thers?)\b", response[pro:con])
