import json
import math
import shutil

import numpy as np
import pytest

from faith_jax.core.cutting import Kind
from faith_jax.core.errors import ConfigError
from faith_jax.core.types import GroundedExample, Grounding
from faith_jax.inference import load_model
from faith_jax.scoring.registry import load_scorer
from faith_jax.tokenizers.vocabularies import load_vocabulary
from tests.scoring.reference import padded

TEA = Grounding(("Tea is a leaf.", "It grows."))
EXAMPLES = [
    GroundedExample("1", TEA, ("Hi!", "What is tea?"), "A leaf"),
    GroundedExample("2", Grounding(("The lake freezes in winter.",)), (), "It doesn't, ever"),
    GroundedExample("3", Grounding(("Tea",)), ("So?",), "   "),
]  # fmt: skip


def sum_log_prob(folder, prompt, response):
    """log P(response | prompt), text by text, from the whole softmax."""
    model, tokens = load_model(folder), load_vocabulary(folder)
    inputs, targets = tokens.encode(prompt), tokens.encode(response)
    if model.config.is_decoder_only:
        first, row = len(inputs) - 1, padded(inputs + targets, step=96)
        return model.next_log_probs(row)[0, first : first + len(targets)]
    prefix = tokens.prefix_ids  # which BART's decoder reads too
    inputs = padded([*prefix, *inputs, *tokens.suffix_ids], model.pad_id, 128)
    log_probs = model.target_log_probs(inputs, padded([*prefix, *targets], model.pad_id, 32))[0]
    return log_probs[len(prefix) :][: len(targets)]


TEXT = "Tea is a leaf. It grows."
DOCUMENT, TURNS = f"Document: {TEXT}\n\n", "Hi!.\nWhat is tea?.\n"
PROMPTS = {
    "document_prompt": "[{document}]",
    "turn_prompt": "<{turn}>",
    "cue_prompt": "",
    "response_prompt": "{response}!",
    "last_turns": 1,
}
CUE_READ = {"score_cue": False}


@pytest.mark.parametrize(
    ("name", "options", "given", "without", "response"),
    [
        # The authors' cue is scored with the response, as in their code, or read in both terms.
        ("pmi_faith", {}, f"{DOCUMENT}{TURNS}", TURNS, "Agent: A leaf."),
        ("pmi_faith", CUE_READ, f"{DOCUMENT}{TURNS}Agent:", f"{TURNS}Agent:", " A leaf."),
        ("pmi_faith_unconditional", CUE_READ, f"{DOCUMENT}Agent:", "Agent:", " A leaf."),
        ("pmi_faith", PROMPTS, f"[{TEXT}]<What is tea?>", "<What is tea?>", "A leaf!"),
    ],
)
def test_the_difference_of_two_log_likelihoods(gpt2, name, options, given, without, response):
    terms = sum_log_prob(gpt2, given, response) - sum_log_prob(gpt2, without, response)
    for kind, expected in (("sum", terms.sum()), ("mean", terms.mean())):
        score, *_ = load_scorer(f"{name}_{kind}", model=gpt2, **options).score(EXAMPLES)
        assert score.value == pytest.approx(expected, abs=1e-4)
        assert score.cut_tokens == 0


@pytest.mark.parametrize(
    ("options", "turns"),
    [({}, "<wizard> Hi! <seeker> What is tea?"), ({"last_turns": 1}, "<seeker> What is tea?")],
)
def test_an_encoder_decoder_sees_the_dialogue_format(bart, options, turns):
    conditional = sum_log_prob(bart, f"<knowledge> {TEXT} {turns}", "A leaf")
    without = sum_log_prob(bart, turns, "A leaf")
    value = load_scorer("pmi_faith_sum", model=bart, **options).score(EXAMPLES)[0].value
    assert value == pytest.approx((conditional - without).sum(), abs=1e-3)


def test_words_have_the_same_scores_with_the_cue_scored_or_read(gpt2):
    scores = []
    for score_cue in (True, False):
        (score,) = load_scorer("pmi_faith_sum", model=gpt2, score_cue=score_cue).score(EXAMPLES[:1])
        scores.append(score)
    places = [(word.word, word.start, word.end) for word in scores[0].words]
    assert places == [("A", 0, 1), ("leaf", 2, 6)]
    for scored, read in zip(scores[0].words, scores[1].words, strict=True):
        assert scored.score == pytest.approx(read.score, abs=1e-4)
    assert abs(scores[0].value - scores[1].value) > 1e-4  # the cue's own tokens


def test_a_model_without_anything_to_read_begins_with_its_end_token(gpt2):
    options = {"cue_prompt": "", "model": gpt2}
    value = load_scorer("pmi_faith_unconditional_sum", **options).score(EXAMPLES)[0].value
    tokens, model = load_vocabulary(gpt2), load_model(gpt2)
    targets = tokens.encode(" A leaf.")
    row = padded([tokens.eos_id, *targets], step=96)
    without = model.next_log_probs(row)[0, : len(targets)].sum()
    conditional = sum_log_prob(gpt2, "Document: Tea is a leaf. It grows.\n\n", " A leaf.").sum()
    assert value == pytest.approx(conditional - without, abs=1e-4)


