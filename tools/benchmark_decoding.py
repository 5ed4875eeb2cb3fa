"""The parts of tools/benchmark.py about decoding and likelihoods, and a comparison of our decoders.

usage: tools/benchmark_decoding.py [--rounds 5] [--rows 96]

As a command, it measures `mini`'s NPOV answers to the embedded topics, with one to four arguments a
side, by greedy search, 16 rows at a time, at most 256 tokens, float32. It compares plain batches in
row order, refilling, n-gram speculation, and both together. These take turns in one process; each
figure is the median of its rounds. CPU seconds of all cores are printed beside wall-clock seconds,
because other work on the machine affects them less. It counts the responses that equal those of
plain batches. With --shared it measures 16 questions of 20 tokens about one document of 500 tokens,
with 32 new tokens each and a model of GPT-2 small's shape: the document is read once, or again for
each question.

Shapes: T5 1.1 small as in tools/benchmark.py (batch 4 in beam search), and GPT-2 small: 768 wide,
12 heads of 64, 12 layers, vocabulary 50,257; batch 4, 64 input and 32 new tokens. In PMI-Decode
half of the input is the document. The likelihood part scores 48 rows of 2 to 512 tokens with GPT-2;
Hugging Face takes batches of 8 in row order, padded to their longest row. The parts summeval_like
have 16 summaries per article, with lengths like SummEval's.
"""

import argparse
import os
import statistics
import time
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import faith_jax
from faith_jax.datasets import npov
from faith_jax.datasets.input_rows import input_row
from faith_jax.decoding.config import DecodingConfig, PMIConfig
from faith_jax.decoding.generation import generate, row_keys
from faith_jax.inference import CausalModel, EncoderDecoderModel
from faith_jax.inference.batch_decoder import BatchDecoder, DecodedRow
from faith_jax.inference.opening import open_tokenizer
from faith_jax.inference.row_likelihoods import LikelihoodEngine, LikelihoodRow
from faith_jax.inference.texts.row_tokens import RowTokens
from faith_jax.models import parameters
from faith_jax.models.config import TransformerConfig
from faith_jax.models.partitioning import make_partitioner
from faith_jax.models.quantization import quantize_params
from faith_jax.models.transformer import Transformer

Part = Callable[[], Any]
GPT2 = TransformerConfig(
    vocab_size=50257,
    emb_dim=768,
    num_heads=12,
    head_dim=64,
    num_encoder_layers=0,
    num_decoder_layers=12,
    mlp_dim=3072,
    mlp_activations=("gelu",),
    norm="layer",
    layer_norm_epsilon=1e-5,
    positions="learned",
    max_positions=1024,
    attention_bias=True,
    mlp_bias=True,
    attention_scale=0.125,
    logits_via_embedding=True,
    scale_tied_logits=False,
    pad_id=-1,
    eos_ids=(50256,),
)
BATCH, BEAMS = 4, 4
GPT2_INPUTS, GPT2_TARGETS = 64, 32
ROWS, LONGEST, ROWS_PER_BATCH = 48, 512, 8
# ARTICLE and SUMMARY: mean and standard deviation of their lengths in tokens.
ARTICLES, SUMMARIES, ARTICLE, SUMMARY = 2, 16, (480, 120), (75, 25)
PEAKED = 8.0
# Rows never end, so that both sides decode the same number of tokens.
NO_END = -1


def random_params(config: TransformerConfig) -> Any:
    """Returns small random parameters, like those of an untrained model."""
    params = parameters.random_params(Transformer(config), make_partitioner(config), seed=0)
    return jax.tree.map(lambda x: x * 0.5, params)


def gpt2_inputs() -> np.ndarray:
    """Returns random tokens int32 [batch, length]."""
    return np.random.default_rng(1).integers(3, 50000, (BATCH, GPT2_INPUTS)).astype(np.int32)


