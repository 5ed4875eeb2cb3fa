import json

import numpy as np
import pytest

from faith_jax.runs.run_log import Reference, RunLog, read_settings

CONFIG = """from __gin__ import dynamic_registration
from faith_jax.models import prompts

# Macros:
PROMPT_INITIALIZER = @prompts.sampled_vocabulary()
RANDOM_SEED = 7
TASK_FEATURE_LENGTHS = {'inputs': 224, 'targets': 224}
ROUND = %ABOUT
ABOUT = %ROUND

train.train:
  prompt_initializer = %PROMPT_INITIALIZER
  seed = %RANDOM_SEED
  model_dir = \\
      'runs/a'
  vocabulary = %ROUND
  decoding = None
eval/train.train.seed = 9
"""


def test_settings_are_read_and_nothing_is_run(tmp_path):
    (tmp_path / "config.gin").write_text(CONFIG)
    found = read_settings(tmp_path)
    assert found["prompt_initializer"] == Reference("prompts.sampled_vocabulary")
    assert found["seed"] == 7
    assert found["RANDOM_SEED"] == 7
    assert found["model_dir"] == "runs/a"
    assert found["decoding"] is None
    assert found["TASK_FEATURE_LENGTHS"] == {"inputs": 224, "targets": 224}


@pytest.mark.parametrize("text", [None, "train.train.seed = (", "\x00", "import os\n= 3"])
def test_a_config_that_cannot_be_read_says_nothing(tmp_path, text):
    if text is not None:
        (tmp_path / "config.gin").write_text(text)
    assert read_settings(tmp_path) is None


ROWS = [
    {"step": 1, "part": "train", "loss": 3.0, "gradient_norm": 1.0, "p_norms": [1.0, 2.0]},
    {"step": 1, "part": "validation", "loss": 4.0},
    {"step": 1, "part": "validation_decoded", "rouge1": 0.5},
    {"step": 2, "part": "train", "loss": float("nan"), "gradient_norm": 1.0, "p_norms": [3, 4]},
    {"step": 3, "part": "train", "loss": 1.0, "gradient_norm": 1.0, "p_norms": [1.0]},
    {"step": 3, "part": "validation", "loss": 2.0},
]


def write(folder, *more):
    lines = [json.dumps(row) for row in ROWS]
    (folder / "metrics.jsonl").write_text("\n".join([*lines, *more]))
    return folder


def test_curves_by_step(tmp_path):
    log = RunLog(write(tmp_path))
    assert log.training("loss").steps.tolist() == [1, 2, 3]
    np.testing.assert_array_equal(log.training("loss").values, [3, np.nan, 1])
    assert log.validation("loss").steps.tolist() == [1, 3]
    assert log.validation("loss").values.tolist() == [4, 2]
    norms = log.vectors("p_norms", 2)
    assert norms.steps.tolist() == [1, 2]  # the third is of another prompt
    assert norms.values.tolist() == [[1, 2], [3, 4]]


def test_a_step_sees_nothing_later(tmp_path):
    log = RunLog(write(tmp_path), last_step=2)
    assert log.training("loss").steps.tolist() == [1, 2]
    assert log.validation("loss").values.tolist() == [4]


def test_what_is_broken_is_passed_over(tmp_path):
    broken = [
        '{"step": 4, "par',
        "[1]",
        '{"step": "x"}',
        '{"step": true}',
        '{"loss": 1}',
        '{"step": NaN}',
    ]
    broken += ['{"step": 1.5}', '{"step": 1e400}', f'{{"step": {10**40}}}', "[" * 9]
    broken += [f'{{"step": 5, "gradient_norm": 1, "loss": {10**400}}}', "nul", "\ufffd"]
    assert RunLog(write(tmp_path, *broken)).training("loss").steps.tolist() == [1, 2, 3]
    nothing = RunLog(tmp_path / "nowhere")
    assert len(nothing.training("loss").steps) == 0
    assert nothing.vectors("p_norms", 2).values.shape == (0, 2)
