"""A model read from a published folder is written with the same tensors."""

import json

import numpy as np
import pytest

from faith_jax.checkpoints.checkpoint import Checkpoint, content_hash, flatten
from faith_jax.checkpoints.hugging_face.folder import unlike, write_huggingface
from faith_jax.checkpoints.native import read_native, write_native
from faith_jax.checkpoints.open import open_checkpoint
from faith_jax.core.errors import CheckpointError
from tests.checkpoints import family_folders
from tests.checkpoints.family_folders import draw, write
from tests.checkpoints.synthetic import stored
from tests.models import families, tiny

CASES = family_folders.cases()
# Its pooler, which Transformers saves too, is not used.
DROPPED = {"roberta_base_model": {"pooler.dense.weight", "pooler.dense.bias"}}


def tensors_of(case):
    return draw(family_folders.shapes_of(case))


def same_params(first, second):
    first, second = flatten(first), flatten(second)
    assert first.keys() == second.keys()
    return all(np.array_equal(first[name], second[name]) for name in first)


def assert_reopened(checkpoint, folder):
    """Writes a checkpoint and opens it again, with equal parameters and config."""
    write_huggingface(checkpoint, folder)
    again = open_checkpoint(folder)
    assert again.config == checkpoint.config
    assert content_hash(again.params) == content_hash(checkpoint.params)


@pytest.mark.parametrize("case", CASES)
def test_tensors_and_settings_come_back(tmp_path, case):
    published = family_folders.write_case(tmp_path / "published", case)
    checkpoint = open_checkpoint(published)
    assert_reopened(checkpoint, tmp_path / "again")
    expected = stored(published)
    for name in DROPPED.get(case, ()):
        del expected[name]
    family = family_folders.family_of(case)
    prefix, heads = family.prefix, (*family.heads, "lm_head")
    full = {name if name.startswith(heads) else f"{prefix}{name}" for name in expected}
    assert set(stored(tmp_path / "again")) == (
        set(expected) if any(name.startswith(prefix) for name in expected) else full
    )
    assert {n.removeprefix(prefix): t for n, t in stored(tmp_path / "again").items()} == {
        n.removeprefix(prefix): t for n, t in expected.items()
    }
    read, written = (
        json.loads((tmp_path / name / "config.json").read_text()) for name in ("published", "again")
    )
    # Fields that are not ours stay.
    assert read.keys() <= written.keys()
    assert written["model_type"] == read["model_type"]
    begin = written.get("bos_token_id")
    assert begin == read.get("bos_token_id", begin)
    # Through our own form, and without what was kept of the folder.
    if case in ("bart_plain", "deberta_long", "llama_rope_llama3"):
        write_native(checkpoint, tmp_path / "ours")
        assert_reopened(read_native(tmp_path / "ours"), tmp_path / "from_ours")
    assert_reopened(Checkpoint(checkpoint.config, checkpoint.params), tmp_path / "alone")


@pytest.mark.parametrize(
    "case", ["albert_squad", "bart_plain", "gpt2_inner_relu", "roberta_types", "deberta_v1_nli"]
)
def test_files_may_lack_the_base_models_prefix(tmp_path, case):
    family = family_folders.family_of(case)
    prefix, heads = family.prefix, (*family.heads, "lm_head")
    tensors = tensors_of(case)
    # Transformers saves base models without it.
    short = {name.removeprefix(prefix): array for name, array in tensors.items()}
    long = {
        name if name.startswith(heads) else prefix + name: array for name, array in short.items()
    }
    # Or the names of a module that torch.compile and DistributedDataParallel have wrapped.
    wrapped = {f"module._orig_mod.{name}": array for name, array in long.items()}
    config = family_folders.config_of(case)
    read = [
        open_checkpoint(write(tmp_path / name, config, arrays))
        for name, arrays in (("short", short), ("long", long), ("wrapped", wrapped))
    ]
    for opened in read[1:]:
        assert same_params(read[0].params, opened.params)
        assert read[0].config == opened.config
    write_huggingface(read[0], tmp_path / "again")
    assert stored(tmp_path / "again") == stored(tmp_path / "long")