def likelihood_rows() -> list[list[int]]:
    """Returns rows of 2 to 512 random tokens."""
    rng = np.random.default_rng(2)
    return [rng.integers(3, 50000, rng.integers(2, LONGEST + 1)).tolist() for _ in range(ROWS)]


def summary_rows(vocab_size: int) -> list[LikelihoodRow]:
    """Returns rows of random articles and summaries; those of an article are consecutive."""
    rng = np.random.default_rng(3)

    def tokens(mean: int, deviation: int) -> list[int]:
        length = int(np.clip(rng.normal(mean, deviation), mean // 4, 2 * mean))
        return rng.integers(3, vocab_size, length).tolist()

    articles = [tokens(*ARTICLE) for _ in range(ARTICLES)]
    return [
        LikelihoodRow(article, tokens(*SUMMARY)) for article in articles for _ in range(SUMMARIES)
    ]


def our_t5(config: TransformerConfig, inputs: np.ndarray, max_length: int) -> dict[str, Part]:
    """Returns the parts with T5's shape: likelihoods, beam and greedy search, and PMI-Decode."""
    module, random = Transformer(config), random_params(config)
    params = jax.tree.map(lambda x: x.astype(config.dtype), random)
    # Peaked next-token distributions, as in a trained model: random ones are almost uniform.
    params["decoder"]["logits_dense"]["kernel"] *= PEAKED
    without_document = np.ascontiguousarray(inputs[:, inputs.shape[1] // 2 :])

    def part(rows: int, *arrays: np.ndarray, params: Any = params, **options: Any) -> Part:
        decoding = DecodingConfig(max_length=max_length, eos_id=NO_END, **options)
        keys = row_keys(0, jnp.arange(rows))
        decode = jax.jit(lambda p, *a: generate(module, p, a, keys, decoding).tokens)
        first_rows = [array[:rows] for array in arrays]
        return lambda: jax.block_until_ready(decode(params, *first_rows))

    partitioner = make_partitioner(config)
    in_8_bits = quantize_params(random, partitioner.replicated, partitioner)
    rows = len(inputs)
    engine = LikelihoodEngine(EncoderDecoderModel(config, params))
    summaries = summary_rows(config.vocab_size)
    return {
        "summeval_like_t5": lambda: engine.log_probs(summaries),
        "beam": part(BATCH, inputs, num_beams=BEAMS),
        "beam_int8": part(BATCH, inputs, params=in_8_bits, num_beams=BEAMS),
        "plain_greedy": part(rows, inputs),
        "pmi_greedy": part(rows, inputs, without_document, pmi=PMIConfig()),
    }


def our_gpt2() -> dict[str, Part]:
    """Returns the parts with GPT-2's shape."""
    module, params = Transformer(GPT2), random_params(GPT2)
    tokens, lengths = gpt2_inputs(), np.full(BATCH, GPT2_INPUTS, np.int32)
    keys = row_keys(0, jnp.arange(BATCH))

    def part(**options: Any) -> Part:
        decoding = DecodingConfig(max_length=GPT2_TARGETS, eos_id=NO_END, **options)
        decode = jax.jit(lambda p, t, n: generate(module, p, [(t, n)], keys, decoding).tokens)
        return lambda: jax.block_until_ready(decode(params, tokens, lengths))

    engine = LikelihoodEngine(CausalModel(GPT2, params))
    rows = [LikelihoodRow(row[:1], row[1:]) for row in likelihood_rows()]

    summaries = summary_rows(GPT2.vocab_size)
    return {
        "gpt2_greedy": part(),
        "gpt2_beam": part(num_beams=BEAMS),
        "likelihood": lambda: engine.log_probs(rows),
        "summeval_like": lambda: engine.log_probs(summaries),
    }


def torch_device(torch: Any) -> str:
    """Returns the device of Hugging Face's sides, after setting threads and precision as in JAX."""
    torch.set_num_threads(os.cpu_count() or 1)
    torch.set_float32_matmul_precision("high")  # TF32 on a GPU, JAX's default
    return "cuda" if torch.cuda.is_available() else "cpu"


def torch_wait() -> None:
    """Waits until PyTorch has finished its pending work on the GPU."""
    import torch

    if torch.cuda.is_available():
        torch.cuda.synchronize()


def hugging_face_t5(model: Any, inputs: np.ndarray, max_length: int) -> dict[str, Part]:
    """Returns Transformers' beam search and likelihoods with a T5 of the same shape."""
    import torch

    tokens = torch.tensor(inputs[:BATCH], dtype=torch.long, device=model.device)
    rows = summary_rows(model.config.vocab_size)

    @torch.inference_mode()
    def score() -> None:
        model.eval()
        for start in range(0, len(rows), ROWS_PER_BATCH):
            piece = rows[start : start + ROWS_PER_BATCH]
            ids, mask = _torch_padded([row.inputs for row in piece], model.device)
            labels, _ = _torch_padded([row.targets for row in piece], model.device)
            logits = model(input_ids=ids, attention_mask=mask, labels=labels).logits
            torch.log_softmax(logits, -1).gather(-1, labels[..., None])

    return {"beam": _torch_generate(model, tokens, max_length, BEAMS), "summeval_like_t5": score}


def _torch_padded(rows: Sequence[Sequence[int]], device: Any) -> tuple[Any, Any]:
    """Returns rows padded to the longest one, and the mask of their real tokens."""
    import torch

    longest = max(map(len, rows))
    ids = [[*row, *[0] * (longest - len(row))] for row in rows]
    mask = [[1] * len(row) + [0] * (longest - len(row)) for row in rows]
    return torch.tensor(ids, device=device), torch.tensor(mask, device=device)


def hugging_face_gpt2() -> dict[str, Part]:
    """Returns the parts of `our_gpt2` with Transformers' GPT-2."""
    import torch
    import transformers

    device = torch_device(torch)
    torch.manual_seed(0)
    model = transformers.GPT2LMHeadModel(transformers.GPT2Config()).eval().to(device)
    model.generation_config.pad_token_id = 0
    tokens = torch.tensor(gpt2_inputs(), dtype=torch.long, device=device)

    @torch.inference_mode()
    def score(rows: Sequence[Sequence[int]]) -> None:
        for start in range(0, len(rows), ROWS_PER_BATCH):
            ids, mask = _torch_padded(rows[start : start + ROWS_PER_BATCH], device)
            logits = model(input_ids=ids, attention_mask=mask).logits[:, :-1]
            torch.log_softmax(logits, -1).gather(-1, ids[:, 1:, None])

    summaries = [[*row.inputs, *row.targets] for row in summary_rows(GPT2.vocab_size)]

    return {
        "gpt2_greedy": _torch_generate(model, tokens, GPT2_TARGETS, 1),
        "gpt2_beam": _torch_generate(model, tokens, GPT2_TARGETS, BEAMS),
        "likelihood": lambda: score(likelihood_rows()),
        "summeval_like": lambda: score(summaries),
    }


def _torch_generate(model: Any, tokens: Any, max_length: int, beams: int) -> Part:
    import torch

    @torch.inference_mode()
    def generate() -> Any:
        model.eval()
        return model.generate(
            input_ids=tokens,
            attention_mask=torch.ones_like(tokens),
            max_new_tokens=max_length,
            min_new_tokens=max_length,
            do_sample=False,
            num_beams=beams,
        )

    return generate


def npov_inputs(model: Any, count: int) -> list[list[int]]:
    """Returns the tokens of `count` questions with one to four arguments a side."""
    tokenizer = open_tokenizer(model.path, None, model.config)
    read = RowTokens.of(model.config, tokenizer, 512, "inputs", "end", pmi=False)
    topics = npov.load_topics("sample")
    inputs = []
    for number in range(count):
        topic = topics[number % len(topics)]
        sides = npov.choose_arguments(topic, 1 + number % 4, seed=number)
        pro, con = ([argument.text for argument in side] for side in sides)
        row = input_row({"query": topic.question, "pro": pro, "con": con}, "row", str(number))
        inputs.append(read(row).ids)
    return inputs


def ways_of_decoding(rows: int, batch: int = 16) -> dict[str, Callable[[], list[DecodedRow]]]:
    """Returns functions that decode `mini`'s answers to `rows` questions, by name."""
    model = faith_jax.load_model("mini")
    params = jax.tree.map(lambda x: x.astype(jnp.float32), model.params)
    inputs = npov_inputs(model, rows)

    def way(at_once: int, **options: Any) -> Callable[[], list[DecodedRow]]:
        decoding = DecodingConfig(max_length=256, **options)
        decoder = BatchDecoder(model.module, model.partitioner, decoding, batch)

        def decode() -> list[DecodedRow]:
            parts = [inputs[i : i + at_once] for i in range(0, rows, at_once)]
            ways = [
                decoder(params, part, range(i * at_once, i * at_once + len(part)))
                for i, part in enumerate(parts)
            ]
            return [row for part in ways for row, *_ in part]

        return decode

    drafts = {"speculation": "ngram", "draft_length": 5}
    return {
        "greedy": way(batch),
        "refilling": way(rows),
        "ngram": way(batch, **drafts),
        "ngram, refilling": way(rows, **drafts),
    }


def shared_document() -> dict[str, Callable[[], list[DecodedRow]]]:
    """Returns functions that answer questions about one document, by name."""
    module, params = Transformer(GPT2), random_params(GPT2)
    rng = np.random.default_rng(4)
    document = rng.integers(3, 50000, 500).tolist()
    inputs = [[*document, *rng.integers(3, 50000, 20).tolist()] for _ in range(16)]
    decoding = DecodingConfig(max_length=GPT2_TARGETS, eos_id=NO_END)

    def way(reads_once: bool) -> Callable[[], list[DecodedRow]]:
        decoder = BatchDecoder(module, make_partitioner(GPT2), decoding, len(inputs))
        if not reads_once:
            decoder._can_share = lambda inputs: False  # type: ignore[method-assign]
        return lambda: [row for row, *_ in decoder(params, inputs)]

    return {"read for each": way(False), "read once": way(True)}


def main() -> None:
    """Measures and prints the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5, help="rounds of measurements (default 5)")
    parser.add_argument("--rows", type=int, default=96, help="rows to respond to (default 96)")
    parser.add_argument("--shared", action="store_true", help="questions about one document")
    options = parser.parse_args()
    ways = shared_document() if options.shared else ways_of_decoding(options.rows)
    plain = next(iter(ways))
    expected = [row.tokens.tolist() for row in ways[plain]()]
    lengths = [len(row) for row in expected]
    print(
        f"{len(expected)} rows of {min(lengths)} to {max(lengths)} tokens, "
        f"{statistics.mean(lengths):.0f} in the mean"
    )
    times: dict[str, list[tuple[float, float]]] = {name: [] for name in ways}
    equal = {}
    for name, decode in ways.items():  # the first call compiles
        token_ids = [row.tokens.tolist() for row in decode()]
        equal[name] = sum(a == b for a, b in zip(token_ids, expected, strict=True))
    for _ in range(options.rounds):
        for name, decode in ways.items():
            clock, cores = time.perf_counter(), time.process_time()
            decode()
            times[name].append((time.perf_counter() - clock, time.process_time() - cores))
    medians = {n: [statistics.median(t) for t in zip(*v, strict=True)] for n, v in times.items()}
    print(f"{'way':18} {'clock':>8} {'cores':>8} {'tokens/s':>9} {'ratios':>12}  same responses")
    for name, (clock, cores) in medians.items():
        ratios = f"{medians[plain][0] / clock:.2f} {medians[plain][1] / cores:.2f}"
        speed = sum(lengths) / clock
        print(f"{name:18} {clock:6.2f} s {cores:6.2f} s {speed:9.0f} {ratios:>12}  {equal[name]}")


if __name__ == "__main__":
    main()
