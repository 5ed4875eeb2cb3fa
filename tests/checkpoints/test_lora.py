import json

import ml_dtypes
import numpy as np
import pytest
import safetensors.numpy

from faith_jax.checkpoints.checkpoint import flatten
from faith_jax.checkpoints.open import open_checkpoint
from faith_jax.cli import main
from faith_jax.core.errors import CheckpointError, ConfigError
from faith_jax.inference import load_model
from faith_jax.runs import convert
from tests.checkpoints import family_folders
from tests.checkpoints.family_folders import draw, write
from tests.checkpoints.synthetic import CONFIG, TIED, tensor_shapes, write_t5x

FIELDS = {
    "base_model_name_or_path": "google/t5-v1_1-small",
    "bias": "none",
    "fan_in_fan_out": False,
    "init_lora_weights": True,
    "lora_alpha": 16,
    "lora_dropout": 0.1,
    "modules_to_save": None,
    "peft_type": "LORA",
    "r": 2,
    "target_modules": ["q", "v", "wo"],
    "task_type": "SEQ_2_SEQ_LM",
    "use_dora": False,
    "use_rslora": False,
}
MISSING = object()  # leaves a field out
MODULES = (
    "encoder.block.1.layer.0.SelfAttention.q",
    "decoder.block.0.layer.1.EncDecAttention.v",
    "decoder.block.0.layer.2.DenseReluDense.wo",
)


def write_lora(folder, shapes, changes=None, modules=MODULES, rank=2, dtype=np.float32, more=None):
    """Writes an adapter as PEFT's `save_pretrained` does; returns {weight: B A} as stored.

    Args:
      folder: to write.
      shapes: of the base's tensors.
      changes: of adapter_config.json.
      modules: that are adapted.
      rank: r of each.
      dtype: of the tensors.
      more: further tensors by name.
    """
    folder.mkdir(parents=True, exist_ok=True)
    fields = {k: v for k, v in (FIELDS | (changes or {})).items() if v is not MISSING}
    (folder / "adapter_config.json").write_text(json.dumps(fields))
    stored, products = {}, {}
    for i, module in enumerate(modules):
        rng = np.random.default_rng(i)
        outputs, inputs = shapes[f"{module}.weight"]
        first = rng.normal(size=(rank, inputs)).astype(dtype)
        second = (0.3 * rng.normal(size=(outputs, rank))).astype(dtype)
        stored[f"base_model.model.{module}.lora_A.weight"] = first
        stored[f"base_model.model.{module}.lora_B.weight"] = second
        products[f"{module}.weight"] = second.astype(np.float32) @ first.astype(np.float32)
    stored |= {f"base_model.model.{name}": array for name, array in (more or {}).items()}
    safetensors.numpy.save_file(stored, folder / "adapter_model.safetensors", {"format": "pt"})
    return products


def close(tree, expected):
    tree, expected = ({n: np.asarray(a) for n, a in flatten(x).items()} for x in (tree, expected))
    assert sorted(tree) == sorted(expected)
    for name, array in expected.items():
        np.testing.assert_allclose(tree[name], array, rtol=1e-5, atol=1e-6, err_msg=name)


@pytest.mark.parametrize(
    ("changes", "factors"),
    [
        ({}, (8, 8, 8)),
        ({"use_rslora": True}, (16 / np.sqrt(2),) * 3),
        ({"r": 64, "rank_pattern": {"q|v|wo": 2}}, (8, 8, 8)),  # the tensors show r
        ({"alpha_pattern": {"q": 4, "EncDecAttention.v": 2}}, (2, 1, 8)),
        ({"alpha_pattern": {"k": 4}, "lora_alpha": 3}, (1.5, 1.5, 1.5)),
        ({"lora_alpha": MISSING}, (4, 4, 4)),  # PEFT's default is 8
    ],
)
def test_the_base_has_the_product_added(tmp_path, changes, factors):
    tensors = draw(tensor_shapes())
    base = write(tmp_path / "base", CONFIG, tensors)
    products = write_lora(tmp_path / "lora", tensor_shapes(), changes)
    added = {
        name: tensors[name] + np.float32(factor) * product
        for factor, (name, product) in zip(factors, products.items(), strict=True)
    }
    expected = write(tmp_path / "expected", CONFIG, tensors | added)
    opened = open_checkpoint(tmp_path / "lora", base=str(base))
    assert opened.config == open_checkpoint(base).config
    assert (opened.family, opened.metadata["source"]) == ("t5", str(tmp_path / "lora"))
    close(opened.params, open_checkpoint(expected).params)
    assert load_model(str(tmp_path / "lora"), base=str(base)).config == opened.config