@pytest.mark.parametrize("case", ["bart_plain", "gpt2_inner_relu", "llama_rope_linear", "t5_v1_1"])
@pytest.mark.parametrize(
    ("before", "within", "named"),
    [
        ("", "", None),
        ("_fsdp_wrapped_module.", "_checkpoint_wrapped_module.", None),
        ("model.", "", "model."),
        ("transformer.", "", "transformer."),
        ("base_model.model.", "", "base_model.model."),
        ("model._orig_mod.", "_orig_mod.", "model."),
    ],
)
def test_names_in_a_module_that_holds_the_model(tmp_path, caplog, case, before, within, named):
    tensors, config = tensors_of(case), family_folders.config_of(case)
    expected = open_checkpoint(write(tmp_path / "plain", config, tensors))
    wrapped = {f"{before}{name.replace('0.', f'0.{within}')}": a for name, a in tensors.items()}
    caplog.set_level("INFO")
    opened = open_checkpoint(write(tmp_path / "wrapped", config, wrapped))
    assert same_params(opened.params, expected.params)
    assert opened.config == expected.config
    assert [record.getMessage() for record in caplog.records] == [
        f"{tmp_path}/wrapped: all names of tensors begin with {named}, which is left out."
    ] * bool(named)


@pytest.mark.parametrize(
    ("config", "names", "missing"),
    [
        # Not all names have it.
        ("t5_v1_1", lambda name: name if "final" in name else f"model.{name}", "shared.weight"),
        # A BERT in place of a RoBERTa.
        ("roberta_types", lambda name: name.replace("roberta.", "bert."), "roberta.embeddings"),
    ],
)
def test_a_prefix_of_another_model_stays(tmp_path, config, names, missing):
    tensors = {names(name): array for name, array in tensors_of(config).items()}
    folder = write(tmp_path / "other", family_folders.config_of(config), tensors)
    with pytest.raises(CheckpointError, match=f"the tensor {missing}.* is missing"):
        open_checkpoint(folder)


@pytest.mark.parametrize("name", families.FAMILIES)
def test_a_model_that_was_never_published_is_written_and_read(tmp_path, name):
    config = families.FAMILIES[name]
    _, params = tiny.model_and_params(config)
    write_huggingface(Checkpoint(config, params), tmp_path / "written")
    read = open_checkpoint(tmp_path / "written")
    assert content_hash(read.params) == content_hash(params)
    assert unlike(config, read.config) == []


@pytest.mark.parametrize(
    ("name", "changes", "message"),
    [
        ("gpt2", {"head_dim": 6}, "head_dim = 6 .* GPT-2 model, which would have 4"),
        ("bloom", {"mlp_dim": 40}, "mlp_dim = 40 .* BLOOM model, which would have 48"),
        ("llama", {"mlp_activations": ("silu", "silu")}, "mlp_activations"),
        ("llama", {"logits_bias": True}, "the parameter decoder/logits_bias has no place"),
        ("llama", {"attention_scale": 1.0}, r"attention_scale = 1\.0"),
        ("roberta", {"norm": "rms"}, "norm = 'rms'"),
        ("bert", {"embedding_dim": 4}, "embedding_dim = 4"),
        ("albert", {"embedding_norm": False}, "embedding_norm"),
    ],
)
def test_what_a_published_folder_cannot_say_is_not_written(tmp_path, name, changes, message):
    config = families.FAMILIES[name].replace(**changes)
    checkpoint = Checkpoint(config, tiny.model_and_params(config)[1], {"source": "mine"})
    with pytest.raises(CheckpointError, match=f"^mine: .*{message}"):
        write_huggingface(checkpoint, tmp_path / "written")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"knowledge_attention": True}, "knowledge_attention = True .* T5 model"),
        ({"norm_offset": 1.0}, "norm_offset"),
        ({"num_encoder_layers": 0}, "0 encoder and 2 decoder layers .* of no family"),
    ],
)
def test_what_t5s_folder_cannot_say_is_not_written(tmp_path, changes, message):
    config = tiny.TINY.replace(**changes)
    checkpoint = Checkpoint(config, tiny.model_and_params(config)[1], {"source": "mine"})
    with pytest.raises(CheckpointError, match=message):
        write_huggingface(checkpoint, tmp_path / "written")
    assert not list(tmp_path.iterdir())


def opened_with(tmp_path, case, more=None, without=(), changes=None):
    """Opens a stored model's folder with other tensors and fields."""
    tensors = {k: v for k, v in tensors_of(case).items() if k not in without} | (more or {})
    config = family_folders.config_of(case) | (changes or {})
    return open_checkpoint(write(tmp_path / "changed", config, tensors))


def written_names(tmp_path, checkpoint):
    write_huggingface(checkpoint, tmp_path / "again")
    return set(stored(tmp_path / "again"))


def test_norms_may_have_tensorflows_names(tmp_path):
    named = {
        name.replace("LayerNorm.weight", "LayerNorm.gamma").replace(
            "LayerNorm.bias", "LayerNorm.beta"
        ): array
        for name, array in tensors_of("bert_nli").items()
    }
    read = open_checkpoint(write(tmp_path / "old", family_folders.config_of("bert_nli"), named))
    assert same_params(read.params, opened_with(tmp_path, "bert_nli").params)
    assert written_names(tmp_path, read) == set(tensors_of("bert_nli"))


