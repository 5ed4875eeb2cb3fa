"""Compares faith_jax's network with T5X's own t5 network; T5X must be installed.

    python tools/compare_with_t5x.py [--write_snapshot]

Prints one line for each comparison and exits with 1 if any of them fails. The last comparisons are
whole runs of users' gin files (compare_runs_with_t5x.py). T5X is not on PyPI; docs/t5x.md says how
to install it. With --write_snapshot it also writes the reference data of tests that run without
T5X, to tests/testdata: T5X's parameter names, shapes and axes (t5x_parameters.json), its logits for
tiny parameters (t5x_logits.npz), and a checkpoint written by T5X with the T5 1.1 parameters of
these logits (t5x_checkpoint.tar.gz).
"""

import argparse
import functools
import gzip
import io
import json
import pathlib
import sys
import tarfile
import tempfile
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import seqio
import t5x.checkpoints
import t5x.decoding
import t5x.models
import t5x.partitioning
import t5x.train_state
import t5x.trainer
import t5x.utils
from compare_runs_with_t5x import compare_runs
from flax import traverse_util
from t5x.adafactor import Adafactor, standard_logical_factor_rules
from t5x.examples.t5 import network as t5x_network
from update_parameter_snapshot import TESTDATA, parameters, write

from faith_jax.models.config import TransformerConfig
from faith_jax.models.transformer import Transformer

VOCAB_SIZE = 256
DIMENSIONS = {
    "vocab_size": VOCAB_SIZE,
    "emb_dim": 24,
    "num_heads": 3,
    "num_encoder_layers": 2,
    "num_decoder_layers": 3,
    "head_dim": 5,
    "mlp_dim": 40,
    "dropout_rate": 0.1,
}
VERSIONS = {
    "t5_1_0": {"mlp_activations": ["relu"], "logits_via_embedding": True},
    "t5_1_1": {"mlp_activations": ["gelu", "linear"], "logits_via_embedding": False},
}
TINY = DIMENSIONS | {"vocab_size": 20, "emb_dim": 8, "num_heads": 2, "head_dim": 4, "mlp_dim": 12}
TOLERANCE = 1e-5


class Report:
    """Prints comparisons and remembers whether one failed."""

    failed = False

    def add(self, name: str, holds: bool, figure: Any = "") -> None:
        """Prints one comparison with the measured figure."""
        self.failed |= not holds
        print(f"{'ok  ' if holds else 'FAIL'} {name} {figure}".rstrip(), flush=True)

    def difference(
        self, name: str, ours: Any, reference: Any, tolerance: float = TOLERANCE
    ) -> None:
        """Compares two trees of arrays, and prints their largest absolute difference."""
        largest = max(
            float(np.max(np.abs(np.asarray(a, np.float64) - np.asarray(b, np.float64))))
            for a, b in zip(jax.tree.leaves(ours), jax.tree.leaves(reference), strict=True)
        )
        self.add(name, largest <= tolerance, f"max abs difference {largest:.2e}")


def t5x_model(module: Any, decode_fn: Any = t5x.decoding.beam_search) -> Any:
    """Wraps a network in T5X's model class."""
    vocabulary = seqio.PassThroughVocabulary(VOCAB_SIZE, eos_id=1)
    return t5x.models.EncoderDecoderModel(
        module=module,
        input_vocabulary=vocabulary,
        output_vocabulary=vocabulary,
        optimizer_def=Adafactor(logical_factor_rules=standard_logical_factor_rules()),
        decode_fn=decode_fn,
        z_loss=1e-4,
    )


def batch_of_tokens(
    rng: np.random.Generator, vocab_size: int = VOCAB_SIZE
) -> dict[str, np.ndarray]:
    """Returns a batch of rows of different lengths, padded with 0."""

    def tokens(lengths: list[int], width: int) -> np.ndarray:
        rows = np.zeros((len(lengths), width), np.int32)
        for row, length in zip(rows, lengths, strict=True):
            row[:length] = rng.integers(3, vocab_size, length)
        return rows

    targets = tokens([9, 4, 1], 9)
    return {
        "encoder_input_tokens": tokens([11, 6, 3], 11),
        "decoder_input_tokens": np.pad(targets[:, :-1], ((0, 0), (1, 0))),
        "decoder_target_tokens": targets,
        "decoder_loss_weights": (targets > 0).astype(np.int32),
    }


