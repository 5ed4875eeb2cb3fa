"""Every gin file of the library parses, and the objects it configures can be built."""

import dataclasses
import re

import gin
import jax
import numpy as np
import pytest

from faith_jax.core.errors import ConfigError
from faith_jax.decoding.config import DecodingConfig, PMIConfig
from faith_jax.gin_files import config as gin_config
from faith_jax.models.transformer import Transformer, parameter_shapes
from faith_jax.runs import train
from faith_jax.training import optimizers
from tests.paths import REPOSITORY

FOLDER = REPOSITORY / "gin_configs"
FILES = sorted(
    str(file.relative_to(FOLDER))
    for file in FOLDER.rglob("*.gin")
    if "t5x" not in file.relative_to(FOLDER).parts
)
# As counted in the published checkpoints, with 32,128 embeddings.
PUBLISHED = {
    "t5_1_1_small": 76_961_152,
    "t5_1_1_base": 247_577_856,
    "t5_1_1_large": 783_150_080,
    "t5_1_1_xl": 2_849_757_184,
    "t5_1_1_xxl": 11_135_332_352,
    "t5_1_0_small": 60_506_624,
    "t5_1_0_base": 222_903_552,
    "t5_1_0_large": 737_668_096,
    "t5_1_0_xl": 2_851_598_336,
    "t5_1_0_xxl": 11_307_321_344,
    "t5_1_1_mini": 5_767_136,
}


def macro(name):
    value = gin.query_parameter(f"{name}/macro.value")
    return value.scoped_configurable_fn() if hasattr(value, "scoped_configurable_fn") else value


def parse(*files, bindings=()):
    required = (
        "MODEL_DIR", "MIXTURE_OR_TASK_NAME", "CHECKPOINT_PATH", "INFER_OUTPUT_DIR", "INPUT_FILE",
        "INITIAL_CHECKPOINT_PATH", "PROMPT_FILE",
    )  # fmt: skip
    text, unread = "", list(files)
    while unread:  # included files too, of whatever depth
        read = (FOLDER / unread.pop()).read_text()
        text += read
        unread += re.findall(r"^include '([^']+)'", read, re.M)
    preset = [f"{n}=x" for n in required if re.search(rf"^{n} = ", text, re.M)]
    for name, value in (
        ("TRAIN_STEPS", 100),
        ("TASK_FEATURE_LENGTHS", {"inputs": 8, "targets": 8}),
    ):
        if re.search(rf"^{name} = %gin.REQUIRED", text, re.M):
            preset.append(f"{name}={value}")
    gin_config.parse(list(files), [*preset, *bindings])


def num_parameters(config):
    """Returns the number of a T5's parameters, from its dimensions."""
    width, inner = config.emb_dim, config.num_heads * config.head_dim
    mlp = (len(config.mlp_activations) + 1) * width * config.mlp_dim
    encoder = config.num_encoder_layers * (4 * width * inner + mlp + 2 * width)
    decoder = config.num_decoder_layers * (8 * width * inner + mlp + 3 * width)
    biases = 2 * config.relative_attention_num_buckets * config.num_heads
    embeddings = (1 if config.logits_via_embedding else 2) * config.vocab_size * width
    return encoder + decoder + biases + embeddings + 2 * width


@pytest.mark.parametrize("name", PUBLISHED)
def test_sizes_have_the_published_number_of_parameters(name):
    parse(f"models/{name}.gin", "runs/train.gin")
    module = macro("MODEL")
    assert isinstance(module, Transformer)
    assert num_parameters(module.config) == PUBLISHED[name]


def test_parameters_are_counted_as_the_model_has_them():
    parse("models/t5_1_1_mini.gin", "runs/train.gin")
    shapes = parameter_shapes(macro("MODEL"))["params"]
    count = sum(np.prod(s.shape, dtype=int) for s in jax.tree.leaves(shapes))
    assert count == PUBLISHED["t5_1_1_mini"]


def test_every_size_is_counted():
    sizes = {f.removeprefix("models/").removesuffix(".gin") for f in FILES if "models/t5" in f}
    assert sizes - {"t5_1_1"} == set(PUBLISHED)


