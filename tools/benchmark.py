"""Measures speed side by side in one run: ours, and Hugging Face's PyTorch T5 of the same shape.

usage: tools/benchmark.py [--rounds 5] [--json FILE] [--parts train,score]

The shape is T5 1.1 small's: d_model 512, 6 heads of 64, d_ff 1024, 8+8 layers, vocabulary 32,128;
batch 16, 128 input and 64 target tokens, float32. Each side has a process of its own, since their
threads disturb each other in one; the parts take turns, so that a busy moment of the machine
meets all of them, and each figure is the median of its rounds. Hugging Face is measured where the
`parity` extra is installed, Inseq where it is itself. Both sides take denormal numbers for zero, as
XLA does on CPU.
"""

import argparse
import importlib.util
import json
import multiprocessing
import os
import pathlib
import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import benchmark_decoding
import benchmark_salience

from faith_jax.decoding.config import DecodingConfig
from faith_jax.decoding.encoder_decoder import generate, row_keys
from faith_jax.models.chunked_logits import target_statistics
from faith_jax.models.config import TransformerConfig
from faith_jax.models.partitioning import make_partitioner
from faith_jax.models.transformer import Transformer, output_layer
from faith_jax.training import optimizers
from faith_jax.training.objectives import CrossEntropy, decoder_states, encoder_states
from faith_jax.training.trainer import Trainer, split_params

BATCH, INPUTS, TARGETS, PROMPT = 16, 128, 64, 5
MATMUL_SIZE = 2048
CONFIG = TransformerConfig(
    vocab_size=32128,
    emb_dim=512,
    num_heads=6,
    num_encoder_layers=8,
    num_decoder_layers=8,
    head_dim=64,
    mlp_dim=1024,
    mlp_activations=("gelu", "linear"),
    dropout_rate=0.1,
)
PARTS = (
    "train",
    "prompt_tune",
    "score",
    "greedy",
    "beam",
    "gpt2_greedy",
    "gpt2_beam",
    "likelihood",
    "summeval_like",
    "summeval_like_t5",
    "pmi_greedy",
    "salience",
    "salience_floor",
)
# Parts that are compared with another of ours.
BESIDE_OURS = {"pmi_greedy": "plain_greedy", "salience_floor": "salience"}
Part = Callable[[], Any]


def forward_flops(inputs: int = INPUTS) -> dict[str, float]:
    """Returns the floating-point operations of a forward pass over the batch, by what they do.

    Matrix products only, two operations for each multiplication and addition.
    """
    c = CONFIG
    width, mlp = c.num_heads * c.head_dim, 3 * c.emb_dim * c.mlp_dim
    source, target = BATCH * inputs, BATCH * TARGETS
    encoder = source * (4 * c.emb_dim * width + mlp) + 2 * source * inputs * width
    decoder = target * (6 * c.emb_dim * width + mlp) + source * 2 * c.emb_dim * width
    decoder += 2 * target * (TARGETS + inputs) * width
    return {
        "encoder": 2.0 * c.num_encoder_layers * encoder,
        "decoder": 2.0 * c.num_decoder_layers * decoder,
        "output": 2.0 * target * c.emb_dim * c.vocab_size,
    }


def part_flops() -> dict[str, float]:
    """Returns the operations of each part.

    A gradient costs two more forward passes, or one where only a prompt is trained, since then no
    kernel's gradient is needed.
    """
    whole = sum(forward_flops().values())
    prompt = sum(forward_flops(INPUTS + PROMPT).values())
    # In greedy search every token passes the decoder once, as in scoring.
    return {"train": 3 * whole, "prompt_tune": 2 * prompt, "score": whole, "greedy": whole}


def batch_of_tokens() -> dict[str, np.ndarray]:
    """Returns random tokens, no padding."""
    rng = np.random.default_rng(0)
    targets = rng.integers(2, CONFIG.vocab_size, (BATCH, TARGETS)).astype(np.int32)
    return {
        "encoder_input_tokens": rng.integers(2, CONFIG.vocab_size, (BATCH, INPUTS)).astype(
            np.int32
        ),
        "decoder_input_tokens": np.pad(targets[:, :-1], ((0, 0), (1, 0))),
        "decoder_target_tokens": targets,
    }


