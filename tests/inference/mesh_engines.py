"""Runs all engines that compute rows on several meshes and writes the results.

Run as `python -m tests.inference.mesh_engines [--process=ADDRESS/NUMBER] OUTPUT.npz MESH/FAMILY…`
with eight devices in one process or in two: their number is fixed when JAX starts, so tests run it
in new processes. The arrays in OUTPUT are named "<mesh>/<family>/<result>".
"""

import sys
from collections.abc import Iterator

import jax
import numpy as np
from jax.sharding import Mesh

from faith_jax.decoding.config import PMIConfig
from faith_jax.inference import CausalModel, EncoderDecoderModel, EncoderModel
from faith_jax.inference.class_probabilities import ClassificationEngine, DropoutPasses, LabelTexts
from faith_jax.inference.row_likelihoods import LikelihoodEngine, LikelihoodRow
from faith_jax.models.partitioning import make_mesh
from faith_jax.scoring.salience.gradients import SalienceEngine
from tests.models import tiny
from tests.scoring.tiny_models import FAMILIES

# Numbers of partitions of a model, and of slices.
MESHES = {"8x1": (1, None), "4x2": (2, None), "1x8": (8, None), "2x2x2": (2, 2)}
# Eight heads divide by eight devices, as does the vocabulary.
SIZES = {"vocab_size": 64, "emb_dim": 16, "num_heads": 8, "head_dim": 2, "mlp_dim": 32}
T5 = tiny.TINY.replace(**SIZES, num_encoder_layers=1, num_decoder_layers=1)
GPT2 = T5.replace(**FAMILIES["gpt2"] | SIZES | {"max_positions": 128})
ROBERTA = T5.replace(
    **FAMILIES["roberta"] | SIZES | {"max_positions": 128, "label_names": ("a", "b", "c")}
)


def rows(count: int, seed: int) -> list[LikelihoodRow]:
    """Returns rows of 2 to 40 inputs and 1 to 12 targets."""
    rng = np.random.default_rng(seed)
    return [
        LikelihoodRow(
            rng.integers(5, 60, rng.integers(2, 41)).tolist(),
            rng.integers(5, 60, rng.integers(1, 13)).tolist(),
        )
        for _ in range(count)
    ]


def padded(texts: list[list[int]]) -> np.ndarray:
    longest = max(len(text) for text in texts)
    return np.array([[*text, *[0] * (longest - len(text))] for text in texts], np.int32)


def results(family: str, mesh: Mesh) -> Iterator[tuple[str, np.ndarray]]:
    """Yields the results of a model for rows on a mesh, by name."""
    config = {"t5": T5, "gpt2": GPT2, "roberta": ROBERTA}[family]
    _, params = tiny.model_and_params(config)
    make = {"t5": EncoderDecoderModel, "gpt2": CausalModel, "roberta": EncoderModel}[family]
    model = make(config, params, mesh=mesh)
    split = [len(leaf.sharding.device_set) for leaf in jax.tree.leaves(model.params)]
    whole = [leaf.sharding.is_fully_replicated for leaf in jax.tree.leaves(model.params)]
    yield "devices", np.array(sorted(set(split)))
    yield "split", np.array(len(whole) - sum(whole))
    # 11 and 3 rows are not divisible by any number of devices.
    texts = [row.inputs for row in rows(11, 0)]
    if family == "roberta":
        yield "classes", ClassificationEngine(model, tokens_per_batch=256).probabilities(texts)
        dropout = DropoutPasses(3, rate=0.3)
        passes = ClassificationEngine(model, dropout=dropout, tokens_per_batch=256)
        yield "dropout", passes.probabilities(texts)
        yield "states", model.hidden_states(padded(texts[:3]))
        return
    yield "log_probs", np.concatenate(LikelihoodEngine(model, 512).log_probs(rows(11, 1)))
    labels = LabelTexts.of(([7, 8], [9, 10, 11], [12]), "mean", (6,))
    yield "labels", ClassificationEngine(model, labels, tokens_per_batch=256).probabilities(texts)
    maps = SalienceEngine(model, tokens_per_batch=512).maps(rows(3, 2))
    yield "maps", np.concatenate([token_map.ravel() for token_map in maps])
    inputs = padded([text[:9] for text in texts[:3]])
    # GPT-2's tied logits prefer the last token read; this temperature makes them almost equal.
    sampled = model.decode(inputs, max_length=7, seed=3, temperature=8.0, top_p=0.9)
    yield "sampled_tokens", sampled.tokens
    yield "sampled_scores", sampled.score
    if family == "t5":
        beams = model.decode(inputs, max_length=7, num_beams=3, num_return=2)
        yield "beam_tokens", beams.tokens
        yield "beam_scores", beams.score
        pmi = model.decode_pmi(inputs, inputs[:, :4], max_length=7, pmi=PMIConfig())
        yield "pmi_tokens", pmi.tokens


def main(output: str, *cases: str) -> None:
    arrays = {}
    for case in cases:
        name, family = case.split("/")
        mesh = (
            make_mesh(MESHES[name][0], num_slices=MESHES[name][1])
            if name in MESHES
            else one_device()
        )
        for key, value in results(family, mesh):
            arrays[f"{case}/{key}"] = np.asarray(value)
    if jax.process_index() == 0:
        np.savez(output, **arrays)


def one_device() -> Mesh:
    return Mesh(np.array(jax.devices()[:1]).reshape(1, 1), ("data", "model"))


if __name__ == "__main__":
    if sys.argv[1].startswith("--process="):
        address, number = sys.argv.pop(1).removeprefix("--process=").rsplit("/", 1)
        jax.distributed.initialize(address, 2, int(number))
    main(*sys.argv[1:])