def test_names_of_a_raw_state_dict(tmp_path):
    """There, the adapter's name stands in the names of tensors."""
    base = write(tmp_path / "base", CONFIG, draw(tensor_shapes()))
    write_lora(tmp_path / "lora", tensor_shapes())
    expected = open_checkpoint(tmp_path / "lora", base=str(base)).params
    path = tmp_path / "lora" / "adapter_model.safetensors"
    tensors = safetensors.numpy.load_file(path)
    named, two = (
        {
            name.replace("lora_A", f"lora_A.{a}").replace("lora_B", f"lora_B.{b}"): array
            for name, array in tensors.items()
        }
        for a, b in (("default", "default"), ("first", "second"))
    )
    safetensors.numpy.save_file(named, path)
    close(open_checkpoint(tmp_path / "lora", base=str(base)).params, expected)
    for stored, names in ((two, "first, second"), (named | tensors, "default, one without a name")):
        safetensors.numpy.save_file(stored, path)
        assert error_of(tmp_path / "lora", base) == (
            f"{path}: expected tensors of one adapter, got those of {names}; save one alone, with "
            "PEFT: save_pretrained(FOLDER, selected_adapters=[NAME])."
        )


def test_a_base_in_another_form(tmp_path):
    tensors = draw(tensor_shapes())
    base = open_checkpoint(write(tmp_path / "base", CONFIG, tensors))
    write_t5x(tmp_path / "t5x" / "checkpoint_7", base.read().params)
    products = write_lora(tmp_path / "lora", tensor_shapes())
    added = {name: tensors[name] + 8 * product for name, product in products.items()}
    expected = open_checkpoint(write(tmp_path / "expected", CONFIG, tensors | added))
    close(open_checkpoint(tmp_path / "lora", base=str(tmp_path / "t5x")).params, expected.params)


def test_kernels_in_one_and_embeddings(tmp_path):
    shapes, config = (
        f("gpt2_inner_relu") for f in (family_folders.shapes_of, family_folders.config_of)
    )
    tensors = draw(shapes)
    base = write(tmp_path / "base", config, tensors)
    module = "transformer.h.1.attn.c_attn"
    turned = {f"{module}.weight": shapes[f"{module}.weight"][::-1]}
    first = np.random.default_rng(1).normal(size=(2, shapes["transformer.wpe.weight"][0]))
    second = np.random.default_rng(2).normal(size=(shapes["transformer.wpe.weight"][1], 2))
    bias = np.ones(shapes[f"{module}.bias"], np.float32)
    more = {
        "transformer.wpe.lora_embedding_A": first.astype(np.float32),
        "transformer.wpe.lora_embedding_B": second.astype(np.float32),
        f"{module}.base_layer.bias": bias,  # as PEFT calls what it has wrapped
        "transformer.ln_f.modules_to_save.default.bias": 2 * bias[:16],
        "transformer.ln_f.original_module.bias": 3 * bias[:16],
    }
    changes = {"task_type": "CAUSAL_LM", "fan_in_fan_out": True, "bias": "lora_only"}
    products = write_lora(tmp_path / "lora", turned, changes, [module], more=more)
    changed = {
        f"{module}.weight": tensors[f"{module}.weight"] + 8 * products[f"{module}.weight"].T,
        f"{module}.bias": bias,
        "transformer.ln_f.bias": 2 * bias[:16],
        "transformer.wpe.weight": tensors["transformer.wpe.weight"] + 8 * (second @ first).T,
    }
    changed = {name: array.astype(np.float32) for name, array in changed.items()}
    expected = open_checkpoint(write(tmp_path / "expected", config, tensors | changed))
    close(open_checkpoint(tmp_path / "lora", base=str(base)).params, expected.params)