@pytest.mark.parametrize("dtype", [np.float32, np.bool_])
def test_gpt2s_masks_are_dropped(tmp_path, dtype):
    masks = {f"transformer.h.{i}.attn.bias": np.ones((1, 1, 32, 32), dtype) for i in range(2)}
    masks["transformer.h.0.attn.masked_bias"] = np.float32([-1e4])
    opened = opened_with(tmp_path, "gpt2_inner_relu", masks)
    plain = tensors_of("gpt2_inner_relu")
    assert written_names(tmp_path, opened) == set(plain)
    expected = open_checkpoint(family_folders.write_case(tmp_path / "plain", "gpt2_inner_relu"))
    assert same_params(opened.params, expected.params)


def test_robertas_numbers_and_other_heads_are_dropped(tmp_path):
    rng = np.random.default_rng(0)
    more = {
        "roberta.embeddings.position_ids": np.arange(34)[None],
        "roberta.pooler.dense.weight": rng.normal(size=(16, 16)).astype(np.float32),
        "roberta.pooler.dense.bias": rng.normal(size=16).astype(np.float32),
        "lm_head.bias": rng.normal(size=40).astype(np.float32),
        "lm_head.dense.weight": rng.normal(size=(16, 16)).astype(np.float32),
        "lm_head.layer_norm.weight": rng.normal(size=16).astype(np.float32),
    }
    opened = opened_with(tmp_path, "roberta_types", more)
    assert opened.config.label_names == ("entailment", "neutral", "contradiction")
    assert written_names(tmp_path, opened) == set(tensors_of("roberta_types"))


@pytest.mark.parametrize("family", ["bert", "roberta"])
def test_corefberts_pre_training_is_dropped(tmp_path, family):
    """Its authors save all that they pre-train: the body, a masked language model, and `coef`."""
    case = {"bert": "bert_nli", "roberta": "roberta_types"}[family]
    more = {"coef": np.full(16, 1 / 16, np.float32)}
    table = tensors_of(case)[f"{family}.embeddings.word_embeddings.weight"]
    heads = {
        "bert": {
            "cls.predictions.bias": np.zeros(len(table), np.float32),
            "cls.predictions.transform.dense.weight": np.eye(16, dtype=np.float32),
            "cls.predictions.transform.LayerNorm.bias": np.zeros(16, np.float32),
            "cls.predictions.decoder.weight": table,
        },
        "roberta": {
            "lm_head.bias": np.zeros(len(table), np.float32),
            "lm_head.decoder.weight": table,
        },
    }[family]
    opened = opened_with(tmp_path, case, more | heads)
    assert written_names(tmp_path, opened) == set(tensors_of(case))
    plain = open_checkpoint(family_folders.write_case(tmp_path / "plain", case))
    assert same_params(opened.params, plain.params)


def test_debertas_table_of_the_masked_language_model_is_dropped(tmp_path):
    more = {
        "deberta.embeddings.position_embeddings.weight": np.ones((48, 16), np.float32),
        "lm_predictions.lm_head.bias": np.ones(40, np.float32),
    }
    opened = opened_with(tmp_path, "deberta_v1_nli", more)
    assert written_names(tmp_path, opened) == set(tensors_of("deberta_v1_nli"))


def test_a_masked_language_model_has_no_classes(tmp_path):
    head = [name for name in tensors_of("roberta_types") if name.startswith("classifier")]
    opened = opened_with(
        tmp_path, "roberta_types", {"lm_head.bias": np.zeros(40, np.float32)}, head
    )
    assert opened.config.label_names == ()
    assert not [name for name in flatten(opened.params) if "classifier" in name]


COPIES = ("model.encoder.embed_tokens.weight", "model.decoder.embed_tokens.weight")


def test_barts_copies_of_the_embedding(tmp_path):
    tensors = tensors_of("bart_plain")
    embedding = tensors["model.shared.weight"]
    copies = dict.fromkeys((*COPIES, "lm_head.weight"), embedding)
    opened = opened_with(tmp_path, "bart_plain", copies)
    assert opened.config.logits_via_embedding
    assert written_names(tmp_path, opened) == set(tensors)
    with pytest.raises(CheckpointError, match=f"{COPIES[1]} differs from model.shared.weight"):
        opened_with(tmp_path, "bart_plain", copies | {COPIES[1]: embedding + 1})


@pytest.mark.parametrize("kept", [COPIES[0], "lm_head.weight"])
def test_bart_may_hold_the_embedding_under_one_other_name(tmp_path, kept):
    embedding = tensors_of("bart_plain")["model.shared.weight"]
    opened = opened_with(tmp_path, "bart_plain", {kept: embedding}, ["model.shared.weight"])
    np.testing.assert_array_equal(opened.params["token_embedder"]["embedding"], embedding)
    assert written_names(tmp_path, opened) == set(tensors_of("bart_plain"))