@pytest.mark.parametrize("name", ["sampled_vocabulary", "uniform", "class_labels", "from_npy"])
def test_prompts_are_in_front_of_the_encoder_and_alone_trained(name):
    parse("models/t5_1_1_mini.gin", "runs/train.gin", f"prompts/{name}.gin")
    config = macro("MODEL").config
    assert (config.encoder_prompt_length, config.decoder_prompt_length) == (5, 0)
    assert macro("TRAINABLE") == (".*_prompt/.*",)
    assert callable(macro("PROMPT_INITIALIZER"))


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("greedy", {"temperature": 0.0}),
        ("temperature", {"temperature": 0.7}),
        ("top_k", {"temperature": 1.0, "top_k": 40}),
        ("nucleus", {"temperature": 1.0, "top_p": 0.6}),
        ("beam", {"num_beams": 4}),
        ("pmi_greedy", {"pmi": PMIConfig(alpha=0.25, p=0.6)}),
        ("pmi_beam", {"pmi": PMIConfig(alpha=0.25, p=0.6), "num_beams": 4}),
        ("pmi_nucleus", {"pmi": PMIConfig(alpha=0.25, p=0.6), "temperature": 1.0}),
    ],
)
def test_decoding_files(name, expected):
    parse("models/t5_1_1_mini.gin", "runs/train.gin", f"decoding/{name}.gin")
    assert macro("DECODING") == DecodingConfig(max_length=512, **expected)


@pytest.mark.parametrize("name", [f for f in FILES if "/" not in f or f.startswith("runs/")])
def test_runs_and_recipes_parse(name):
    files = [name]
    if name == "runs/train.gin":
        files = ["models/t5_1_1_mini.gin", name]
    if name == "runs/infer_base.gin":
        files = ["runs/infer.gin"]
    parse(*files)
    assert gin.config_str()


@pytest.mark.parametrize("name", FILES)
def test_every_file_says_what_it_is_for(name):
    head = (FOLDER / name).read_text().split("\n\n")[0]
    assert head.startswith("# ")
    if name not in ("runs/infer_base.gin",):
        text = (FOLDER / name).read_text()
        assert "Provides:" in text
        assert "Requires:" in text


def test_paper_settings_of_prompt_tuning():
    """Chang 2024, appendix B."""
    parse("npov_generate_prompt_tune.gin")
    assert macro("LEARNING_RATE") == 0.1
    assert macro("WARMUP_STEPS") == 500
    assert macro("BATCH_SIZE") == 16
    assert macro("PROMPT_LENGTH") == 5
    assert macro("PROMPT_MOST_FREQUENT") == 5000


@pytest.mark.parametrize(
    ("name", "batch", "epochs", "rows", "split"),
    [
        ("faithdial", 32, 10, 18_357, "validation"),
        ("multidoc2dial", 16, 50, 24_603, "validation"),
        ("topical_chat", 16, 10, 131_555, "validation_rare"),
    ],
)
def test_paper_settings_of_dialogue_fine_tuning(name, batch, epochs, rows, split):
    """Nandwani 2023, table 2 and section 5.2; Dziri 2022, appendix."""
    required = ["INITIAL_CHECKPOINT_PATH=x", "MODEL_DIR=x"]
    gin_config.parse([f"{name}_generate_finetune.gin"], required)
    assert macro("MIXTURE_OR_TASK_NAME") == f"{name}_generate"
    steps = macro("TRAIN_STEPS")
    assert (macro("BATCH_SIZE"), macro("LEARNING_RATE"), macro("Z_LOSS")) == (batch, 6.25e-5, 0)
    assert steps == epochs * rows // batch
    assert macro("WARMUP_STEPS") == round(0.04 * steps)
    assert macro("EVAL_PERIOD") == macro("CHECKPOINT_PERIOD") == rows // batch // 2
    assert macro("EVAL_SPLIT") == split
    assert macro("DECODE_LENGTH") == 100
    assert gin.query_parameter("optimizers.adamw.gradient_clip") == 1.0