def packed_batch(rng: np.random.Generator, vocab_size: int = VOCAB_SIZE) -> dict[str, np.ndarray]:
    """Returns a batch of one row with two packed examples and padding."""
    encoder_segments = np.array([[1] * 5 + [2] * 4 + [0] * 2], np.int32)
    decoder_segments = np.array([[1] * 3 + [2] * 4 + [0] * 2], np.int32)

    def tokens(segments: np.ndarray) -> np.ndarray:
        drawn = rng.integers(3, vocab_size, segments.shape)
        return np.where(segments > 0, drawn, 0).astype(np.int32)

    targets = tokens(decoder_segments)
    starts = np.diff(decoder_segments, prepend=0, axis=1) != 0
    inputs = np.where(starts, 0, np.pad(targets[:, :-1], ((0, 0), (1, 0))))
    return {
        "encoder_input_tokens": tokens(encoder_segments),
        "decoder_input_tokens": inputs,
        "decoder_target_tokens": targets,
        "decoder_loss_weights": (targets > 0).astype(np.int32),
        "encoder_segment_ids": encoder_segments,
        "decoder_segment_ids": decoder_segments,
    }


def stacked(params: Any) -> Any:
    """Returns the parameters in the form of a model with scan_layers."""
    result = {}
    for name, part in params.items():
        layers = sorted(k for k in part if k.startswith("layers_"))
        result[name] = {k: v for k, v in part.items() if k not in layers}
        if layers:
            trees = [part[k] for k in sorted(layers, key=lambda k: int(k.split("_")[1]))]
            result[name]["layers"] = jax.tree.map(lambda *x: jnp.stack(x), *trees)
    return result


def trained_looking(params: Any) -> Any:
    """Returns parameters with noise, so that norms and biases differ from their initial values."""
    keys = iter(jax.random.split(jax.random.key(7), len(jax.tree.leaves(params))))
    return jax.tree.map(lambda p: p + 0.1 * jax.random.normal(next(keys), p.shape), params)


def compare_decoding(report: Report, version: str, ours: Any, reference: Any, params: Any) -> None:
    """Compares the tokens of T5X's decoders with both networks and our scanned one."""
    batch = batch_of_tokens(np.random.default_rng(2))
    scanned = Transformer(ours.config.replace(scan_layers=True))
    sample = functools.partial(t5x.decoding.temperature_sample, temperature=0.7, topk=20)
    greedy = functools.partial(t5x.decoding.temperature_sample, temperature=0.0)
    decoders = {
        "beam search, 4 beams": (t5x.decoding.beam_search, 4),
        "greedy": (greedy, 1),
        "temperature sampling, 2 decodes": (sample, 2),
    }
    for name, (decode_fn, count) in decoders.items():
        results = [
            t5x_model(module, decode_fn).predict_batch_with_aux(
                tree,
                batch,
                rng=jax.random.PRNGKey(3),
                num_decodes=count,
                return_all_decodes=True,
            )
            for module, tree in ((reference, params), (ours, params), (scanned, stacked(params)))
        ]
        (tokens, _), *rest = results
        for label, (sequences, _) in zip(("", ", scanned"), rest, strict=True):
            equal = np.array_equal(tokens, sequences)
            figure = f"{tokens.size} tokens, {np.unique(tokens).size} different"
            report.add(f"{version}: {name}{label}: equal tokens", equal, figure)
        if name != "greedy":  # T5X's greedy search returns scores of 0
            scores = [result[1]["scores"] for result in results[:2]]
            report.difference(f"{version}: {name}: scores", scores[1], scores[0], 1e-4)


def partitioner_of(num_partitions: int) -> Any:
    """Returns T5X's partitioner with a model split over `num_partitions` devices.

    T5X has no such mesh for CPUs, so this takes its mesh for GPUs.
    """
    mesh = functools.partial(t5x.partitioning.get_gpu_mesh, num_partitions)
    t5x.partitioning.get_cpu_mesh = mesh
    return t5x.partitioning.PjitPartitioner(num_partitions=num_partitions)


def train_state(module: Any, batch: dict[str, np.ndarray], seed: int) -> Any:
    """Returns T5X's train state of a freshly initialised network, with optimizer state."""
    model = t5x_model(module)
    shapes = {name: tokens.shape for name, tokens in batch.items()}
    variables = model.get_initial_variables(jax.random.PRNGKey(seed), shapes)
    return t5x.train_state.FlaxOptimTrainState.create(model.optimizer_def, variables)