def random_params(module: Transformer) -> Any:
    """Returns random parameters on the host."""
    tokens = jnp.ones((1, 4), jnp.int32)

    def init():
        return module.init(jax.random.key(0), tokens, tokens, tokens, enable_dropout=False)

    return jax.tree.map(np.asarray, jax.jit(init)()["params"])


def training_part(config: TransformerConfig, trainable: tuple[str, ...]) -> Part:
    """Returns a function that takes one training step."""
    module, partitioner = Transformer(config), make_partitioner(config)
    params = partitioner.put(random_params(module), partitioner.replicated)
    trained, frozen = split_params(params, trainable)
    trainer = Trainer(module, CrossEntropy(), optimizers.adamw(1e-3), partitioner)
    state = trainer.init_state(trained)
    batch = partitioner.put_batch(batch_of_tokens())

    def step():
        nonlocal state
        state, _ = trainer.train_step(state, frozen, batch)
        jax.block_until_ready(state)

    return step


def our_parts(part: str) -> dict[str, Part]:
    """Returns our parts like `part`, not yet compiled."""
    if part.startswith("gpt2") or part in ("likelihood", "summeval_like"):
        return benchmark_decoding.our_gpt2()
    if part.startswith("salience"):
        rows = (tokens[:1] for tokens in batch_of_tokens().values())
        return benchmark_salience.our_salience(CONFIG, *rows)
    if part in ("beam", "summeval_like_t5", *BESIDE_OURS, *BESIDE_OURS.values()):
        inputs = batch_of_tokens()["encoder_input_tokens"]
        return benchmark_decoding.our_t5(CONFIG, inputs, TARGETS)
    module = Transformer(CONFIG)
    params = jax.tree.map(jnp.asarray, random_params(module))
    batch = {k: jnp.asarray(v) for k, v in batch_of_tokens().items()}
    keys = row_keys(0, jnp.arange(BATCH))
    decoding = DecodingConfig(max_length=TARGETS, eos_id=-1)

    @jax.jit
    def score(params, batch):
        encoded = encoder_states(module, params, batch, None)
        hidden = decoder_states(module, params, batch, encoded, None)
        layer = output_layer(module, params)
        return target_statistics(hidden, layer, batch["decoder_target_tokens"]).log_prob

    @jax.jit
    def greedy(params, tokens):
        return generate(module, params, tokens, keys, decoding).tokens

    prompted = CONFIG.replace(encoder_prompt_length=PROMPT, dropout_rate=0.0)
    return {
        "train": training_part(CONFIG, (".*",)),
        "prompt_tune": training_part(prompted, (".*_prompt/.*",)),
        "score": lambda: jax.block_until_ready(score(params, batch)),
        "greedy": lambda: jax.block_until_ready(greedy(params, batch["encoder_input_tokens"])),
        "matmul": matmul_part(),
    }