def test_paper_settings_of_doha():
    """Dziri 2022, appendix D; clipping and weight decay are those of DoHA's own code."""
    gin_config.parse(["faithdial_generate_doha.gin"], ["INITIAL_CHECKPOINT_PATH=x", "MODEL_DIR=x"])
    assert gin.query_parameter("setup.model_from_checkpoint.knowledge_attention") is True
    steps = macro("TRAIN_STEPS")
    assert steps == 25 * 18_357 // 32
    assert macro("WARMUP_STEPS") == round(0.1 * steps)
    assert macro("EVAL_PERIOD") == macro("CHECKPOINT_PERIOD") == 18_357 // 32 // 2
    assert (macro("BATCH_SIZE"), macro("NUM_MICROBATCHES")) == (32, 8)
    assert macro("LEARNING_RATE") == 2e-5
    assert gin.query_parameter("optimizers.adamw.gradient_clip") == 1.0
    assert gin.query_parameter("optimizers.adamw.weight_decay") == 0.01
    assert macro("DECODING").top_p == 0.6


def test_paper_settings_of_the_nli_classifier():
    """Steen 2023, table 7; length, clipping and decay are those of its code."""
    required = ["INITIAL_CHECKPOINT_PATH=x", "MODEL_DIR=x"]
    gin_config.parse(["nli_anli_augmented_finetune.gin"], required)
    assert macro("TASK_FEATURE_LENGTHS")["inputs"] == 512
    assert (macro("BATCH_SIZE"), macro("TRAIN_STEPS"), macro("LEARNING_RATE")) == (64, 2000, 5e-6)
    assert macro("WARMUP_STEPS") == 0.06 * 2000
    assert gin.query_parameter("optimizers.adamw.gradient_clip") == 1.0
    assert gin.query_parameter("optimizers.adamw.weight_decay") == 0.01


def test_control_tokens_are_trained_on_each_data_set_for_ten_epochs_of_it():
    """Dziri 2022, appendix D; the Wizard's 83,247 turns are counted by ParlAI."""
    for name, rows in (("faithdial", 18_357), ("wizard_of_wikipedia", 83_247)):
        required = ["INITIAL_CHECKPOINT_PATH=x", "MODEL_DIR=x"]
        gin_config.parse([f"{name}_generate_ctrl.gin"], required)
        assert macro("MIXTURE_OR_TASK_NAME") == f"{name}_generate_ctrl"
        steps = macro("TRAIN_STEPS")
        assert steps == 10 * rows // macro("BATCH_SIZE")
        assert macro("WARMUP_STEPS") == round(0.04 * steps)
        assert macro("EVAL_PERIOD") == macro("CHECKPOINT_PERIOD") == rows // 32 // 2


@pytest.mark.parametrize(
    ("name", "split"),
    [("faithdial", "test"), ("multidoc2dial", "test"), ("topical_chat", "test_rare")],
)
def test_paper_settings_of_dialogue_decoding(name, split):
    """Nandwani 2023, section 5.2; with PMI=None plain beam search."""
    required = ["CHECKPOINT_PATH=x", "INFER_OUTPUT_DIR=x"]
    gin_config.parse([f"{name}_pmi_decode.gin"], required)
    beams = DecodingConfig(
        max_length=100, min_length=2, num_beams=4, early_stopping=True, no_repeat_ngram=3
    )
    assert macro("DECODING") == dataclasses.replace(beams, pmi=PMIConfig(alpha=0.25, p=0.6))
    task = f"{name}_generate" + ("_short_history" if name == "multidoc2dial" else "")
    assert (macro("MIXTURE_OR_TASK_NAME"), macro("SPLIT")) == (task, split)
    gin_config.parse([f"{name}_pmi_decode.gin"], [*required, "PMI=None"])
    assert macro("DECODING") == beams


@pytest.mark.parametrize(
    ("binding", "expected"),
    [
        ("MODEL_DIR=runs/a", "MODEL_DIR='runs/a'"),
        ("TRAIN_STEPS=5", "TRAIN_STEPS=5"),
        ("OPTIMIZER=@optimizers.adamw()", "OPTIMIZER=@optimizers.adamw()"),
        ("A=%B", "A=%B"),
        ("LENGTHS={'inputs': 3}", "LENGTHS={'inputs': 3}"),
        ("PAIR=(%A, @b.c())", "PAIR=(%A, @b.c())"),
        ("CLASS_LABELS=1,0", "CLASS_LABELS=(1, 0)"),
        ("SPLIT=train[:25%]", "SPLIT='train[:25%]'"),
        ("MODEL_DIR=runs/me@home 50%", "MODEL_DIR='runs/me@home 50%'"),
    ],
)
def test_a_value_that_is_no_literal_is_a_string(binding, expected):
    assert gin_config.quote_value(binding) == expected