def test_bart_without_a_bias_of_its_logits(tmp_path):
    opened = opened_with(tmp_path, "bart_plain", without=["final_logits_bias"])
    assert not opened.config.logits_bias
    assert "logits_bias" not in opened.params["decoder"]
    assert_reopened(opened, tmp_path / "again")


def test_llamas_old_frequencies_are_dropped(tmp_path):
    more = {
        f"model.layers.{i}.self_attn.rotary_emb.inv_freq": np.float32([1.0, 0.1]) for i in range(2)
    }
    opened = opened_with(tmp_path, "llama_rope_linear", more)
    assert written_names(tmp_path, opened) == set(tensors_of("llama_rope_linear"))


@pytest.mark.parametrize("case", ["llama_biases_tied", "gpt2_inner_relu"])
def test_a_tied_output_layer_may_be_stored(tmp_path, case):
    embedding = next(
        v for k, v in tensors_of(case).items() if k.endswith(("wte.weight", "tokens.weight"))
    )
    opened = opened_with(tmp_path, case, {"lm_head.weight": embedding})
    assert opened.config.logits_via_embedding
    assert "logits_dense" not in opened.params["decoder"]
    assert written_names(tmp_path, opened) == set(tensors_of(case))


def test_a_tied_output_layer_that_was_trained_apart_is_one_of_its_own(tmp_path):
    head = np.random.default_rng(0).normal(size=(40, 16)).astype(np.float32)
    opened = opened_with(tmp_path, "gpt2_inner_relu", {"lm_head.weight": head})
    assert not opened.config.logits_via_embedding
    np.testing.assert_array_equal(opened.params["decoder"]["logits_dense"]["kernel"], head.T)
    assert_reopened(opened, tmp_path / "again")


def test_half_precision_keeps_its_bits(tmp_path):
    halved = {k: v.astype(np.float16) for k, v in tensors_of("llama_biases_tied").items()}
    folder = write(tmp_path / "half", family_folders.config_of("llama_biases_tied"), halved)
    write_huggingface(open_checkpoint(folder), tmp_path / "again")
    assert stored(tmp_path / "again") == stored(folder)
    assert json.loads((tmp_path / "again" / "config.json").read_text())["dtype"] == "float16"


def test_a_changed_setting_is_written(tmp_path):
    checkpoint = open_checkpoint(family_folders.write_case(tmp_path / "old", "mistral_window"))
    changed = Checkpoint(
        checkpoint.config.replace(sliding_window=7), checkpoint.params, checkpoint.metadata
    )
    write_huggingface(changed, tmp_path / "new")
    assert json.loads((tmp_path / "new" / "config.json").read_text())["sliding_window"] == 7
    assert open_checkpoint(tmp_path / "new").config == changed.config


@pytest.mark.parametrize(
    ("case", "fields", "read"),
    [
        # Only the first Gemma's "gelu" means the tanh form.
        ("gemma2_softcaps", {"hidden_activation": "gelu"}, {"mlp_activations": "gelu_exact"}),
        ("gemma_legacy_gelu", {}, {"mlp_activations": "gelu"}),
        ("modernbert_nli", {"classifier_activation": "relu"}, {"classifier_activation": "relu"}),
    ],
)
def test_activations_come_back(tmp_path, case, fields, read):
    opened = opened_with(tmp_path, case, changes=fields)
    settings = opened.config.to_dict() | {"mlp_activations": opened.config.mlp_activations[0]}
    assert settings | read == settings
    assert_reopened(Checkpoint(opened.config, opened.params), tmp_path / "again")


def test_both_stacks_of_a_t5gemma_have_exact_gelu(tmp_path):
    config = family_folders.config_of("t5gemma_windows")
    stacks = {name: config[name] | {"hidden_activation": "gelu"} for name in ("encoder", "decoder")}
    opened = opened_with(tmp_path, "t5gemma_windows", changes=stacks)
    assert opened.config.mlp_activations == ("gelu_exact", "linear")
    assert_reopened(opened, tmp_path / "again")


def test_a_kept_field_that_would_hide_a_changed_setting_is_an_error(tmp_path):
    read = opened_with(tmp_path, "llama_rope_linear")
    changed = Checkpoint(read.config.replace(rope_factor=4.0), read.params, read.metadata)
    with pytest.raises(CheckpointError, match=r"rope_factor = 4\.0 .*, which would have 2\.5"):
        write_huggingface(changed, tmp_path / "new")