def test_word_scores_add_up_to_the_sum(gpt2):
    # The cue, and the full stop that the prompt adds, belong to no word of the response.
    options = {"response_prompt": " {response}", "score_cue": False}
    score = load_scorer("pmi_faith_sum", model=gpt2, **options).score(EXAMPLES)[1]
    assert [word.word for word in score.words] == ["It", "doesn't,", "ever"]
    assert sum(word.score for word in score.words) == pytest.approx(score.value, abs=1e-4)
    response = EXAMPLES[1].response
    assert all(response[word.start : word.end] == word.word for word in score.words)


def test_an_empty_response_is_undefined(gpt2):
    score = load_scorer("pmi_faith_mean", model=gpt2).score(EXAMPLES)[2]
    assert math.isnan(score.value)
    assert score.words == ()


def test_what_is_too_long_loses_the_documents_end_in_one_term(gpt2):
    """A scored cue is at the start of the targets; otherwise it follows the history."""
    long = GroundedExample("1", Grounding(("tea " * 40,)), ("old " * 9, "Lake?"), "A leaf.")
    tokens = load_vocabulary(gpt2)
    turns = ("old " * 9) + ".\nLake?.\n"
    for score_cue, history, response in (
        (True, turns, "Agent: A leaf.."),
        (False, turns + "Agent:", " A leaf.."),
    ):
        scorer = load_scorer("pmi_faith_sum", model=gpt2, max_length=72, score_cue=score_cue)
        prompt = scorer._prompter(long)
        assert prompt.without_document.inputs == tokens.encode(history)
        assert prompt.without_document.targets == tokens.encode(response)
        assert prompt.with_document.targets == prompt.without_document.targets
        inputs, targets, _ = prompt.with_document
        assert len(inputs) + len(targets) == 72
        assert tokens.decode(inputs).startswith("Document: tea tea")
        assert tokens.decode(inputs).endswith("\n\n" + history)
        whole = len(tokens.encode("Document: " + "tea " * 40 + "\n\n" + history)) + len(targets)
        (score,) = scorer.score([long])
        assert dict(score.cut) == {"knowledge": whole - 72}
        conditional = sum_log_prob(gpt2, tokens.decode(inputs), response)
        without = sum_log_prob(gpt2, history, response)
        assert score.value == pytest.approx((conditional - without).sum(), abs=1e-4)


def test_a_response_as_long_as_all_loses_its_end(gpt2):
    long = GroundedExample("1", Grounding(("tea " * 40,)), ("Lake?",), "leaf " * 60)
    prompt = load_scorer("pmi_faith_sum", model=gpt2, max_length=64)._prompter(long)
    assert len(prompt.with_document.inputs) + len(prompt.with_document.targets) == 64
    tokens = load_vocabulary(gpt2)
    assert tokens.decode(prompt.with_document.targets).startswith("Agent: leaf leaf")
    last = len(tokens.encode("Lake?.\n"))
    document = tokens.encode("tea " * 40)
    assert prompt.cut[Kind.KNOWLEDGE] == len(document) - (64 - last) // 4
    assert prompt.cut[Kind.RESPONSE] > 0
    ends = [end for _, end in prompt.token_spans]
    assert ends == sorted(ends)
    assert len(ends) == len(prompt.with_document.targets)


def test_a_job_has_three_shapes_for_all_its_windows(gpt2):
    rng = np.random.default_rng(0)

    def text(most):
        return " ".join(rng.choice(["tea", "lake", "leaf", "grows"], rng.integers(1, most)))

    examples = [
        GroundedExample(str(number), Grounding((text(14),)), (text(4),), text(7))
        for number in range(90)
    ] + EXAMPLES[2:]
    expected = [s.value for s in load_scorer("fluency", model=gpt2).score(examples)]
    scorer = load_scorer("fluency", model=gpt2, max_length=95, tokens_per_batch=512)
    scorer.prepare(examples[:40], 30, len(examples))
    parts = [scorer.score(examples[start : start + 30]) for start in range(0, len(examples), 30)]
    scores = [score.value for part in parts for score in part]
    np.testing.assert_allclose(scores, expected, atol=1e-4)
    engine = scorer._engine
    assert 1 <= engine.num_compilations <= len(engine._packer.sizes) <= 3


def test_scorers_of_one_model_share_its_passes(gpt2, monkeypatch):
    first = load_scorer("pmi_faith_sum", model=gpt2)
    second = load_scorer("pmi_faith_mean", model=gpt2)
    assert first._prompter is second._prompter
    first.score(EXAMPLES)

    def refuse(*_):
        raise AssertionError

    monkeypatch.setattr(first._prompter.engine, "log_probs", refuse)
    assert math.isfinite(second.score(EXAMPLES)[0].value)


def test_the_tokenizer_of_another_model(gpt2):
    with pytest.raises(ConfigError, match=r"4196 ids .* 420\. .* end token .* vocabulary="):
        load_scorer("pmi_faith_sum", model=gpt2, vocabulary="english_4096")


def test_a_tokenizer_whose_end_is_another_token(gpt2, tmp_path):
    folder = tmp_path / "m"
    shutil.copytree(gpt2, folder)
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"eos_token_id": 7}))
    with pytest.raises(ConfigError, match=r"end token is id .* but the model's is id 7"):
        load_scorer("pmi_faith_sum", model=str(folder))
