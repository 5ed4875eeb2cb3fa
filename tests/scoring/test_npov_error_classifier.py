import dataclasses
import math

import numpy as np
import pytest

from faith_jax.checkpoints.native import ERROR_LABELS, write_native
from faith_jax.checkpoints.open import open_checkpoint
from faith_jax.core import templates
from faith_jax.core.errors import InputError
from faith_jax.core.templates import PUBLISHED
from faith_jax.core.types import GroundedExample, Grounding
from faith_jax.inference import load_model
from faith_jax.scoring.npov_error_classifier import _classifier_input, _label_tokens
from faith_jax.scoring.registry import load_scorer
from faith_jax.tokenizers.vocabularies import load_vocabulary
from tests.scoring.reference import padded

EXAMPLES = [
    GroundedExample(
        "1",
        Grounding(("It wakes.", "Tea calms.", "It is cheap."), ("con", "pro", "pro")),
        ("Is tea better?",),
        "Tea calms and wakes.",
    ),
    # A synthetic hallucination with one argument a side leaves one side without arguments.
    GroundedExample("2", Grounding(("Tea calms.",), ("pro",)), (), "Tea calms, but it wakes."),
]


def mean_log_prob(folder, example, label):
    """The log-probability of the label's own tokens, after the tokens that both targets share."""
    opened, tokens = load_model(folder), load_vocabulary(folder)
    sides = [list(example.grounding.of(side)) for side in ("pro", "con")]
    query = example.history[-1] if example.history else ""
    text = templates.npov_classifier_inputs(query, example.response, *sides)
    inputs = [*tokens.prefix_ids, *tokens.encode(text)]
    target = tokens.encode("{label: " + label + "}")
    labels = [tokens.encode("{label: " + word + "}") for word in ("YES", "NO", "FINE")]
    first = next(i for i in range(99) if len({ids[i] for ids in labels}) > 1)
    last = len(target) - len(tokens.encode("}"))
    if opened.config.is_decoder_only:
        scores = opened.next_log_probs(padded(inputs + target, step=128))[0, len(inputs) - 1 :]
    else:
        inputs = padded([*inputs, *tokens.suffix_ids], opened.pad_id, 128)
        start = tokens.prefix_ids  # which BART's decoder reads too
        scores = opened.target_log_probs(inputs, padded([*start, *target], opened.pad_id, 16))[0]
        scores = scores[len(start) :]
    return scores[first:last].mean()


@pytest.mark.parametrize("labels", [("YES", "NO"), ("FINE", "NO")])
def test_the_softmax_of_two_labels(model, labels):
    options = {"no_error_label": labels[0], "error_label": labels[1]}
    for name in ("npov_hallucination", "npov_coverage"):
        scores = load_scorer(name, model=model, **options).score(EXAMPLES)
        for example, score in zip(EXAMPLES, scores, strict=True):
            fine, wrong = (mean_log_prob(model, example, label) for label in labels)
            assert score.value == pytest.approx(1 / (1 + np.exp(wrong - fine)), abs=1e-5)
            assert score.cut_tokens == 0


def test_an_empty_response_is_undefined(model):
    arguments = Grounding(("Tea calms.", "Tea stains."), ("pro", "con"))
    examples = [
        GroundedExample(text, arguments, ("tea",), text) for text in ("Tea.", "", "\u200b ")
    ]
    scorer = load_scorer("npov_hallucination", model=model)
    first, *empty = scorer.score(examples)
    assert 0 < first.value < 1
    for score, example in zip(empty, examples[1:], strict=True):
        assert (math.isnan(score.value), score.undefined) == (True, "the response is empty")
        assert scorer.seen(example) is None


def test_flipped_labels_flip_the_score(model):
    plain = load_scorer("npov_coverage", model=model).score(EXAMPLES)
    options = {"no_error_label": "NO", "error_label": "YES"}
    flipped = load_scorer("npov_coverage", model=model, **options).score(EXAMPLES)
    for a, b in zip(plain, flipped, strict=True):
        assert a.value == pytest.approx(1 - b.value, abs=1e-6)


def test_the_labels_of_a_run_are_in_its_folder(model, tmp_path, caplog):
    folder = tmp_path / "run"
    taught = {"no_error": "FINE", "error": "YES"}
    checkpoint = open_checkpoint(str(model))
    write_native(dataclasses.replace(checkpoint, metadata={ERROR_LABELS: taught}), folder)
    options = {"no_error_label": "FINE", "error_label": "YES"}
    tokenizer = {"vocabulary": str(model)}
    expected = load_scorer("npov_coverage", model=model, **options).score(EXAMPLES)
    caplog.clear()
    values = load_scorer("npov_coverage", model=str(folder), **tokenizer).score(EXAMPLES)
    assert [score.value for score in values] == [score.value for score in expected]
    # Random weights write anything: the run was too short.
    (warning,) = (r.getMessage() for r in caplog.records if r.levelname == "WARNING")
    assert warning.startswith(f"model {folder}: it hardly ever writes 'FINE' or 'YES' (mean prob")
    assert warning.endswith("; train it for more steps")
    # An option comes first.
    options = tokenizer | {"no_error_label": "NO"}
    run_scores = load_scorer("npov_coverage", model=str(folder), **options).score(EXAMPLES)
    both = load_scorer("npov_coverage", model=model, no_error_label="NO", error_label="YES")
    assert [s.value for s in run_scores] == [s.value for s in both.score(EXAMPLES)]
    assert any(message.endswith("error_label as it was trained") for message in caplog.messages)


class Words:
    """A tokenizer of whole words and signs."""

    notation = PUBLISHED
    ids = {c: i for i, c in enumerate(["{label:", "YES", "NO", "}", "so", "Y"])}

    def encode(self, s):
        return [self.ids[w] for w in s.replace("}", " }").split()]


@pytest.mark.parametrize(
    ("no_error", "error", "expected"),
    [
        ("YES", "NO", ((0,), (1,), (2,))),
        ("so YES", "so NO", ((0, 4), (1,), (2,))),
        ("YES YES", "YES", ((0, 1), (1,), (3,))),
        ("so YES", "NO YES", ((0,), (4,), (2,))),
    ],
)
def test_only_what_differs_is_compared(no_error, error, expected):
    assert _label_tokens(Words(), no_error, error) == tuple(map(list, expected))


def test_too_long_inputs_lose_the_ends_of_their_arguments(model):
    whole = load_scorer("npov_coverage", model=model)
    lengths = [len(whole.read(example).ids) for example in EXAMPLES]
    target = whole._reader.reserved_tokens
    assert (target > 0) == load_model(model).config.is_decoder_only
    limit = max(lengths) + target - 6
    scores = load_scorer("npov_coverage", model=model, max_length=limit).score(EXAMPLES)
    for length, score in zip(lengths, scores, strict=True):
        over = max(0, length + target - limit)
        assert dict(score.cut) == ({"knowledge": over} if over else {})


@pytest.mark.parametrize(
    ("grounding", "message"),
    [
        (Grounding(("Tea.",)), "example 'x' has no perspectives; error classifiers judge pro and"),
        (Grounding(("Tea.",), ("for",)), "expected the perspectives pro and con, got 'for'"),
    ],
)
def test_examples_without_sides(grounding, message):
    with pytest.raises(InputError, match=message):
        _classifier_input(GroundedExample("x", grounding, (), "Tea."))