@pytest.mark.parametrize(
    ("binding", "message"),
    [
        ("TRAIN_STEPS=1e2", "TRAIN_STEPS: expected a whole number, got 100.0"),
        ("LEARNING_RATE=fast", "LEARNING_RATE: expected 0 or a positive number, got 'fast'"),
        ("PACK=yes", "PACK: expected True or False, got 'yes'"),
        (
            "INITIAL_CHECKPOINT_PATH=3",
            "INITIAL_CHECKPOINT_PATH: expected a text or None, got 3; for a text write "
            "--gin.INITIAL_CHECKPOINT_PATH=\"'3'\"",
        ),
        (
            "train.train.log_period=often",
            r"Output\.log_period: expected a positive whole number, got 'often'",
        ),
    ],
)
def test_values_of_the_wrong_type(binding, message):
    required = ["MODEL_DIR=m", "MIXTURE_OR_TASK_NAME=t", "TRAIN_STEPS=5"]
    required.append("TASK_FEATURE_LENGTHS={'inputs': 8, 'targets': 8}")
    files = ["models/t5_1_1_mini.gin", "runs/train.gin"]
    gin_config.parse(files, [*required, "LEARNING_RATE=1"])
    with pytest.raises(ConfigError, match=message):
        gin_config.parse(files, [*required, binding])


def test_names_and_values_that_gin_takes_otherwise(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    file = tmp_path / "mine.gin"
    file.write_text("include 'quickstart.gin'\nTASK_FEATURE_LENGTHS = short\n")
    with pytest.raises(ConfigError, match=r"expected a value: .* in quotes, .* 'short' .* line 2"):
        gin_config.parse(["~/mine.gin"], ["MODEL_DIR=runs/a"])
    with pytest.raises(ConfigError, match=r"--gin.batch_size: .* Did you mean 'BATCH_SIZE'"):
        gin_config.parse(["quickstart.gin"], ["MODEL_DIR=runs/a", "batch_size=4"])


def test_folders_named_like_ours_are_not_in_the_way(tmp_path, monkeypatch):
    (tmp_path / "runs").mkdir()
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    parse("models/t5_1_1_mini.gin", "runs/train.gin")
    assert macro("MODEL").config.emb_dim == 224


IMPORTS = """from __gin__ import dynamic_registration
import optax
from faith_jax.runs import train
from faith_jax.training import optimizers
from flax import linen
"""


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (
            "train.Optimization.optimizer = @optax.adamw()",
            r"more\.gin, line 6: @optax\.adamw .*: TypeError: .*'learning_rate'\.$",
        ),
        ("VOCABULARY = @linen.Module()", r"^VOCABULARY: expected a text or None, got @linen\.Mod"),
        ("train.Optimization.optimizer = @optax.sgd", r"write @optax\.sgd\(\)\."),
        ("OPTIMIZER = @optimizers.adamw", r"^OPTIMIZER: .* write @optimizers\.adamw\(\)\."),
    ],
)
def test_values_that_configurables_cannot_have(tmp_path, line, message):
    (tmp_path / "more.gin").write_text(IMPORTS + line)
    files = ["quickstart.gin", str(tmp_path / "more.gin")]

    def parse_and_run():
        gin_config.parse(files, ["MODEL_DIR=m"])
        gin_config.run(train.train)

    with pytest.raises(ConfigError, match=message) as caught:
        parse_and_run()
    assert "\n" not in str(caught.value)


def test_an_error_of_our_own_functions_stays_as_it_is(monkeypatch):
    def breaks(transform):
        raise TypeError("a fault of ours")

    monkeypatch.setattr(optimizers, "_of_each_layer", breaks)
    gin_config.parse(["quickstart.gin"], ["MODEL_DIR=m"])
    with pytest.raises(TypeError, match="a fault of ours"):
        gin_config.run(train.train)