def hugging_face_parts(part: str) -> dict[str, Part]:
    """Returns the same parts of Transformers' T5 and GPT-2."""
    if part.startswith("gpt2") or part in ("likelihood", "summeval_like"):
        return benchmark_decoding.hugging_face_gpt2()
    import torch
    import transformers

    torch.set_num_threads(os.cpu_count() or 1)
    # Its gradients hold denormal numbers here, which make its training step four times as slow.
    torch.set_flush_denormal(True)
    torch.manual_seed(0)
    config = transformers.T5Config(
        vocab_size=CONFIG.vocab_size,
        d_model=CONFIG.emb_dim,
        d_kv=CONFIG.head_dim,
        d_ff=CONFIG.mlp_dim,
        num_layers=CONFIG.num_encoder_layers,
        num_heads=CONFIG.num_heads,
        feed_forward_proj="gated-gelu",
        tie_word_embeddings=False,
        dropout_rate=CONFIG.dropout_rate,
        decoder_start_token_id=0,
    )
    model = transformers.T5ForConditionalGeneration(config)
    if part == "salience":
        inputs, _, targets = (tokens[:1] for tokens in batch_of_tokens().values())
        return benchmark_salience.inseq_salience(model, inputs, targets)
    tokens = {k: torch.tensor(v, dtype=torch.long) for k, v in batch_of_tokens().items()}
    inputs, labels = tokens["encoder_input_tokens"], tokens["decoder_target_tokens"]
    return {
        "train": _torch_training(torch, model, inputs, labels),
        "prompt_tune": _torch_prompt_tuning(torch, transformers, config, inputs, labels),
        "score": _torch_scoring(torch, model, inputs, labels),
        "greedy": _torch_greedy(torch, model, inputs),
        **benchmark_decoding.hugging_face_t5(
            model, batch_of_tokens()["encoder_input_tokens"], TARGETS
        ),
    }


def _torch_training(torch: Any, model: Any, inputs: Any, labels: Any) -> Part:
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.0)

    def step():
        model.train()
        optimizer.zero_grad()
        model(input_ids=inputs, labels=labels).loss.backward()
        optimizer.step()

    return step


def _torch_prompt_tuning(
    torch: Any, transformers: Any, config: Any, inputs: Any, labels: Any
) -> Part:
    model = transformers.T5ForConditionalGeneration(config).eval().requires_grad_(False)
    prompt = torch.nn.Parameter(torch.randn(PROMPT, CONFIG.emb_dim))
    optimizer = torch.optim.AdamW([prompt], lr=1e-3, weight_decay=0.0)

    def step():
        optimizer.zero_grad()
        embedded = model.get_input_embeddings()(inputs)
        embedded = torch.cat([prompt.expand(BATCH, -1, -1), embedded], dim=1)
        model(inputs_embeds=embedded, labels=labels).loss.backward()
        optimizer.step()

    return step


def _torch_scoring(torch: Any, model: Any, inputs: Any, labels: Any) -> Part:
    @torch.inference_mode()
    def score():
        model.eval()
        logits = model(input_ids=inputs, labels=labels).logits
        return torch.log_softmax(logits, -1).gather(-1, labels[..., None])

    return score


def _torch_greedy(torch: Any, model: Any, inputs: Any) -> Part:
    @torch.inference_mode()
    def greedy():
        model.eval()
        return model.generate(
            input_ids=inputs,
            max_new_tokens=TARGETS,
            min_new_tokens=TARGETS,
            do_sample=False,
            num_beams=1,
        )

    return greedy


def matmul_part() -> Part:
    """Returns a square float32 matrix product, whose speed counts as the machine's peak."""
    matrix = np.random.default_rng(0).normal(size=(MATMUL_SIZE, MATMUL_SIZE))
    matrix = jnp.asarray(matrix, jnp.float32)
    product = jax.jit(jnp.dot)
    return lambda: jax.block_until_ready(product(matrix, matrix))


class Side:
    """One side's parts in a process of its own, which sleeps while it is not asked.

    Args:
      name: "ours" or "hugging face".
    """

    def __init__(self, name: str):
        context = multiprocessing.get_context("spawn")
        self.name = name
        self._pipe, other = context.Pipe()
        self._process = context.Process(target=_serve, args=(name, other), daemon=True)
        self._process.start()

    def seconds(self, part: str) -> float:
        """Calls a part twice and returns how long the second call takes."""
        self._pipe.send(part)
        return self._pipe.recv()

    def close(self) -> None:
        """Ends the process."""
        self._pipe.send(None)
        self._process.join()


def _serve(side: str, pipe: Any) -> None:
    make = hugging_face_parts if side == "hugging face" else our_parts
    parts: dict[str, Part] = {}
    while (part := pipe.recv()) is not None:
        if part not in parts:
            parts |= make(part)
        # The first call takes back the caches and pages that the other side's turn has taken.
        parts[part]()
        start = time.perf_counter()
        parts[part]()
        pipe.send(time.perf_counter() - start)


