"""From texts to a response as text; `tests/runs/test_families.py` compares it with `infer`."""

import json
import pathlib

import numpy as np
import pytest

from faith_jax.core.errors import ConfigError, InputError
from faith_jax.decoding.config import PMIConfig
from faith_jax.inference import CausalModel, EncoderDecoderModel, load_model
from faith_jax.tokenizers.vocabularies import load_vocabulary
from tests.models import tiny
from tests.scoring import tiny_models

SHORT = {"max_length": 5, "max_input_length": 64}


@pytest.fixture(scope="module", params=["bart", "gpt2"])
def model(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp("models") / request.param
    return load_model(tiny_models.write_model(folder, request.param, max_positions=128))


def written(model, text, plain=None, **options):
    """The model's response to a text, from its tokens."""
    tokenizer = load_vocabulary(model.path)
    ends = [] if model.config.is_decoder_only else [tokenizer.eos_id]
    rows = [[[*tokenizer.prefix_ids, *tokenizer.encode(t), *ends]] for t in (text, plain) if t]
    decode = model.decode if plain is None else model.decode_pmi
    result = decode(*rows, max_length=5, **options)
    tokens = np.asarray(result.tokens).reshape(-1, 5)
    lengths = np.asarray(result.length).reshape(-1)
    return [tokenizer.decode(row[:n].tolist()) for row, n in zip(tokens, lengths, strict=True)]


@pytest.mark.parametrize("model", ["bart"], indirect=True)
def test_texts_become_the_inputs_of_the_tasks(model):
    dialogue = {"knowledge": ["Tea is a leaf."], "history": ("Hi!", "What is tea?")}
    text = "<knowledge> Tea is a leaf. <seeker> What is tea?"
    assert model.respond(inputs=text, **SHORT) == written(model, text)[0]
    wizard_text = text.replace("<seeker>", "<wizard> Hi! <seeker>")
    assert model.respond(**dialogue, **SHORT) == written(model, wizard_text)[0]
    answer = model.respond("What is tea?", knowledge="Tea is a leaf.", **SHORT)
    assert answer == written(model, text)[0]
    sides = "{query: Is it?} {pro: It is.} {con: No. Never.}"
    response = model.respond("Is it?", pro="It is.", con=["No.", "Never."], **SHORT)
    assert response == written(model, sides)[0]


@pytest.mark.slow
def test_options_are_those_of_decoding(model, caplog):
    beams = model.respond(inputs="What is it?", num_beams=3, num_return=2, **SHORT)
    assert beams == written(model, "What is it?", num_beams=3, num_return=2)
    assert len(beams) == 2
    options = {"num_beams": 3, "num_return": 2, **SHORT}
    assert model.respond(inputs=("What is it?",), **options) == [beams]
    assert "2 responses not finished at max_length = 5" in caplog.messages
    sampled = [
        model.respond(inputs="What is it?", temperature=2.0, seed=seed, **SHORT) for seed in (0, 1)
    ]
    expected = [written(model, "What is it?", temperature=2.0, seed=seed)[0] for seed in (0, 1)]
    assert sampled == expected
    pmi = {"pmi": PMIConfig(alpha=0.5, p=1.0)}
    response = model.respond("What is tea?", knowledge="Tea is a leaf.", **pmi, **SHORT)
    text = "<knowledge> Tea is a leaf. <seeker> What is tea?"
    # A decoder-only model reads the tokens after the document, including the space before them.
    plain_text = f"{' ' * model.config.is_decoder_only}<seeker> What is tea?"
    assert response == written(model, text, plain_text, **pmi)[0]
    listed = model.respond(["What is tea?"], knowledge="Tea is a leaf.", **pmi, **SHORT)
    assert listed == [response]


@pytest.mark.parametrize("model", ["gpt2"], indirect=True)
def test_a_batch_has_the_responses_to_each_row(model, caplog):
    queries, pro = ["Is tea hot?", "Is it wet?", "Why is that?"], ["It is.", ["a", "b"], "Ink."]
    rows = [
        model.respond(query, pro=text, con="No.", **SHORT)
        for query, text in zip(queries, pro, strict=True)
    ]
    caplog.clear()
    assert model.respond(queries, pro=pro, con="No.", batch_size=2, **SHORT) == rows
    assert [m for m in caplog.messages if "finished" in m] == [
        "3 responses not finished at max_length = 5"
    ]
    # Dialogues: a history is a row's where it is a list in a list.
    turns = [["Hi!", "What is tea?"], ["And ink?"]]
    knowledge = np.array(["Tea is a leaf.", "Ink is blue."])
    dialogues = [
        model.respond(history=history, knowledge=str(text), **SHORT)
        for history, text in zip(turns, knowledge, strict=True)
    ]
    assert model.respond(history=turns, knowledge=knowledge, **SHORT) == dialogues
    assert model.respond([], knowledge="Ink is blue.", **SHORT) == []


@pytest.mark.parametrize("model", ["gpt2"], indirect=True)
def test_samples_of_a_batch_differ_by_row(model):
    sampling = {"temperature": 3.0, "seed": 1, "batch_size": 4}
    samples = model.respond(inputs=["What is it?"] * 4, **sampling, **SHORT)
    assert len(set(samples)) > 1
    assert model.respond(inputs=["What is it?"] * 4, **sampling, **SHORT) == samples


@pytest.mark.parametrize("model", ["gpt2"], indirect=True)
def test_a_long_input_is_cut_as_the_policy_says(model):
    knowledge = "Tea is a leaf that grows on hills. " * 20
    response = model.respond("What is tea?", knowledge=knowledge, max_length=5, max_input_length=48)
    assert isinstance(response, str)
    with pytest.raises(InputError, match=r"Row 0: max_input_length = 48: "):
        model.respond(
            "What is tea?", knowledge=knowledge, max_length=5, max_input_length=48,
            cut_policy="error",
        )  # fmt: skip


@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        ({"query": "Is it?"}, InputError, "respond: field 'query': give 'knowledge', or 'pro' and"),
        ({"query": "?", "pro": "a"}, InputError, "field 'con_arguments' is missing; give both"),
        ({}, InputError, "respond: expected 'query' with 'knowledge' or arguments"),
        ({"query": " ", "knowledge": "a"}, InputError, "respond: field 'query': expected a text"),
        (
            {"query": ["a", "b"], "pro": ["x", "y", "z"], "con": "w"},
            InputError,
            "respond: the lists of a batch have .*, got 2 of query, 3 of pro; a single text is for",
        ),
        (
            {"query": ["a", "b"], "pro": ["x", ""], "con": "w"},
            InputError,
            "respond: row 1: field 'pro': expected a text that is not empty",
        ),
        ({"inputs": ["a"], "batch_size": 0, "max_length": 5}, ConfigError, "batch_size"),
        ({"inputs": "a", "num_beam": 2}, ConfigError, "no option 'num_beam'. Did you mean 'num_b"),
        ({"inputs": "a", "cut_policy": "x"}, ConfigError, "cut_policy = 'x': expected"),
        (
            {"inputs": "a", "max_input_length": 4, "max_length": 5},
            ConfigError,
            r"^max_input_length: expected 8 to 128 tokens, the model's positions, got 4\.$",
        ),
        ({"inputs": "a", "max_length": 500}, ConfigError, "max_length: .* the model has 128"),
    ],
)
@pytest.mark.parametrize("model", ["gpt2"], indirect=True)
def test_what_is_wrong_is_named(model, given, error, message):
    with pytest.raises(error, match=message):
        model.respond(**given)