def test_an_output_layer_that_was_tied(tmp_path):
    """The output layer is then separate, and the embedding may change as well."""
    tensors = draw(tensor_shapes(TIED))
    base = write(tmp_path / "base", TIED, tensors)
    untied = {name: 2 * tensors["shared.weight"] for name in ("shared.weight", "lm_head.weight")}
    untied["lm_head.weight"] = untied["lm_head.weight"] + 1
    write_lora(tmp_path / "lora", tensor_shapes(TIED), modules=MODULES[:1], more=untied)
    products = write_lora(tmp_path / "head", {"lm_head.weight": (24, 6)}, modules=["lm_head"])
    changed = {"lm_head.weight": tensors["shared.weight"] + 8 * products["lm_head.weight"]}
    product = write_lora(tmp_path / "q", tensor_shapes(TIED), modules=MODULES[:1])
    untied |= {name: tensors[name] + 8 * array for name, array in product.items()}
    for name, expected_tensors in {"lora": untied, "head": changed}.items():
        expected = open_checkpoint(write(tmp_path / f"as_{name}", TIED, tensors | expected_tensors))
        opened = open_checkpoint(tmp_path / name, base=str(base))
        assert opened.config == expected.config
        assert opened.config.scale_own_logits
        close(opened.params, expected.params)


def test_tokens_that_were_added_to_the_base(tmp_path):
    """The adapter then has the embedding and the output layer, maybe under a wrapper's names."""
    tensors = draw(tensor_shapes())
    base = write(tmp_path / "base", CONFIG, tensors)
    rows = draw({"shared.weight": (27, 6), "lm_head.weight": (27, 6)})
    wrapped = {name.replace(".weight", ".modules_to_save.weight"): rows[name] for name in rows}
    for folder, more in {"lora": rows, "wrapped": wrapped}.items():
        products = write_lora(tmp_path / folder, tensor_shapes(), modules=MODULES[:1], more=more)
        added = {name: tensors[name] + 8 * product for name, product in products.items()}
        config = CONFIG | {"vocab_size": 27}
        expected = open_checkpoint(write(tmp_path / f"as_{folder}", config, tensors | rows | added))
        opened = open_checkpoint(tmp_path / folder, base=str(base))
        assert opened.config == expected.config
        close(opened.params, expected.params)


def test_a_new_classification_head(tmp_path):
    case = "roberta_base_model"
    base = write(
        tmp_path / "base",
        family_folders.config_of(case),
        draw(family_folders.shapes_of(case)),
    )
    head = {"classifier.dense.weight": (16, 16), "classifier.dense.bias": (16,)}
    head |= {"classifier.out_proj.weight": (3, 16), "classifier.out_proj.bias": (3,)}
    module = "roberta.encoder.layer.0.attention.self.query"
    shapes = {f"{module}.weight": (16, 16)}
    changes = {"task_type": "SEQ_CLS"}
    write_lora(tmp_path / "lora", shapes, changes, [module], more=draw(head))
    opened = open_checkpoint(tmp_path / "lora", base=str(base))
    assert opened.config.label_names == ("LABEL_0", "LABEL_1", "LABEL_2")
    kernel = np.asarray(opened.params["classifier"]["out"]["kernel"])
    np.testing.assert_array_equal(kernel.T, draw(head)["classifier.out_proj.weight"])
    del head["classifier.dense.bias"]
    write_lora(tmp_path / "lora", shapes, changes, [module], more=draw(head))
    assert "classifier/dense/bias (16,) is missing" in error_of(tmp_path / "lora", base)


def test_dtypes(tmp_path):
    half = {n: a.astype(ml_dtypes.bfloat16) for n, a in draw(tensor_shapes()).items()}
    base = write(tmp_path / "base", CONFIG, half)
    write_lora(tmp_path / "single", tensor_shapes())
    write_lora(tmp_path / "half", tensor_shapes(), dtype=ml_dtypes.bfloat16)
    for name, expected in {"single": "float32", "half": "bfloat16"}.items():
        params = open_checkpoint(tmp_path / name, base=str(base)).params
        assert {np.asarray(a).dtype.name for a in flatten(params).values()} == {expected}