def compare_checkpoints(report: Report, version: str, ours: Any, reference: Any) -> None:
    """Saves each network's train state with T5X and restores it into the other's."""
    batch = batch_of_tokens(np.random.default_rng(4))
    partitioner = partitioner_of(1)
    for name, source, target in (("ours to theirs", ours, reference), ("back", reference, ours)):
        state, target_state = train_state(source, batch, 5), train_state(target, batch, 6)
        with tempfile.TemporaryDirectory() as folder:
            t5x.checkpoints.Checkpointer(state, partitioner, folder).save(state)
            restored = t5x.checkpoints.Checkpointer(target_state, partitioner, folder).restore(
                step=0
            )
        same_tree = jax.tree.structure(state.state_dict()) == jax.tree.structure(
            restored.state_dict()
        )
        report.add(f"{version}: checkpoint, {name}: equal trees", same_tree)
        report.difference(
            f"{version}: checkpoint, {name}", state.state_dict(), restored.state_dict(), 0.0
        )


def compare_version(report: Report, version: str) -> dict[str, Any]:
    """Compares one version's parameters, logits, loss, gradients and decoding."""
    fields = DIMENSIONS | VERSIONS[version]
    reference = t5x_network.Transformer(t5x_network.T5Config(**fields))
    ours = Transformer(TransformerConfig.from_dict(fields))
    snapshot = parameters(reference)
    report.add(f"{version}: equal parameters", snapshot == parameters(ours), f"{len(snapshot)}")

    tokens = jnp.ones((1, 4), jnp.int32)
    variables = reference.init(jax.random.key(0), tokens, tokens, tokens, enable_dropout=False)
    params = trained_looking(variables["params"])
    models = {"ours": t5x_model(ours), "theirs": t5x_model(reference)}
    batches = {
        "padded": batch_of_tokens(np.random.default_rng(0)),
        "packed": packed_batch(np.random.default_rng(1)),
    }
    for name, batch in batches.items():
        logits = {k: m._compute_logits(params, batch) for k, m in models.items()}
        report.difference(f"{version}: logits, {name}", logits["ours"], logits["theirs"])
        gradients = {
            k: jax.grad(lambda p, m=m, b=batch: m.loss_fn(p, b, None)[0])(params)
            for k, m in models.items()
        }
        scale = max(float(jnp.max(jnp.abs(g))) for g in jax.tree.leaves(gradients["theirs"]))
        report.difference(
            f"{version}: gradients, {name} (largest {scale:.1f})",
            gradients["ours"],
            gradients["theirs"],
            TOLERANCE * max(1.0, scale),
        )
    compare_decoding(report, version, ours, reference, params)
    compare_checkpoints(report, version, ours, reference)
    return {"config": fields, "parameters": snapshot}


def compare_on_mesh(report: Report, version: str, block_length: int) -> None:
    """Trains both networks under T5X's partitioner on 8 devices as 4 x 2, and compares them.

    Args:
      report: collects the comparisons.
      version: a key of `VERSIONS`.
      block_length: the block length of our attention; the inputs have 11 tokens.
    """
    fields = DIMENSIONS | VERSIONS[version] | {"num_heads": 4, "dropout_rate": 0.0}
    modules = (
        t5x_network.Transformer(t5x_network.T5Config(**fields)),
        Transformer(TransformerConfig.from_dict(fields | {"attention_block_length": block_length})),
    )
    batch = {
        name: np.concatenate([rows, np.roll(rows, 1, 0), rows[::-1]])[:8]
        for name, rows in batch_of_tokens(np.random.default_rng(6)).items()
    }
    shapes = {name: rows.shape for name, rows in batch.items()}
    partitioner = partitioner_of(2)
    start, losses, states = None, [], []
    for module in modules:
        model = t5x_model(module)
        initial = t5x.utils.TrainStateInitializer(
            model.optimizer_def, model.get_initial_variables, shapes, partitioner
        )
        state = initial.from_scratch(jax.random.PRNGKey(8))
        start = jax.device_get(state.params) if start is None else start
        state = state.replace_params(
            jax.tree.map(lambda new, old: jax.device_put(new, old.sharding), start, state.params)
        )
        trainer = t5x.trainer.Trainer(
            model, state, partitioner, [], None, initial.train_state_axes, jax.random.PRNGKey(9),
            t5x.utils.create_learning_rate_scheduler("constant", base_learning_rate=0.01), None,
        )  # fmt: skip
        outcomes = []
        for _ in range(4):
            metrics = trainer.train(iter([batch]), 1).result()
            outcomes.append(float(metrics["loss"].value))
        trainer.close()
        kernel = trainer.train_state.params["encoder"]["layers_0"]["attention"]["query"]["kernel"]
        report.add(
            f"{version}: mesh 4 x 2: kernel in two pieces",
            kernel.addressable_shards[0].data.shape == (24, 10),
        )
        losses.append(np.asarray(outcomes))
        states.append(jax.device_get(trainer.train_state.params))
    label = f"{version}: mesh 4 x 2, blocks of {block_length or 'all'}"
    report.add(f"{label}: loss moves", len(set(losses[0].tolist())) == len(losses[0]), losses[0])
    report.difference(f"{label}: losses, relative", losses[1] / losses[0], losses[0] / losses[0])
    report.difference(f"{label}: parameters after 4 steps", states[1], states[0])