def measure(
    sides: list[Side], chosen: list[str], rounds: int
) -> dict[tuple[str, str], list[float]]:
    """Calls all parts in turn, `rounds` times, after one turn each to warm up."""
    turns = [(sides[0], "matmul")]
    for part in chosen:
        beside = BESIDE_OURS.get(part)
        if beside:
            turns += [(sides[0], name) for name in (part, beside) if (sides[0], name) not in turns]
            continue
        turns += [
            (s, part) for s in sides if s is sides[0] or benchmark_salience.is_installed(part)
        ]
    for side, part in turns:
        print(f"warming up: {side.name}, {part}", file=sys.stderr)
        side.seconds(part)
    times: dict[tuple[str, str], list[float]] = {(s.name, part): [] for s, part in turns}
    for number in range(rounds):
        print(f"round {number + 1} of {rounds}", file=sys.stderr)
        for side, part in turns:
            times[side.name, part].append(side.seconds(part))
    return times


def main() -> None:
    """Measures and prints the table."""
    parser = argparse.ArgumentParser(
        description=__doc__.splitlines()[0] if __doc__ else "",
        epilog="example: tools/benchmark.py --rounds 7 --json benchmark.json",
    )
    parser.add_argument("--rounds", type=int, default=5, help="rounds of measurements (default 5)")
    parser.add_argument("--json", type=pathlib.Path, help="also write the figures here")
    parser.add_argument("--parts", default=",".join(PARTS), help=f"of {', '.join(PARTS)}")
    options = parser.parse_args()
    chosen = options.parts.split(",")
    unknown = [p for p in chosen if p not in PARTS]
    if unknown or options.rounds < 1:
        parser.error(f"--parts: {unknown} not among {PARTS}" if unknown else "--rounds: 1 or more")
    found = importlib.util.find_spec("torch") and importlib.util.find_spec("transformers")
    sides = [Side(name) for name in (("ours", "hugging face") if found else ("ours",))]
    times = measure(sides, chosen, options.rounds)
    for side in sides:
        side.close()
    report(times, chosen, options.json)


def report(
    times: dict[tuple[str, str], list[float]],
    chosen: list[str],
    path: pathlib.Path | None,
) -> None:
    """Prints the table of medians and writes all times as JSON."""
    median = {name: statistics.median(values) for name, values in times.items()}
    # The peak is the best of its rounds: what the machine can do.
    peak = 2.0 * MATMUL_SIZE**3 / min(times["ours", "matmul"])
    flops = part_flops()
    print(f"{os.cpu_count()} cores, matmul peak {peak / 1e9:.0f} GF/s, {jax.devices()[0].platform}")
    print(f"{'part':12} {'ours':>9} {'of peak':>8} {'compared':>13} {'ratio':>6}")
    rows = []
    for name in chosen:
        beside = BESIDE_OURS.get(name)
        other = ("ours", beside) if beside else ("hugging face", name)
        ours, theirs = median["ours", name], median.get(other)
        share = flops[name] / ours / peak if name in flops else None
        row = {"part": name, "ours_s": ours, "share_of_peak": share, "compared_s": theirs}
        row["compared_with"] = " ".join(other)
        row["ratio"] = None if theirs is None else theirs / ours
        rows.append(row)
        shown = "" if share is None else f"{share:.0%}"
        figures = "  not installed" if theirs is None else f"{theirs:11.3f} s {theirs / ours:6.2f}"
        tokens = {"greedy": BATCH * TARGETS, "salience": TARGETS}.get(name)
        extra = f"  ({tokens / ours:.1f} tokens/s)" if tokens else ""
        extra = f"  with {other[1]} of ours" if beside else extra
        print(f"{name:12} {ours:7.3f} s {shown:>8} {figures}{extra}")
    if path is not None:
        all_times = {" ".join(k): v for k, v in times.items()}
        described = {"peak_flops": peak, "rows": rows, "seconds": all_times}
        path.write_text(json.dumps(described, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