def test_the_command_imports_it_with_the_tokenizer_of_the_base(tmp_path, capsys):
    tensors = draw(tensor_shapes())
    base = write(tmp_path / "base", CONFIG, tensors)
    (base / "tokenizer.json").write_text("{}")
    write_lora(tmp_path / "lora", tensor_shapes())
    lora, target = str(tmp_path / "lora"), str(tmp_path / "ours")
    assert main(["import-checkpoint", lora, target, f"--base={base}"]) == 0
    close(open_checkpoint(target).params, open_checkpoint(lora, base=str(base)).params)
    assert (tmp_path / "ours" / "tokenizer.json").read_text() == "{}"
    # Or where the adapter says it is.
    write_lora(tmp_path / "lora", tensor_shapes(), {"base_model_name_or_path": str(base)})
    assert main(["import-checkpoint", lora, str(tmp_path / "named")]) == 0
    capsys.readouterr()
    assert main(["import-checkpoint", str(base), str(tmp_path / "x"), f"--base={base}"]) == 2
    assert "leave it out" in capsys.readouterr().err


def test_a_folder_of_several_adapters(tmp_path, capsys):
    base = write(tmp_path / "base", CONFIG, draw(tensor_shapes()))
    several, target = tmp_path / "several", str(tmp_path / "ours")
    start = (
        f"{several}: no checkpoint here: expected config.json and model.safetensors (Hugging "
        "Face), a file named checkpoint (T5X), or model.json (faith_jax), but "
    )
    for name, described in {
        "a": "a/ is one; give its path.",
        "b": "a/, b/ are adapters of PEFT's; give the path of one.",
    }.items():
        write_lora(several / name, tensor_shapes())
        for more in ([], [f"--base={base}"]):
            assert main(["import-checkpoint", str(several), target, *more]) == 2
            assert capsys.readouterr().err == f"faith-jax: {start}{described}\n"
    missing = str(tmp_path / "missing")
    assert main(["import-checkpoint", missing, target, f"--base={base}"]) == 2
    assert f"{missing}: there is no such checkpoint." in capsys.readouterr().err


def test_files_of_a_whole_model_beside_the_adapter(tmp_path, capsys):
    tensors = draw(tensor_shapes())
    base, both = (write(tmp_path / name, CONFIG, tensors) for name in ("base", "both"))
    write_lora(tmp_path / "lora", tensor_shapes())
    for file in (tmp_path / "lora").iterdir():
        file.rename(both / file.name)
    adapted = open_checkpoint(both, base=str(base)).params
    with pytest.raises(AssertionError):
        close(adapted, open_checkpoint(base).params)
    assert main(["import-checkpoint", str(both), str(tmp_path / "merged"), f"--base={base}"]) == 0
    close(open_checkpoint(tmp_path / "merged").params, adapted)
    # Without a base, the whole model is what is there; without weights, the adapter is.
    assert main(["import-checkpoint", str(both), str(tmp_path / "whole")]) == 0
    close(open_checkpoint(tmp_path / "whole").params, open_checkpoint(base).params)
    (both / "model.safetensors").unlink()
    close(open_checkpoint(both, base=str(base)).params, adapted)
    with pytest.raises(CheckpointError, match="an adapter of PEFT's"):
        open_checkpoint(both)


@pytest.mark.parametrize(
    ("changes", "count", "first"),
    [
        ({}, 8, "encoder.block.0.layer.0.SelfAttention.q"),
        (
            {"target_modules": ["block.1.layer.0.SelfAttention.q", "v"]},
            3,
            "encoder.block.0.layer.0.SelfAttention.v",
        ),
        ({"target_modules": r"decoder\..*\.(q|wo)"}, 2, "decoder.block.0.layer.0.SelfAttention.q"),
        ({"target_modules": "all-linear"}, 22, "encoder.block.0.layer.0.SelfAttention.q"),
        ({"exclude_modules": r".*\.[qv]"}, 2, "encoder.block.0.layer.1.DenseReluDense.wo"),
        ({"exclude_modules": ["q", "v", "wo"]}, 0, ""),
        (
            {"layers_to_transform": 1, "layers_pattern": "block"},
            2,
            "encoder.block.1.layer.0.SelfAttention.v",
        ),
        ({"layers_to_transform": [2]}, 0, ""),
        ({"target_modules": ["block.1.layer.0.SelfAttention.q", "o_proj"]}, 0, ""),
        ({"target_modules": None}, 0, ""),
    ],
)
def test_target_modules_without_tensors_are_counted(tmp_path, caplog, changes, count, first):
    base = write(tmp_path / "base", CONFIG, draw(tensor_shapes()))
    write_lora(tmp_path / "lora", tensor_shapes(), changes)
    open_checkpoint(tmp_path / "lora", base=str(base))
    expected = (
        f"{tmp_path}/lora/adapter_model.safetensors: {count} modules that adapter_config.json has "
        "in 'target_modules' have no tensors here and stay as in the base; the first is "
        f"{first}."
    )
    assert [record.getMessage() for record in caplog.records] == [expected] * bool(count)


