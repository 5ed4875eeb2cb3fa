"""Runs gin files written for T5X under T5X's own programs and under ours, and compares the results.

    python tools/compare_runs_with_t5x.py [--keep FOLDER]

One file fine-tunes a tiny T5 1.1 for 20 steps, one tunes a soft prompt (if prompt-tuning and
flaxformer are installed), and two decode with the fine-tuned model by `eval` and `infer`. Dropout
is 0 and rows keep their order, so that both sides see the same batches. Losses of each step,
metrics and predicted texts must agree. docs/t5x.md says how to install T5X;
tools/compare_with_t5x.py runs this too.
"""

import argparse
import importlib.util
import json
import os
import pathlib
import subprocess
import sys
import tempfile
from typing import Any

import numpy as np

from faith_jax.checkpoints.t5x import read_t5x

STEPS = 20
LOSS_TOLERANCE = 1e-4  # relative
OURS = "import sys; from faith_jax.cli import t5x_main; sys.exit(t5x_main())"
# prompt-tuning imports a module that flax removed in 2022; nothing that runs here uses it.
THEIRS = """
import flax, runpy, sys, types
flax.optim = types.SimpleNamespace(MultiOptimizer=object, OptimizerDef=object)
runpy.run_module("t5x." + sys.argv.pop(1), run_name="__main__", alter_sys=True)
"""
TASK = "npov_generate_sample"
COMMON = f"""
MIXTURE_OR_TASK_NAME = '{TASK}'
MIXTURE_OR_TASK_MODULE = 'faith_jax.tasks'
TASK_FEATURE_LENGTHS = {{'inputs': 256, 'targets': 256}}
DROPOUT_RATE = 0.0
VOCABULARY = @seqio_vocabulary.default_vocabulary()
"""
TINY = """
include 't5x/examples/t5/t5_1_1/tiny.gin'
include 't5x/configs/runs/{run}.gin'
{common}
network.T5Config:
  vocab_size = 4224
  dtype = 'float32'
"""
IMPORTS = """from __gin__ import dynamic_registration

import __main__ as script
import seqio
from faith_jax.tokenizers import seqio_vocabulary
from t5x import models
from t5x import trainer
from t5x import utils
"""
TRAINING = f"""
TRAIN_STEPS = {STEPS}
BATCH_SIZE = 4
USE_CACHED_TASKS = False
RANDOM_SEED = 0
script.train:
  eval_period = {STEPS}
  stats_period = 1
  train_eval_dataset_cfg = None
  infer_eval_dataset_cfg = None
train/utils.DatasetConfig:
  shuffle = False
  seed = 0
  pack = False
"""
SCHEDULE = """
utils.create_learning_rate_scheduler:
  factors = 'constant * linear_warmup'
  base_learning_rate = 0.01
  warmup_steps = 5
"""
DECODING = """
utils.DatasetConfig:
  split = 'validation'
  batch_size = 4
utils.RestoreCheckpointConfig.dtype = 'float32'
"""
NETWORK = "from t5x.examples.t5 import network\n"
PROMPT_TUNING = """
include 'prompt_tuning/configs/models/t5_1_1_small_prompt.gin'
include 'prompt_tuning/configs/prompts/from_file.gin'
include 'prompt_tuning/configs/runs/prompt_{run}.gin'
"""
PROMPT_MODEL = """
PROMPT_LENGTH = 7
NUM_HEADS = 4
HEAD_DIM = 3
EMBED_DIM = 8
MLP_DIM = 16
NUM_ENCODER_LAYERS = 2
NUM_DECODER_LAYERS = 2
NUM_EMBEDDINGS = 4224
ACTIVATION_DTYPE = 'float32'
"""
GIN_FILES = {
    "finetune": IMPORTS + NETWORK + TINY.format(run="finetune", common=COMMON) + TRAINING
    + SCHEDULE,
    "eval": IMPORTS + NETWORK + TINY.format(run="eval", common=COMMON) + DECODING,
    "infer": IMPORTS + NETWORK + TINY.format(run="infer", common=COMMON) + DECODING,
    "prompt": IMPORTS + PROMPT_TUNING.format(run="finetune") + COMMON + TRAINING + PROMPT_MODEL,
    "prompt_infer": IMPORTS + PROMPT_TUNING.format(run="infer") + COMMON + DECODING + PROMPT_MODEL,
}  # fmt: skip


