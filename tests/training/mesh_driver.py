"""Runs training, evaluation and decoding on several meshes and writes the results.

Run as `python -m tests.training.mesh_driver OUTPUT.npz FOLDER NAME…` with `FLAGS` in XLA_FLAGS: the
number of devices is fixed when JAX starts, so tests run it in a new process. A name is a key of
`CASES` or `OTHERS`. The arrays in OUTPUT are named "<name>/<mesh>/<result>".
"""

import pathlib
import sys
from collections.abc import Callable
from typing import NamedTuple

import flax.traverse_util
import jax
import numpy as np
import optax
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from faith_jax.checkpoints import manifest
from faith_jax.core.errors import CheckpointError
from faith_jax.decoding.search import DecodingConfig
from faith_jax.inference.batch_decoder import BatchDecoder
from faith_jax.models import parameters, partitioning
from faith_jax.models.config import TransformerConfig
from faith_jax.training import checkpoints as training_checkpoints
from faith_jax.training import optimizers
from faith_jax.training.checkpoints import TrainCheckpoints
from faith_jax.training.infonce import InfoNCE
from faith_jax.training.loss_truncation import LossTruncation
from faith_jax.training.objectives import CrossEntropy, Objective
from faith_jax.training.trainer import Trainer, TrainState, merge_params, split_params
from tests.models import tiny

MESHES = {
    "1x1": (1, 1), "4x2": (4, 2), "1x8": (1, 8), "4x2-2d": (4, 2),
    "2x2x2-2d": (2, 2, 2),
}  # fmt: skip
STEPS = 4
ROWS, INPUT_LENGTH, TARGET_LENGTH, STATE_LENGTH = 16, 9, 6, 64

# Heads (six) and the feed-forward layer are not divisible by eight devices; the vocabulary is.
UNEVEN = TransformerConfig(
    vocab_size=264, emb_dim=24, num_heads=6, head_dim=4, mlp_dim=36, num_encoder_layers=1,
    num_decoder_layers=1, mlp_activations=("gelu", "linear"), dropout_rate=0.1,
)  # fmt: skip
DECODER = UNEVEN.replace(num_encoder_layers=0, dropout_rate=0.0)
# Wide enough that Adafactor factors the second moment into rows and columns.
SCANNED = TransformerConfig(
    vocab_size=256, emb_dim=128, num_heads=4, head_dim=32, mlp_dim=128, num_encoder_layers=2,
    num_decoder_layers=2, mlp_activations=("relu",), dropout_rate=0.1, logits_via_embedding=True,
    scan_layers=True, attention_block_length=4,
)  # fmt: skip


class Case(NamedTuple):
    """A model with its training, meshes and decoding.

    On the meshes in `laid_out`, the training state is only created.
    """

    config: TransformerConfig
    optimizer: Callable[[], optax.GradientTransformation]
    meshes: tuple[str, ...]
    trainable: str = ".*"
    num_microbatches: int = 1
    packed: bool = False
    decoding: DecodingConfig | None = None
    laid_out: tuple[str, ...] = ()
    objective: Objective = CrossEntropy(z_loss=1e-4)


CASES = {
    "adamw": Case(
        UNEVEN,
        lambda: optimizers.adamw(0.003, weight_decay=0.1),
        ("1x1", "4x2"),
        decoding=DecodingConfig(max_length=8, temperature=1.0, top_k=20, top_p=0.9),
        laid_out=("1x8",),
    ),
    "adafactor": Case(
        SCANNED,
        lambda: optimizers.adafactor(0.003),
        ("1x1", "4x2-2d"),
        num_microbatches=2,
        packed=True,
        laid_out=("4x2",),
    ),
    # Negatives come from the rows of all devices; only soft prompts are trained.
    "infonce": Case(
        UNEVEN.replace(encoder_prompt_length=3, decoder_prompt_length=2),
        lambda: optimizers.adafactor(0.3, multiply_by_parameter_scale=False),
        ("1x1", "4x2"),
        trainable=".*_prompt/.*",
        objective=InfoNCE(weight=1.0, context="mean", in_batch_negatives=True),
    ),
    # The quantile is that of all devices. Dropout could move losses across it, so there is none.
    "truncation": Case(
        DECODER,
        lambda: optimizers.adamw(0.003),
        ("1x1", "2x2x2-2d"),
        num_microbatches=2,  # few rows: XLA swaps those of slices unless layers are gathered
        objective=LossTruncation(drop_fraction=0.4, window=40, warmup_steps=1),
    ),
}