@pytest.mark.parametrize("place", ["tokenizer_config.json", "chat_template.jinja"])
def test_a_chat_template_that_is_not_applied_is_a_warning(place, tmp_path, caplog):
    folder = pathlib.Path(tiny_models.write_model(tmp_path / "gpt2", "gpt2", max_positions=128))
    model = load_model(str(folder))
    model.respond(inputs="a", **SHORT)
    assert "chat template" not in caplog.text
    path = folder / place
    text = path.read_text() if path.exists() else "{}"
    path.write_text(json.dumps(json.loads(text) | {"chat_template": "{{ messages }}"}))
    model.respond(inputs="a", **SHORT)
    model.respond(inputs="b", **SHORT)
    warnings = [message for message in caplog.messages if "chat template" in message]
    assert warnings == [
        f"{folder}: its chat template is not applied; for a model of chats, give 'inputs' with the "
        "special tokens of the turns, but without a begin token that the tokenizer adds."
    ]


def test_models_without_a_tokenizer_or_decoder_say_so(tmp_path):
    without = EncoderDecoderModel(tiny.TINY, tiny.model_and_params()[1])
    assert without.path is None
    with pytest.raises(ConfigError, match=r"opened from no folder with a tokenizer; .*vocabulary="):
        without.respond(inputs="a")
    folder = tiny_models.write_model(tmp_path / "gpt2", "gpt2", max_positions=128)
    model = load_model(folder)
    moved = CausalModel(model.config, model.params)
    options = {"inputs": "What is it?", **SHORT}
    assert moved.respond(vocabulary=folder, **options) == model.respond(**options)
    encoder = load_model(tiny_models.write_model(tmp_path / "nli", "deberta_nli"))
    with pytest.raises(ConfigError, match=r"encoder-only model .* cannot generate"):
        encoder.respond("Is it?", pro="a", con="b")