@pytest.mark.parametrize("config", [CONFIG, TIED])
def test_modules_to_save_without_tensors(tmp_path, config):
    shapes = tensor_shapes(config)
    base = write(tmp_path / "base", config, draw(shapes))
    # PEFT lists both names for any classifier; this model has neither.
    write_lora(tmp_path / "heads", shapes, {"modules_to_save": ["classifier", "score"]})
    assert open_checkpoint(tmp_path / "heads", base=str(base)).config.label_names == ()
    for name in ("lm_head", "final_layer_norm", "embed_tokens"):
        write_lora(tmp_path / "lora", shapes, {"modules_to_save": [name]})
        assert error_of(tmp_path / "lora", base) == (
            f"{tmp_path}/lora/adapter_model.safetensors: adapter_config.json has {name!r} in "
            "'modules_to_save', but its tensors are missing here; copy the file again from where "
            "the adapter was saved."
        )


# Bad input.


def error_of(folder, base):
    with pytest.raises(CheckpointError) as caught:
        open_checkpoint(folder, base=str(base)).read()
    message = str(caught.value)
    assert "\n" not in message
    assert str(folder) in message
    return message


@pytest.mark.parametrize(
    ("method", "remedy"),
    [
        (
            "PREFIX_TUNING",
            "this method is not read, and PEFT cannot merge it, as it changes no weights; use the "
            "adapter with PEFT",
        ),
        (
            "IA3",
            "this method is not read; if PEFT can merge it, "
            "PeftModel.merge_and_unload().save_pretrained(FOLDER) makes a whole model",
        ),
    ],
)
def test_other_methods(tmp_path, method, remedy):
    write_lora(tmp_path, tensor_shapes(), {"peft_type": method})
    with pytest.raises(CheckpointError) as caught:
        open_checkpoint(tmp_path)
    assert str(caught.value) == (
        f"{tmp_path}: an adapter of PEFT's ('peft_type': \"{method}\"), no whole model; {remedy}."
    )


def test_without_a_base(tmp_path):
    write_lora(tmp_path / "lora", tensor_shapes())
    with pytest.raises(CheckpointError, match=r"\"LORA\".* import-checkpoint .* --base=BASE"):
        open_checkpoint(tmp_path / "lora")
    with pytest.raises(CheckpointError, match=r"google/t5-v1_1-small.*Say where it is with --base"):
        convert.import_checkpoint(str(tmp_path / "lora"), str(tmp_path / "ours"))
    write_lora(tmp_path / "lora", tensor_shapes(), {"base_model_name_or_path": None})
    with pytest.raises(ConfigError, match="names no base model; say where it is with --base"):
        convert.import_checkpoint(str(tmp_path / "lora"), str(tmp_path / "ours"))
    assert not (tmp_path / "ours").exists()


@pytest.mark.parametrize(
    ("changes", "parts"),
    [
        ({"use_dora": True}, ["'use_dora'", "merge_and_unload()"]),
        ({"lora_bias": True}, ["'lora_bias'", "merge_and_unload()"]),
        ({"init_lora_weights": "pissa_niter_4"}, ["'init_lora_weights'", "pissa"]),
        ({"lora_alpha": "16"}, ["'lora_alpha'", '"16"']),
        ({"alpha_pattern": {"(": 1}}, ["'alpha_pattern'", "'('"]),
        ({"r": 8}, ["adapter_model.safetensors", "rank 2", "says 8 ('r'"]),
        ({"rank_pattern": {"q": 4}}, ["SelfAttention.q have the rank 2", "says 4"]),
    ],
)
def test_settings_that_are_not_read(tmp_path, changes, parts):
    base = write(tmp_path / "base", CONFIG, draw(tensor_shapes()))
    write_lora(tmp_path / "lora", tensor_shapes(), changes)
    message = error_of(tmp_path / "lora", base)
    for part in parts:
        assert part in message


