"""Measures the memory and time that processes need to open a large checkpoint, and to save it.

    python tools/measure_loading.py
    python tools/measure_loading.py --gigabytes=0.2 --form=native --params_dtype=float32 --save

Writes a T5 with random weights as bfloat16 to a temporary folder. Then opens it with its parameters
split over all CPU devices: in one process with one device, in one with eight, and in two with four
each. With --save, the processes also save it as a training run does. For each process it prints the
size of its part of the parameters, the size of the largest parameter, the rise of its memory while
reading (and while saving), and the time. Exit status: 1 if reading took more memory than the
process's part, the largest parameter (twice in our own format, where TensorStore decodes it) and 32
MiB together.
"""

import argparse
import functools
import json
import os
import pathlib
import socket
import subprocess
import sys
import tempfile
import time
from typing import Any

REPOSITORY = pathlib.Path(__file__).resolve().parent.parent
# Numbers of processes, and of devices in each.
LAYOUTS = ((1, 1), (1, 8), (2, 4))
OTHER = 32 * 2**20
# By default glibc keeps much freed memory; these settings make it return the memory to the system.
MALLOC = {"MALLOC_ARENA_MAX": "1", "MALLOC_MMAP_THRESHOLD_": "262144"}
_MB = 2**20


def main(arguments: list[str] | None = None) -> int:
    """Runs the tool; returns its exit status."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--gigabytes", type=float, default=2.0, help="of the checkpoint")
    parser.add_argument("--form", default="huggingface", choices=("huggingface", "native"))
    parser.add_argument("--params_dtype", default="bfloat16", help="of the parameters on devices")
    parser.add_argument("--folder", type=pathlib.Path, help="where the temporary folder is")
    parser.add_argument("--save", action="store_true", help="save the parameters too")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.child:
        return child(json.loads(options.child))
    is_within = True
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        written = {
            "path": f"{folder}/model",
            "form": options.form,
            "bytes": options.gigabytes * 1e9,
        }
        run([written], 1)
        for processes, devices in LAYOUTS:
            settings = {
                "path": written["path"],
                "dtype": options.params_dtype,
                "processes": processes,
            }
            settings["saved"] = f"{folder}/{processes}x{devices}" if options.save else None
            for measurement in run([settings | {"number": n} for n in range(processes)], devices):
                pieces = 2 if options.form == "native" else 1  # TensorStore decodes into a copy
                allowed = measurement["held"] + pieces * measurement["largest"] + OTHER
                is_within &= measurement["rise"] <= allowed
                sizes = {
                    n: f"{measurement[n] / _MB:,.0f} MiB" for n in measurement if n != "seconds"
                }
                print(
                    f"{processes} x {devices} devices: "
                    + ", ".join(f"{name} {size}" for name, size in sizes.items())
                    + f", {measurement['seconds']:.1f} s",
                    flush=True,
                )
    return 0 if is_within else 1


def run(tasks: list[dict[str, Any]], devices: int) -> list[dict[str, float]]:
    """Runs a process for each task, all at once; returns their measurements."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{listener.getsockname()[1]}"
    flags = f"--xla_force_host_platform_device_count={devices}"
    environment = os.environ | MALLOC | {"XLA_FLAGS": flags, "JAX_PLATFORMS": "cpu"}
    environment["PYTHONPATH"] = os.pathsep.join(
        [str(REPOSITORY), *filter(None, [os.environ.get("PYTHONPATH")])]
    )
    started = [
        subprocess.Popen(
            [sys.executable, __file__, "--child", json.dumps({**task, "address": address})],
            env=environment,
            stdout=subprocess.PIPE,
            text=True,
        )
        for task in tasks
    ]
    printed = [process.communicate()[0] for process in started]
    if any(process.returncode for process in started):
        raise SystemExit("measure_loading.py: a process failed; see above.")
    return [json.loads(text.splitlines()[-1]) for text in printed if text]  # after Gloo's lines


def child(task: dict[str, Any]) -> int:
    """Writes the checkpoint, or measures how it is opened."""
    if "form" in task:
        write(pathlib.Path(task["path"]), task["form"], task["bytes"])
    else:
        print(json.dumps(measure(task)))
    return 0


def write(folder: pathlib.Path, form: str, size: float) -> None:
    """Writes a T5 of about `size` bytes."""
    import ml_dtypes
    import numpy as np

    from faith_jax.checkpoints.checkpoint import Checkpoint, expected_shapes, unflatten
    from faith_jax.checkpoints.hugging_face.folder import write_huggingface
    from faith_jax.checkpoints.native import write_native
    from faith_jax.models.config import TransformerConfig

    def config(layers: int) -> TransformerConfig:
        return TransformerConfig(
            vocab_size=32128,
            emb_dim=1024,
            num_heads=16,
            head_dim=64,
            mlp_dim=4096,
            mlp_activations=("gelu", "linear"),
            num_encoder_layers=layers,
            num_decoder_layers=layers,
        )

    first_params, two = (
        sum(2 * int(np.prod(shape)) for shape in expected_shapes(config(layers)).values())
        for layers in (1, 2)
    )
    model = config(max(1, 1 + round((size - first_params) / (two - first_params))))
    rng = np.random.default_rng(0)
    params = {
        name: rng.standard_normal(shape, np.float32).astype(ml_dtypes.bfloat16)
        for name, shape in expected_shapes(model).items()
    }
    writer = write_native if form == "native" else write_huggingface
    writer(Checkpoint(model, unflatten(params)), folder)


def measure(task: dict[str, Any]) -> dict[str, float]:
    """Opens the checkpoint; returns the bytes and seconds it took."""
    import jax
    import numpy as np

    if task["processes"] > 1:
        jax.distributed.initialize(task["address"], task["processes"], task["number"])
    from faith_jax.models.partitioning import make_partitioner
    from faith_jax.runs.setup import load_for_inference
    from faith_jax.training.checkpoints import TrainCheckpoints
    from faith_jax.training.trainer import TrainState

    devices = jax.device_count()

    def opened(path: str) -> Any:
        mesh = functools.partial(make_partitioner, num_partitions=devices)
        return load_for_inference(path, mesh, params_dtype=task["dtype"])

    opened("mini")  # excludes the memory and time of loading libraries
    before, start = _restarted_peak(), time.monotonic()
    _, params, partitioner = opened(task["path"])
    jax.block_until_ready(params)
    leaves = jax.tree.leaves(params)
    measurement = {
        "held": sum(part.data.nbytes for leaf in leaves for part in leaf.addressable_shards),
        "largest": max(leaf.nbytes for leaf in leaves),
        "rise": _status("VmHWM") - before,
        "seconds": time.monotonic() - start,
    }
    if task["saved"]:
        before = _restarted_peak()
        step = partitioner.put(np.int32(1), partitioner.replicated)
        checkpoints = TrainCheckpoints(task["saved"])
        checkpoints.save(TrainState(step, params, {"count": step}, ()))
        checkpoints.close()
        measurement["rise_to_save"] = _status("VmHWM") - before
    return measurement


def _restarted_peak() -> int:
    """Resets the memory peak of this process, and returns its current memory in bytes."""
    pathlib.Path("/proc/self/clear_refs").write_text("5")
    return _status("VmRSS")


def _status(name: str) -> int:
    lines = pathlib.Path("/proc/self/status").read_text().splitlines()
    (line,) = [line for line in lines if line.startswith(f"{name}:")]
    return int(line.split()[1]) * 1024


if __name__ == "__main__":
    sys.exit(main())