def make_partitioner(name: str, config: TransformerConfig) -> partitioning.Partitioner:
    """Returns a mesh over the first devices of this process."""
    shape = MESHES[name]
    if len(shape) == 3:
        mesh = partitioning.make_mesh(shape[2], num_slices=shape[0])
    else:
        devices = np.asarray(jax.devices()[: shape[0] * shape[1]]).reshape(shape)
        mesh = Mesh(devices, ("data", "model"))
    rules = partitioning.standard_logical_axis_rules(*(2, 2) if name.endswith("-2d") else ())
    return partitioning.Partitioner(mesh, partitioning.fitting_rules(rules, config, mesh))


def batch_of(config: TransformerConfig, packed: bool) -> dict[str, np.ndarray]:
    """Returns rows of several lengths; if packed, each row holds two examples."""
    rng = np.random.default_rng(5)

    def tokens(length):
        token_ids = rng.integers(2, config.vocab_size, (ROWS, length)).astype(np.int32)
        ends = rng.integers(length // 2, length + 1, ROWS)
        return np.where(np.arange(length) < ends[:, None], token_ids, 0)

    def segments(x):
        second = np.arange(x.shape[1]) >= x.shape[1] // 2
        return np.where(x > 0, 1 + second, 0).astype(np.int32)

    inputs, targets = tokens(INPUT_LENGTH), tokens(TARGET_LENGTH)
    batch = {
        "encoder_input_tokens": inputs,
        "decoder_input_tokens": np.pad(targets[:, :-1], ((0, 0), (1, 0))),
        "decoder_target_tokens": targets,
        # Read by InfoNCE only; every second row has one negative.
        "negatives": np.where(np.arange(ROWS)[:, None, None] % 2, tokens(5)[:, None], 0),
    }
    if packed:
        batch["encoder_segment_ids"] = segments(inputs)
        batch["decoder_segment_ids"] = segments(targets)
        starts = np.diff(segments(targets), prepend=0, axis=1) != 0
        batch["decoder_input_tokens"][starts] = 0
    if config.is_decoder_only:
        del batch["encoder_input_tokens"]
    return batch


def shard_shapes(tree) -> dict[str, np.ndarray]:
    """Returns the shape of the first device's piece of each array, by name."""
    return {
        jax.tree_util.keystr(path, simple=True, separator="."): np.asarray(
            x.addressable_shards[0].data.shape
        )
        for path, x in jax.tree_util.tree_leaves_with_path(tree)
    }


def train_and_decode(name: str, mesh: str, folder: str) -> dict[str, np.ndarray]:
    """Trains a few steps, evaluates and decodes; the results must not depend on the mesh."""
    case = CASES[name]
    partitioner = make_partitioner(mesh, case.config)
    module, params = tiny.model_and_params(case.config)
    params = partitioner.put(params, parameters.param_shardings(module, partitioner))
    trained, frozen = split_params(params, [case.trainable])
    trainer = Trainer(
        module, case.objective, case.optimizer(), partitioner, 3, case.num_microbatches
    )
    state = trainer.init_state(trained)
    arrays = {f"shards/params/{n}": s for n, s in shard_shapes(state.params).items()}
    arrays |= {f"shards/opt_state/{n}": s for n, s in shard_shapes(state.opt_state).items()}
    if mesh in case.laid_out:
        return arrays
    batch = partitioner.put_batch(batch_of(case.config, case.packed))
    arrays |= {f"shards/batch.{n}": shape for n, shape in shard_shapes(batch).items()}
    steps = []
    for _ in range(STEPS):
        state, metrics = trainer.train_step(state, frozen, batch)
        steps.append([float(metrics[n]) for n in ("loss", "gradient_norm", "weight")])
    arrays["train"] = np.asarray(steps)
    arrays["objective"] = np.concatenate(
        [np.ravel(x) for x in jax.tree.leaves(state.objective)] or [[]]
    )
    arrays["examples_dropped"] = np.asarray(float(metrics.get("examples_dropped", 0.0)))
    flat = flax.traverse_util.flatten_dict(state.params, sep="/")
    arrays |= {f"params/{n}": np.asarray(v) for n, v in flat.items()}
    for path, mean in jax.tree_util.tree_leaves_with_path(state.opt_state):
        if ".mu" in (label := jax.tree_util.keystr(path)):
            arrays[f"means/{label}"] = np.asarray(mean)
    if case.decoding is None:
        state, restored = saved_and_restored(mesh, f"{folder}/{name}", state)
        arrays |= restored
        _, metrics = trainer.train_step(state, frozen, batch)
        arrays["loss_after_restoring"] = np.asarray(float(metrics["loss"]))
    else:
        sums = trainer.eval_step(state.params, frozen, batch)
        arrays["eval"] = np.asarray([float(sums[n]) for n in sorted(sums)])
        arrays |= decoded(case, module, partitioner, merge_params(state.params, frozen))
    arrays["compilations"] = np.asarray(trainer.num_compilations)
    return arrays


def decoded(case, module, partitioner, params) -> dict[str, np.ndarray]:
    """Returns the tokens and log-probabilities of every row."""
    decoder = BatchDecoder(module, partitioner, case.decoding, ROWS // 2, seed=1)  # refills
    inputs = batch_of(case.config, packed=False)["encoder_input_tokens"]
    rows = [best for best, *_ in decoder(params, [row[row > 0] for row in inputs])]
    length = case.decoding.max_length
    return {
        "tokens": np.stack([np.pad(r.tokens, (0, length - len(r.tokens))) for r in rows]),
        "log_prob": np.asarray([r.log_prob for r in rows]),
    }


def saved_and_restored(mesh, folder, state):
    """Saves the state on the mesh of one device, and restores it on every mesh."""
    checkpoints = TrainCheckpoints(f"{folder}/checkpoints")
    if mesh == "1x1":
        checkpoints.save(state)
        checkpoints.wait()
    restored = checkpoints.restore(state)
    checkpoints.close()
    same = jax.tree.map(lambda a, b: a.sharding == b.sharding, restored, state)
    leaves = {f"restored/{i}": np.asarray(x) for i, x in enumerate(jax.tree.leaves(restored))}
    return restored, leaves | {"shardings_kept": np.asarray(all(jax.tree.leaves(same)))}


def sharded_manifest(folder: str) -> dict[str, np.ndarray]:
    """Returns how the digests of an array's shards compare with those of the whole array.

    "found" and "expected" are digests. "read" counts the shardings whose array passes the check,
    and "refused" the checks that find a wrong digest, of each chunk on each sharding.
    """
    mesh = make_partitioner("4x2", UNEVEN).mesh
    values = np.arange(16 * 24, dtype=np.float32).reshape(16, 24)
    name = "params/kernel"

    def on_mesh(*axes):
        return jax.device_put(values, NamedSharding(mesh, PartitionSpec(*axes)))

    kernel, scalar = on_mesh("data", "model"), jax.numpy.ones(1)
    saved = TrainState(jax.numpy.int32(1), {"kernel": kernel}, {"one": scalar})
    checkpoints = TrainCheckpoints(f"{folder}/sharded")
    checkpoints.save(saved)
    checkpoints.close()
    digests = training_checkpoints.shard_digests({name: saved.params["kernel"]})
    stored = digests[name]
    expected = [
        manifest.chunk_digest(values[b]).hex() for b in manifest.boxes((16, 24), stored.chunk)
    ]
    step, read, refused = pathlib.Path(folder) / "sharded" / "1", 0, 0
    for axes in [("data", "model"), ("model", "data"), (None, ("data", "model")), (None, "model")]:
        array = on_mesh(*axes)
        header = manifest.Manifest(digests, {})
        training_checkpoints.check_shards(step, header, name, array)
        read += 1
        for place in range(len(expected)):
            wrong = [digest if i != place else "0" for i, digest in enumerate(expected)]
            forged = manifest.TensorDigests(stored.dtype, stored.shape, stored.chunk, wrong)
            try:
                header = manifest.Manifest({name: forged}, {})
                training_checkpoints.check_shards(step, header, name, array)
            except CheckpointError as error:
                refused += f"chunk {place + 1} of {len(expected)}" in str(error)
    return {
        "sharded_manifest/found": np.asarray(stored.sha256),
        "sharded_manifest/expected": np.asarray(expected),
        "sharded_manifest/read": np.asarray(read),
        "sharded_manifest/refused": np.asarray(refused),
    }


def initial_parameters() -> dict[str, np.ndarray]:
    """Returns freshly drawn parameters, on one device and on eight."""
    arrays = {}
    module = tiny.model_and_params(DECODER)[0]
    for mesh in ("1x1", "4x2"):
        params = parameters.random_params(module, make_partitioner(mesh, DECODER), seed=7)
        flat = flax.traverse_util.flatten_dict(params, sep="/")
        arrays |= {f"initial/{mesh}/{n}": np.asarray(v) for n, v in flat.items()}
    return arrays


def state_bytes() -> dict[str, np.ndarray]:
    """Returns the memory that one more layer in each stack costs a training step, on 2 x 4 devices.

    It is in bytes per device, for each number of activation_partitioning_dims.
    """
    mesh = Mesh(np.asarray(jax.devices()).reshape(2, 4), partitioning.MESH_AXES)
    tokens = np.ones((ROWS, STATE_LENGTH), np.int32)
    rows = {f"decoder_{part}_tokens": tokens for part in ("input", "target")}
    rows["encoder_input_tokens"] = tokens[:, 2:]  # after a prompt of two

    def temporaries(layers: int, dims: int) -> int:
        config = SCANNED.replace(
            num_encoder_layers=layers, num_decoder_layers=layers, remat_policy="full",
            dropout_rate=0.0, encoder_prompt_length=2,
        )  # fmt: skip
        partitioner = partitioning.make_partitioner(
            config, mesh=mesh, activation_partitioning_dims=dims
        )
        module, params = tiny.model_and_params(config)
        params = partitioner.put(params, parameters.param_shardings(module, partitioner))
        trained, frozen = split_params(params, [".*_prompt/.*"])
        trainer = Trainer(module, CrossEntropy(), optimizers.adafactor(0.3), partitioner)
        state, batch = trainer.init_state(trained), partitioner.put_batch(rows)
        with partitioner.active():
            lowered = trainer._compiled_step(state)._function.lower(state, frozen, batch)
        return lowered.compile().memory_analysis().temp_size_in_bytes

    return {
        f"state_bytes/{dims}": np.asarray(temporaries(4, dims) - temporaries(3, dims))
        for dims in (1, 2)
    }


def trained(name: str, folder: str) -> dict[str, np.ndarray]:
    """Returns the results of a case on each of its meshes."""
    case = CASES[name]
    return {
        f"{name}/{mesh}/{key}": array
        for mesh in (*case.meshes, *case.laid_out)
        for key, array in train_and_decode(name, mesh, folder).items()
    }


OTHERS = {
    "initial": lambda _: initial_parameters(),
    "sharded_manifest": sharded_manifest,
    "state_bytes": lambda _: state_bytes(),
}


def main(output: str, folder: str, *names: str) -> None:
    """Runs the named cases and others, and writes their results."""
    arrays = {}
    for name in names:
        arrays |= OTHERS[name](folder) if name in OTHERS else trained(name, folder)
    np.savez(output, **arrays)


if __name__ == "__main__":
    main(*sys.argv[1:])