def test_adapters_that_do_not_fit(tmp_path, caplog):
    base = write(tmp_path / "base", CONFIG, draw(tensor_shapes()))
    folder = tmp_path / "lora"
    shapes = {"encoder.block.7.layer.0.SelfAttention.q.weight": (8, 6)}
    write_lora(folder, shapes, modules=[name.removesuffix(".weight") for name in shapes])
    assert "block.7.layer.0.SelfAttention.q.weight, which" in error_of(folder, base)
    assert not caplog.records  # about missing tensors, which say nothing of another base
    write_lora(folder, {f"{MODULES[0]}.weight": (8, 12)}, modules=MODULES[:1])
    assert "(8, 12), but the base model's is (8, 6)" in error_of(folder, base)
    nan = {f"{MODULES[0]}.lora_A.weight": np.full((2, 6), np.nan, np.float32)}
    write_lora(folder, tensor_shapes(), modules=(), more=nan)
    assert "expected finite numbers" in error_of(folder, base)
    alone = {f"{MODULES[0]}.lora_A.weight": np.ones((2, 6), np.float32)}
    write_lora(folder, tensor_shapes(), modules=(), more=alone)
    assert "lora_B [outputs, r], got lora_A (2, 6)" in error_of(folder, base)
    write_lora(folder, tensor_shapes(), modules=())
    assert "expected tensors lora_A and lora_B" in error_of(folder, base)
    magnitude = {f"{MODULES[0]}.lora_magnitude_vector": np.ones(8, np.float32)}
    write_lora(folder, tensor_shapes(), more=magnitude)
    assert error_of(folder, base) == (
        f"{folder}/adapter_model.safetensors: the tensor {MODULES[0]}.lora_magnitude_vector is "
        'DoRA\'s, which is not read; with "use_dora": true in adapter_config.json, merge the '
        "adapter with PEFT, PeftModel.merge_and_unload().save_pretrained(FOLDER), and give that "
        "folder."
    )
    write_lora(folder, tensor_shapes(), more={f"{MODULES[0]}.lora_C": np.ones(8, np.float32)})
    assert "lora_C is of no LoRA that is read" in error_of(folder, base)
    for stack in ("encoder", "decoder"):
        copy = f"{stack}.embed_tokens.weight"
        write_lora(folder, tensor_shapes(), more={copy: np.ones((24, 6), np.float32)})
        assert error_of(folder, base) == (
            f"{folder}: the adapter changes {copy}, the embedding of one stack alone, which is not "
            f"read: {base} has one embedding, shared.weight, for both stacks."
        )
    (folder / "adapter_model.safetensors").rename(folder / "adapter_model.bin")
    assert error_of(folder, base) == (
        f"{folder}: adapter_model.safetensors: no such file, but adapter_model.bin is there: "
        "pickled weights are not read, because unpickling can run any code; save them with "
        "safetensors: with PEFT, PeftModel.from_pretrained(BASE_MODEL, FOLDER) and "
        "save_pretrained(NEW_FOLDER) do that."
    )


def test_tensors_of_one_part_are_named(tmp_path):
    base = write(tmp_path / "base", CONFIG, draw(tensor_shapes()))
    path = tmp_path / "lora" / "adapter_model.safetensors"
    for first, second in (
        ("lm_head.modules_to_save.weight", "lm_head.weight"),
        (f"{MODULES[0]}.lora_A", f"{MODULES[0]}.lora_A.weight"),
    ):
        more = dict.fromkeys((first, second), np.ones((2, 6), np.float32))
        write_lora(tmp_path / "lora", tensor_shapes(), more=more)
        assert error_of(tmp_path / "lora", base) == (
            f"{path}: the tensors base_model.model.{first} and base_model.model.{second} are of "
            "the same part of one module; keep one of them."
        )


def test_a_tied_embedding_is_refused(tmp_path):
    base = write(tmp_path / "base", TIED, draw(tensor_shapes(TIED)))
    more = {
        "shared.lora_embedding_A": np.ones((2, 24), np.float32),
        "shared.lora_embedding_B": np.ones((6, 2), np.float32),
    }
    write_lora(tmp_path / "lora", tensor_shapes(TIED), modules=(), more=more)
    assert "shared.weight, which is the output layer" in error_of(tmp_path / "lora", base)
    more = {"shared.weight": np.ones((24, 6), np.float32)}
    write_lora(tmp_path / "lora", tensor_shapes(TIED), modules=MODULES[:1], more=more)
    assert "shared.weight, which is the output layer" in error_of(tmp_path / "lora", base)