class Runs:
    """Runs programs of both sides in one folder.

    Attributes:
      folder: the folder of the gin files, the logs and the programs' outputs.
    """

    def __init__(self, folder: pathlib.Path):
        self.folder = folder
        for name, text in GIN_FILES.items():
            (folder / f"{name}.gin").write_text(text)

    def run(
        self, program: str, name: str, output: str, t5x_only: Any = (), **macros: str
    ) -> dict[str, pathlib.Path]:
        """Runs T5X's and our `program` with one gin file; returns the folder each has written.

        Args:
          program: "train", "eval" or "infer".
          name: the name of the gin file.
          output: the macro for the output folder.
          t5x_only: bindings for T5X alone.
          **macros: more bindings, whose values are paths.

        Raises:
          SystemExit: a program failed; the message has its log.
        """
        folders = {}
        for side in ("theirs", "ours"):
            folders[side] = self.folder / f"{side}_{name}"
            bound = (
                macros | {output: str(folders[side])} | dict(t5x_only if side == "theirs" else ())
            )
            code = {"theirs": THEIRS, "ours": OURS}[side]
            gin_file = f"--gin_file={self.folder / name}.gin"
            command = [sys.executable, "-c", code, program, gin_file]
            command += [f"--gin.{macro}='{value}'" for macro, value in bound.items()]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            log = done.stdout + done.stderr
            (self.folder / f"{side}_{name}.log").write_text(log)
            if done.returncode:
                raise SystemExit(f"{' '.join(command)}\n{log[-3000:]}")
        return folders


def write_initial_checkpoint(folder: pathlib.Path) -> str:
    """Writes a tiny T5 1.1 as T5X saves a run; returns the checkpoint's path."""
    import compare_with_t5x
    import t5x.checkpoints
    from t5x.examples.t5 import network

    config = network.T5Config(
        vocab_size=4224, dtype="float32", emb_dim=8, num_heads=4, num_encoder_layers=2,
        num_decoder_layers=2, head_dim=3, mlp_dim=16, mlp_activations=("gelu", "linear"),
        dropout_rate=0.0, logits_via_embedding=False,
    )  # fmt: skip
    batch = compare_with_t5x.batch_of_tokens(np.random.default_rng(4))
    state = compare_with_t5x.train_state(network.Transformer(config), batch, 5)
    partitioner = compare_with_t5x.partitioner_of(1)
    t5x.checkpoints.Checkpointer(state, partitioner, str(folder)).save(state)
    return str(folder / "checkpoint_0")


def losses_of_t5x(folder: pathlib.Path) -> list[float]:
    """Reads the loss per target token of each step from T5X's TensorBoard events."""
    import tensorflow as tf
    from tensorboard.backend.event_processing import event_accumulator

    (events,) = folder.glob("train/events*")
    accumulator = event_accumulator.EventAccumulator(
        str(events), size_guidance={event_accumulator.TENSORS: 0}
    )
    accumulator.Reload()
    return [
        float(tf.make_ndarray(event.tensor_proto))
        for event in accumulator.Tensors("loss_per_nonpadding_target_token")
    ]


def losses_of_ours(folder: pathlib.Path) -> list[float]:
    """Reads the loss per target token of each step from our metrics.jsonl."""
    rows = map(json.loads, (folder / "metrics.jsonl").read_text().splitlines())
    return [row["loss"] for row in rows if row["part"] == "train"]


def read_rows(path: pathlib.Path) -> list[Any]:
    """Reads a JSONL file."""
    return [json.loads(line) for line in path.read_text().splitlines()]


