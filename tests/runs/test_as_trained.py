"""The settings that `infer` takes from the run of its checkpoint, and those of the user."""

import gin
import pytest

from faith_jax.core.errors import ConfigError
from faith_jax.datasets.augmentation.control_tokens import FAITHFUL_TOKENS
from faith_jax.decoding.config import DecodingConfig, PMIConfig
from faith_jax.gin_files import config as gin_config
from faith_jax.runs import as_trained, infer

TRAIN = (
    "MIXTURE_OR_TASK_NAME=t",
    "TRAIN_STEPS=5",
    "TASK_FEATURE_LENGTHS={'inputs': 8, 'targets': 9}",
)


def model_dir(folder, *bindings, files=()):
    """Writes the configuration that a training run saves."""
    files = ["models/t5_1_1_mini.gin", "runs/train.gin", *files]
    gin_config.parse(files, [*TRAIN, f"MODEL_DIR={folder}", *bindings])
    (folder / "checkpoints" / "4").mkdir(parents=True)
    (folder / "config.gin").write_text(gin.config_str())
    return str(folder)


@pytest.fixture
def given():
    """Returns the arguments that gin passes to `infer`."""

    def found(path, *bindings, files=()):
        gin_config.parse(
            ["runs/infer_file.gin", *files],
            [f"CHECKPOINT_PATH={path}", "INPUT_FILE=i", "INFER_OUTPUT_DIR=o", *bindings],
        )
        arguments = gin.get_bindings(infer.infer)
        return arguments["decoding"], arguments["cut_policy"]

    return found


def test_a_run_s_decoding_length_and_cut_policy_are_taken(given, tmp_path, caplog):
    bindings = ("DECODE_LENGTH=7", "CUT_POLICY=history", "NUM_BEAMS=3", "PMI_ALPHA=0.5")
    path = model_dir(tmp_path / "m", *bindings, files=["decoding/pmi_beam.gin"])
    decoding = DecodingConfig(max_length=7, num_beams=3, pmi=PMIConfig(alpha=0.5, p=0.6))
    with caplog.at_level("INFO", logger="faith_jax"):
        assert given(path) == (decoding, "history")
        gin.get_bindings(infer.infer)  # a task's data has the policy too
    assert len(caplog.messages) == 3
    assert f"DECODE_LENGTH = 7, as {path} was trained with" in caplog.messages
    assert f"CUT_POLICY = 'history', as {path} was trained with" in caplog.messages
    message = f"DECODING = num_beams = 3, pmi = {PMIConfig(alpha=0.5)}, as {path} was trained with"
    assert message in caplog.messages
    assert given(f"{path}/checkpoints/4") == given(path)
    assert given(f"{path}/checkpoints/another") == given(tmp_path)  # no step of the run


def test_control_tokens_are_those_of_each_model(given, tmp_path):
    task = "MIXTURE_OR_TASK_NAME=wizard_of_wikipedia_generate_ctrl_sample"
    ctrl = model_dir(tmp_path / "c", task)
    plain = model_dir(tmp_path / "o", "MIXTURE_OR_TASK_NAME=faithdial_generate")
    of_each = [as_trained.control_tokens(path) for path in (ctrl, f"{ctrl}/checkpoints/4", plain)]
    assert of_each == [FAITHFUL_TOKENS, FAITHFUL_TOKENS, ()]
    assert as_trained.control_tokens("mini") == ()
    given({"a": ctrl, "b": plain})  # may respond to the same rows
    assert gin.get_bindings(infer.infer)["control_tokens"] is None


def test_without_decoding_the_targets_length_counts(given, tmp_path):
    path = model_dir(tmp_path / "m")
    assert given(path) == (DecodingConfig(max_length=9), "knowledge")
    assert given("mini") == (DecodingConfig(max_length=512), "knowledge")  # of no run


def test_what_the_user_says_comes_first(given, tmp_path, caplog):
    path = model_dir(tmp_path / "m", "DECODE_LENGTH=7", files=["decoding/beam.gin"])
    sampled = DecodingConfig(max_length=7, temperature=0.5)
    assert given(path, "TEMPERATURE=0.5", "CUT_POLICY=end") == (sampled, "end")
    beams = DecodingConfig(max_length=5, num_beams=4)
    caplog.clear()
    with caplog.at_level("INFO", logger="faith_jax"):
        assert given(path, "DECODE_LENGTH=5", "CUT_POLICY=end")[0] == beams
    assert caplog.messages == [f"DECODING = num_beams = 4, as {path} was trained with"]
    pmi = DecodingConfig(max_length=7, pmi=PMIConfig())
    assert given(path, files=["decoding/pmi_greedy.gin"])[0] == pmi


def test_runs_that_differ_are_an_error_unless_the_user_decides(given, tmp_path):
    paths = [
        model_dir(tmp_path / n, f"DECODE_LENGTH={n}", files=["decoding/greedy.gin"]) for n in "67"
    ]
    systems = {"a": paths[0], "b": [paths[1]]}
    with pytest.raises(
        ConfigError, match=r"not .* with the same DECODE_LENGTH \(.*6: 6, .*7: 7\); give"
    ):
        given(systems)
    assert given(systems, "DECODE_LENGTH=8") == (DecodingConfig(max_length=8), "knowledge")