def golden_logits(version: str) -> dict[str, np.ndarray]:
    """Returns tiny parameters, batches and T5X's logits for them, as arrays by flat name."""
    module = t5x_network.Transformer(t5x_network.T5Config(**(TINY | VERSIONS[version])))
    tokens = jnp.ones((1, 4), jnp.int32)
    variables = module.init(jax.random.key(0), tokens, tokens, tokens, enable_dropout=False)
    params = trained_looking(variables["params"])
    flat = traverse_util.flatten_dict({"params": params}, sep="/")
    rng = np.random.default_rng(5)
    for name, make in (("padded", batch_of_tokens), ("packed", packed_batch)):
        batch = make(rng, TINY["vocab_size"])
        logits = t5x_model(module)._compute_logits(params, batch)
        flat |= {f"{name}/{key}": value for key, value in batch.items()}
        flat[f"{name}/logits"] = logits
    return {f"{version}/{key}": np.asarray(value) for key, value in flat.items()}


def write_checkpoint(path: pathlib.Path) -> None:
    """Writes the T5 1.1 parameters of t5x_logits.npz as a checkpoint saved by T5X."""
    module = t5x_network.Transformer(t5x_network.T5Config(**(TINY | VERSIONS["t5_1_1"])))
    tokens = jnp.ones((1, 4), jnp.int32)
    variables = module.init(jax.random.key(0), tokens, tokens, tokens, enable_dropout=False)
    state = train_state(module, batch_of_tokens(np.random.default_rng(4), TINY["vocab_size"]), 5)
    state = state.replace_params(trained_looking(variables["params"])).replace_step(
        jnp.asarray(7, jnp.int32)
    )
    partitioner = partitioner_of(1)
    with tempfile.TemporaryDirectory() as folder, gzip.GzipFile(path, "wb", mtime=0) as zipped:
        t5x.checkpoints.Checkpointer(state, partitioner, folder).save(state)
        with tarfile.open(fileobj=zipped, mode="w") as archive:
            for file in sorted(p for p in pathlib.Path(folder).rglob("*") if p.is_file()):
                entry = tarfile.TarInfo(str(file.relative_to(folder)))
                entry.size = file.stat().st_size
                archive.addfile(entry, io.BytesIO(file.read_bytes()))
    print(f"wrote {path}")


def write_snapshots(snapshots: dict[str, Any]) -> None:
    """Writes the reference data that our tests read."""
    write(TESTDATA / "t5x_parameters.json", snapshots)
    arrays = {key: value for v in VERSIONS for key, value in golden_logits(v).items()}
    configs = {version: TINY | fields for version, fields in VERSIONS.items()}
    path = TESTDATA / "t5x_logits.npz"
    np.savez_compressed(path, config=json.dumps(configs), **arrays)
    print(f"wrote {path}")
    write_checkpoint(TESTDATA / "t5x_checkpoint.tar.gz")


def main() -> int:
    """Runs every comparison."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--write_snapshot", action="store_true", help="write tests/testdata/t5x_*")
    arguments = parser.parse_args()
    jax.config.update("jax_num_cpu_devices", 8)
    report = Report()
    for version, block_length in (("t5_1_0", 0), ("t5_1_1", 4)):
        compare_on_mesh(report, version, block_length)
    snapshots = {version: compare_version(report, version) for version in VERSIONS}
    with tempfile.TemporaryDirectory() as folder:
        compare_runs(report, pathlib.Path(folder))
    if arguments.write_snapshot:
        write_snapshots(snapshots)
    return int(report.failed)


if __name__ == "__main__":
    sys.exit(main())