def compare_training(report: Any, name: str, folders: dict[str, pathlib.Path]) -> None:
    """Compares the losses of two runs step by step."""
    reference, ours = losses_of_t5x(folders["theirs"]), losses_of_ours(folders["ours"])
    report.add(f"{name}: {STEPS} steps", len(reference) == len(ours) == STEPS)
    report.add(
        f"{name}: loss falls",
        reference[-1] < reference[0],
        f"{reference[0]:.4f} {reference[-1]:.4f}",
    )
    ratio = np.asarray(ours) / np.asarray(reference)
    report.difference(f"{name}: losses, relative", ratio, np.ones(STEPS), LOSS_TOLERANCE)


def compare_eval(report: Any, folders: dict[str, pathlib.Path]) -> None:
    """Compares the metrics of the decoded validation split."""
    (t5x_metrics,) = read_rows(folders["theirs"] / "inference_eval" / f"{TASK}-metrics.jsonl")
    ours = json.loads((folders["ours"] / "evaluation.json").read_text())
    ours = ours.get("metrics", ours)
    for name, value in t5x_metrics.items():
        if name != "step":
            report.difference(f"eval: {name}", ours[name], value, 1e-6)


def compare_infer(report: Any, name: str, folders: dict[str, pathlib.Path]) -> None:
    """Compares the predicted texts, row by row."""
    (file,) = folders["theirs"].glob(f"{TASK}-predict.jsonl-*-of-00001")
    reference = [row["prediction"] for row in read_rows(file)]
    ours = [row["prediction"] for row in read_rows(folders["ours"] / "predictions.jsonl")]
    equal = sum(a == b for a, b in zip(reference, ours, strict=True))
    report.add(
        f"{name}: equal predictions", equal == len(reference),
        f"{equal} of {len(reference)}, {len(set(reference))} different",
    )  # fmt: skip


def compare_runs(report: Any, folder: pathlib.Path) -> None:
    """Runs and compares everything.

    Args:
      report: `compare_with_t5x.Report`.
      folder: an empty folder for the programs' outputs.
    """
    start = write_initial_checkpoint(folder / "initial")
    runs = Runs(folder)
    finetuned = runs.run("train", "finetune", "MODEL_DIR", INITIAL_CHECKPOINT_PATH=start)
    compare_training(report, "finetune", finetuned)
    checkpoint = str(finetuned["theirs"] / f"checkpoint_{STEPS}")
    compare_eval(report, runs.run("eval", "eval", "EVAL_OUTPUT_DIR", CHECKPOINT_PATH=checkpoint))
    compare_infer(
        report, "infer", runs.run("infer", "infer", "INFER_OUTPUT_DIR", CHECKPOINT_PATH=checkpoint)
    )
    if all(map(importlib.util.find_spec, ("prompt_tuning", "flaxformer"))):
        prompt = folder / "prompt.npy"
        np.save(prompt, np.random.default_rng(6).normal(size=(7, 8)).astype(np.float32))
        tuned = runs.run(
            "train", "prompt", "MODEL_DIR", INITIAL_CHECKPOINT_PATH=start, PROMPT_FILE=str(prompt)
        )
        compare_training(report, "prompt-tuning", tuned)
        # T5X reads the tuned prompt from a separate file; our infer reads it from the checkpoint.
        checkpoint = tuned["theirs"] / f"checkpoint_{STEPS}"
        np.save(prompt, np.asarray(read_t5x(checkpoint).params["encoder_prompt"]["embedding"]))
        responses = runs.run(
            "infer", "prompt_infer", "INFER_OUTPUT_DIR", {"PROMPT_FILE": str(prompt)},
            CHECKPOINT_PATH=str(checkpoint),
        )  # fmt: skip
        compare_infer(report, "prompt-tuned infer", responses)
    else:
        print("prompt-tuning is not compared: it needs prompt_tuning and flaxformer", flush=True)


def main() -> int:
    """Runs every comparison."""
    from compare_with_t5x import Report

    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--keep", help="a new folder for gin files, logs and results")
    arguments = parser.parse_args()
    os.environ.setdefault("JAX_PLATFORMS", "cpu")
    report = Report()
    with tempfile.TemporaryDirectory() as temporary:
        folder = pathlib.Path(arguments.keep or temporary).absolute()
        folder.mkdir(parents=True, exist_ok=not arguments.keep)
        compare_runs(report, folder)
    return int(report.failed)


if __name__ == "__main__":
    sys.exit(main())
