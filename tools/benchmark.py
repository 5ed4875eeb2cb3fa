"""Compares our speed in one run with Hugging Face's PyTorch, CTranslate2, T5X and Inseq.

usage: tools/benchmark.py [--quick] [--parts train,score] [--shape small] [--dtype float32]
                          [--minutes 5] [--json FILE] [--docs]

The model is a T5 1.1, by default small: d_model 512, 6 heads of 64, d_ff 1024, 8+8 layers,
vocabulary 32,128; batch 16, 128 input and 64 target tokens, float32. With bfloat16, training keeps
its parameters in float32 (Hugging Face: autocast); all other parts use bfloat16 parameters. On a
GPU both sides may round the inputs of float32 products to TF32, as JAX does by default.

Each part has its own time limit. Within it the sides take turns, so that a busy moment of the
machine affects all of them. A matrix product and a memory copy take turns with them and show what
the machine can do. Each figure is the median of its rounds. Each side runs in its own process,
since their threads would disturb each other in a shared one. Sides that are not installed are
skipped: Hugging Face comes with the extra `parity`, CTranslate2 with the package `ctranslate2`, T5X
as docs/t5x.md says. All sides flush denormal numbers to zero, as XLA does on CPU.

Some parts are separate programs (tools/benchmark_*.py), whose output is kept unchanged.

Results are printed and written to --json after each round: a run that is stopped keeps them, and a
later run of other parts with the same file adds to them. --docs writes the table into
docs/performance.md, between its marks.
"""

import argparse
import contextlib
import importlib.util
import json
import multiprocessing
import os
import pathlib
import platform
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import benchmark_ctranslate2
import benchmark_decoding
import benchmark_salience
import benchmark_t5x

from faith_jax.decoding.config import DecodingConfig
from faith_jax.decoding.generation import generate, row_keys
from faith_jax.models.chunked_logits import target_statistics
from faith_jax.models.config import TransformerConfig
from faith_jax.models.parameters import random_params
from faith_jax.models.partitioning import make_partitioner
from faith_jax.models.quantization import quantize_params
from faith_jax.models.transformer import Transformer, output_layer
from faith_jax.training import optimizers
from faith_jax.training.objectives import CrossEntropy, decoder_states, encoder_states
from faith_jax.training.trainer import Trainer, split_params

PROMPT = 5


class Shape(NamedTuple):
    """The dimensions of a model and of a batch (in rows and tokens)."""

    emb_dim: int
    num_heads: int
    mlp_dim: int
    num_layers: int  # in the encoder, and again in the decoder
    batch: int
    inputs: int
    targets: int
    matmul: int  # side length of the square matrices whose product counts as the peak
    memory: int  # how many numbers the memory part reads and writes


SHAPES = {
    "tiny": Shape(8, 2, 8, 1, 2, 8, 4, 64, 1 << 10),  # for tests: too small to measure speed
    "small": Shape(512, 6, 1024, 8, 16, 128, 64, 2048, 1 << 25),
    "base": Shape(768, 12, 2048, 12, 64, 512, 128, 8192, 1 << 28),
    "large": Shape(1024, 16, 2816, 24, 64, 512, 128, 8192, 1 << 28),
}


def model_options() -> argparse.ArgumentParser:
    """Returns the parser of the model's options, which the processes of all sides read too."""
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    parser.add_argument("--shape", choices=SHAPES, default="small", help="(default small)")
    parser.add_argument("--dtype", choices=["float32", "bfloat16"], default="float32")
    return parser


_MODEL = model_options().parse_known_args()[0]
SHAPE = SHAPES[_MODEL.shape]
SHAPE_NAME = f"{_MODEL.shape} in {_MODEL.dtype}"
BATCH, INPUTS, TARGETS = SHAPE.batch, SHAPE.inputs, SHAPE.targets
DTYPE = _MODEL.dtype
CONFIG = TransformerConfig(
    vocab_size=64 if _MODEL.shape == "tiny" else 32128,
    emb_dim=SHAPE.emb_dim,
    num_heads=SHAPE.num_heads,
    num_encoder_layers=SHAPE.num_layers,
    num_decoder_layers=SHAPE.num_layers,
    head_dim=64,
    mlp_dim=SHAPE.mlp_dim,
    mlp_activations=("gelu", "linear"),
    dropout_rate=0.1,
    dtype=DTYPE,
)
# Each part and what it is compared with: another side or, after "ours ", another part of ours.
PARTS: dict[str, tuple[str, ...]] = {
    "train": ("hugging face", "t5x"),
    "prompt_tune": ("hugging face",),
    "score": ("hugging face", "t5x", "ctranslate2"),
    "greedy": ("hugging face", "t5x", "ctranslate2"),
    "beam": ("hugging face", "ctranslate2"),
    "score_int8": ("ours score", "ctranslate2"),
    "greedy_int8": ("ours greedy", "ctranslate2"),
    "beam_int8": ("ours beam", "ctranslate2"),
    "gpt2_greedy": ("hugging face",),
    "gpt2_beam": ("hugging face",),
    "likelihood": ("hugging face",),
    "summeval_like": ("hugging face",),
    "summeval_like_t5": ("hugging face",),
    "pmi_greedy": ("ours plain_greedy",),
    "salience": ("inseq",),
    "salience_floor": ("ours salience",),
}
# Parts that are separate programs: their arguments, and their arguments with --quick.
PROGRAMS: dict[str, tuple[str, str]] = {
    "attention": ("--lengths 512 2048 --blocks 0 256 512", "--lengths 512 --blocks 0 256 --runs 1"),
    "objectives": ("--rounds 4", "--rounds 1"),
    "data": ("--rows 20000", "--rows 500 --datasets faithdial,begin"),
    "retrieval": ("--articles 10000", "--articles 500 --queries 20"),
    "jobs": ("--rows 500", "--rows 100"),
    "judges": ("--rows 16", "--rows 4 --tiny"),
    "statistics": ("--rows 100000", "--rows 5000 --bootstrap-rows 2000 --loop 3 --resamples 200"),
}
QUICK = ("train", "score", "greedy", "statistics")
QUICK_SECONDS = 300.0
# The run for which --plan computes rooflines on TPUs.
PLAN = (
    "--topology=v4:4x4x4 --gin_file=models/t5_1_1_xxl.gin --gin_file=npov_generate_prompt_tune.gin "
    "--gin.MODEL=@transformer.Transformer() --gin.DTYPE=bfloat16 --gin.PARAMS_DTYPE=bfloat16 "
    "--gin.NUM_PARTITIONS=16"
)
PLAN_QUICK = "--topology=v5e:2x2 --gin_file=npov_generate_finetune.gin"
# The modules that a side needs.
MODULES = {
    "ours": (),
    "hugging face": ("torch", "transformers"),
    "t5x": ("t5x",),
    "inseq": ("inseq", "torch"),
    "ctranslate2": ("ctranslate2",),
}
RATES = ("matmul", "memory")
DOCS = pathlib.Path(__file__).resolve().parent.parent / "docs" / "performance.md"
BEGIN, END = "<!-- tools/benchmark.py: begin -->", "<!-- tools/benchmark.py: end -->"
Part = Callable[[], Any]


def forward_flops(inputs: int = INPUTS) -> dict[str, float]:
    """Returns the floating-point operations of a forward pass over the batch, by purpose.

    Counts matrix products only; a multiplication with its addition counts as two operations.
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
    """Returns the floating-point operations of each part.

    A gradient costs as much as two more forward passes, or one if only a prompt is trained, since
    then the kernels need no gradients.
    """
    forward = sum(forward_flops().values())
    prompt = sum(forward_flops(INPUTS + PROMPT).values())
    # In greedy search every token passes through the decoder once, as in scoring.
    return {"train": 3 * forward, "prompt_tune": 2 * prompt, "score": forward, "greedy": forward}


def batch_of_tokens() -> dict[str, np.ndarray]:
    """Returns a batch of random tokens without padding."""
    rng = np.random.default_rng(0)
    targets = rng.integers(2, CONFIG.vocab_size, (BATCH, TARGETS)).astype(np.int32)
    return {
        "encoder_input_tokens": rng.integers(2, CONFIG.vocab_size, (BATCH, INPUTS)).astype(
            np.int32
        ),
        "decoder_input_tokens": np.pad(targets[:, :-1], ((0, 0), (1, 0))),
        "decoder_target_tokens": targets,
    }


def training_part(config: TransformerConfig, trainable: tuple[str, ...]) -> Part:
    """Returns a function that takes one training step."""
    module, partitioner = Transformer(config), make_partitioner(config)
    params = random_params(module, partitioner, seed=0)
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
    """Returns our part `part` and its variants, not yet compiled."""
    if part.startswith("gpt2") or part in ("likelihood", "summeval_like"):
        return benchmark_decoding.our_gpt2()
    if part.startswith("salience"):
        rows = (tokens[:1] for tokens in batch_of_tokens().values())
        return benchmark_salience.our_salience(CONFIG, *rows)
    if part in RATES:
        return {"matmul": matmul_part(), "memory": memory_part()}
    if part in ("beam", "beam_int8", "summeval_like_t5", "pmi_greedy", "plain_greedy"):
        inputs = batch_of_tokens()["encoder_input_tokens"]
        return benchmark_decoding.our_t5(CONFIG, inputs, TARGETS)
    if part == "train":
        return {part: training_part(CONFIG, (".*",))}
    if part == "prompt_tune":
        prompted = CONFIG.replace(encoder_prompt_length=PROMPT, dropout_rate=0.0)
        return {part: training_part(prompted, (".*_prompt/.*",))}
    module, partitioner = Transformer(CONFIG), make_partitioner(CONFIG)
    params = random_params(module, partitioner, seed=0)
    if part.endswith("_int8"):
        params = quantize_params(params, partitioner.replicated, partitioner)
    else:
        params = jax.tree.map(lambda x: x.astype(DTYPE), params)
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
        return generate(module, params, [tokens], keys, decoding).tokens

    if part.startswith("score"):
        return {part: lambda: jax.block_until_ready(score(params, batch))}
    return {part: lambda: jax.block_until_ready(greedy(params, batch["encoder_input_tokens"]))}


def ctranslate2_parts(part: str) -> dict[str, Part]:
    """Returns CTranslate2's versions of the parts."""
    return benchmark_ctranslate2.parts(CONFIG, batch_of_tokens())


def t5x_parts(part: str) -> dict[str, Part]:
    """Returns T5X's versions of the parts."""
    return benchmark_t5x.parts(CONFIG, batch_of_tokens())


def hugging_face_parts(part: str) -> dict[str, Part]:
    """Returns the versions of the parts with Transformers' T5 and GPT-2."""
    if part.startswith("gpt2") or part in ("likelihood", "summeval_like"):
        return benchmark_decoding.hugging_face_gpt2()
    import torch
    import transformers

    device = benchmark_decoding.torch_device(torch)
    # PyTorch's gradients hold denormal numbers here, which make a training step four times slower.
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
    model = transformers.T5ForConditionalGeneration(config).to(device)
    if part == "salience":
        inputs, _, targets = (tokens[:1] for tokens in batch_of_tokens().values())
        return benchmark_salience.inseq_salience(model, inputs, targets)
    tokens = {
        k: torch.tensor(v, dtype=torch.long, device=device) for k, v in batch_of_tokens().items()
    }
    inputs, labels = tokens["encoder_input_tokens"], tokens["decoder_target_tokens"]
    trained = ("train", "prompt_tune")
    if part in trained:
        prompted = transformers.T5ForConditionalGeneration(config).to(device)
        return {
            "train": _torch_training(torch, model, inputs, labels),
            "prompt_tune": _torch_prompt_tuning(torch, prompted, inputs, labels),
        }
    model = model.to(getattr(torch, DTYPE))
    return {
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
        with _torch_autocast(torch, inputs):
            loss = model(input_ids=inputs, labels=labels).loss
        loss.backward()
        optimizer.step()

    return step


def _torch_autocast(torch: Any, inputs: Any) -> Any:
    return torch.autocast(inputs.device.type, torch.bfloat16, enabled=DTYPE == "bfloat16")


def _torch_prompt_tuning(torch: Any, model: Any, inputs: Any, labels: Any) -> Part:
    model = model.eval().requires_grad_(False)
    prompt = torch.nn.Parameter(torch.randn(PROMPT, CONFIG.emb_dim, device=inputs.device))
    optimizer = torch.optim.AdamW([prompt], lr=1e-3, weight_decay=0.0)

    def step():
        optimizer.zero_grad()
        embedded = model.get_input_embeddings()(inputs)
        embedded = torch.cat([prompt.expand(BATCH, -1, -1), embedded], dim=1)
        with _torch_autocast(torch, inputs):
            loss = model(inputs_embeds=embedded, labels=labels).loss
        loss.backward()
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
    """Returns a product of square matrices, whose speed counts as the machine's peak."""
    matrix = np.random.default_rng(0).normal(size=(SHAPE.matmul, SHAPE.matmul))
    matrix = jnp.asarray(matrix, DTYPE)
    product = jax.jit(jnp.dot)
    return lambda: jax.block_until_ready(product(matrix, matrix))


def memory_part() -> Part:
    """Returns an addition of a number to an array, which reads and writes the array once."""
    values, plus_one = jnp.zeros(SHAPE.memory, jnp.float32), jax.jit(lambda x: x + 1)
    return lambda: jax.block_until_ready(plus_one(values))


MAKERS = {
    "ours": our_parts,
    "hugging face": hugging_face_parts,
    "inseq": hugging_face_parts,
    "t5x": t5x_parts,
    "ctranslate2": ctranslate2_parts,
}


class Side:
    """Runs one side's parts in a process of its own, which sleeps between calls.

    Args:
      name: a key of `MODULES`.
    """

    def __init__(self, name: str):
        context = multiprocessing.get_context("spawn")
        self.name = name
        self._pipe, child_end = context.Pipe()
        self._process = context.Process(target=_serve, args=(name, child_end), daemon=True)
        self._process.start()
        child_end.close()

    def seconds(self, part: str, end: float) -> float:
        """Calls a part twice and returns how long the second call takes.

        Raises:
          TimeoutError: the part has not finished when `time.monotonic()` reaches `end`.
          RuntimeError: the part failed; the message says how.
        """
        try:
            self._pipe.send(part)
            if not self._pipe.poll(max(0.0, end - time.monotonic())):
                raise TimeoutError
            answer = self._pipe.recv()
        except (EOFError, OSError) as error:
            if isinstance(error, TimeoutError):
                raise
            raise RuntimeError("its process has ended") from None
        if isinstance(answer, str):
            raise RuntimeError(answer)
        return answer

    def close(self) -> None:
        """Kills the process."""
        self._process.kill()
        self._process.join()


def _serve(side: str, pipe: Any) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent process ends this one
    parts: dict[str, Part] = {}
    while True:
        part = pipe.recv()
        try:
            if part not in parts:
                parts |= MAKERS[side](part)
            wait = benchmark_decoding.torch_wait if "torch" in MODULES[side] else lambda: None
            # The first call wins back the caches and pages that the other side used in its turn.
            parts[part]()
            wait()
            start = time.perf_counter()
            parts[part]()
            wait()
            pipe.send(time.perf_counter() - start)
        except Exception as error:  # any error of a library; the other parts still run
            pipe.send(f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}")


class Sides:
    """The processes of all sides; each starts at its first use."""

    def __init__(self) -> None:
        self._known: dict[str, Side] = {}

    def __getitem__(self, name: str) -> Side:
        if name not in self._known:
            self._known[name] = Side(name)
        return self._known[name]

    def close(self, name: str = "") -> None:
        """Ends the process of a side ("" = all); its next use starts a new one."""
        for side in [name] if name else list(self._known):
            if side in self._known:
                self._known.pop(side).close()


def is_installed(side: str) -> bool:
    """Whether a side can be measured here."""
    return all(importlib.util.find_spec(module) for module in MODULES[side])


class Limits(NamedTuple):
    """The most seconds and the most rounds of a part."""

    seconds: float
    rounds: int


def measure(part: str, sides: Sides, limits: Limits) -> Iterator[dict[str, Any]]:
    """Yields a part's `figures` so far after each round.

    The first round only warms up. A side that fails is left out and noted; running out of time ends
    the part.
    """
    end = time.monotonic() + limits.seconds
    compared = [(*told.partition(" ")[::2],) if told.startswith("ours ") else (told, part)
                for told in PARTS[part]]  # fmt: skip
    notes = [f"{side}: not installed" for side, _ in compared if not is_installed(side)]
    installed_sides = [turn for turn in compared if is_installed(turn[0])]
    turns = [("ours", name) for name in (*RATES, part)] + installed_sides
    times: dict[tuple[str, str], list[float]] = {turn: [] for turn in turns}
    for number in range(limits.rounds + 1):
        for turn in list(times):
            side, name = turn
            print(f"{part}: round {number}, {side} {name}", file=sys.stderr, flush=True)
            try:
                seconds = sides[side].seconds(name, end)
            except TimeoutError:
                sides.close(side)
                if not times[turn]:
                    notes.append(f"{side} {name}: no time")
                yield figures(part, times, installed_sides, notes)
                return
            except RuntimeError as error:
                notes.append(f"{side} {name}: {error}")
                sides.close(side)
                del times[turn]
                continue
            if number:  # round 0 compiled
                times[turn].append(seconds)
        yield figures(part, times, installed_sides, notes)


def figures(
    part: str,
    times: Mapping[tuple[str, str], Sequence[float]],
    compared_sides: Sequence[tuple[str, str]],
    notes: Sequence[str],
) -> dict[str, Any]:
    """Returns a part's figures: medians in seconds, ratios (above 1 = ours is faster), rates.

    The machine's rates are those of the fastest round.
    """
    measured_times = {turn: values for turn, values in times.items() if values}
    median = {turn: statistics.median(values) for turn, values in measured_times.items()}
    best = {name: min(measured_times.get(("ours", name), [float("nan")])) for name in RATES}
    peak = 2.0 * SHAPE.matmul**3 / best["matmul"]
    ours, flops = median.get(("ours", part)), part_flops().get(part)
    tokens = {"greedy": BATCH * TARGETS, "greedy_int8": BATCH * TARGETS, "salience": TARGETS}.get(
        part
    )
    beside = {
        side if side != "ours" else f"ours {name}": median[side, name]
        for side, name in compared_sides
        if (side, name) in median
    }
    return {
        "ours_s": ours,
        "share_of_peak": flops / ours / peak if flops and ours and peak == peak else None,
        "tokens_per_s": tokens / ours if tokens and ours else None,
        "compared_s": beside,
        "ratios": {name: seconds / ours for name, seconds in beside.items()} if ours else {},
        "matmul_gflops": None if peak != peak else peak / 1e9,
        "memory_gb_per_s": None
        if best["memory"] != best["memory"]
        else 2 * 4 * SHAPE.memory / best["memory"] / 1e9,
        "rounds": len(measured_times.get(("ours", part), ())),
        "notes": list(notes),
        "seconds": {" ".join(turn): list(values) for turn, values in times.items()},
    }


def run_program(command: Sequence[str], seconds: float) -> dict[str, Any]:
    """Runs a program with a time limit; returns the lines it printed, and what went wrong."""
    environment = os.environ | {"PYTHONUNBUFFERED": "1"}
    notes = []
    with tempfile.TemporaryFile() as printed, tempfile.TemporaryFile() as errors:
        process = subprocess.Popen(
            command, stdout=printed, stderr=errors, env=environment, start_new_session=True
        )
        try:
            if process.wait(seconds):
                errors.seek(0)
                last = errors.read().decode(errors="replace").strip().splitlines()[-1:]
                notes.append(f"failed: {' '.join(last)}")
        except subprocess.TimeoutExpired:
            notes.append(f"stopped after {seconds:.0f} s")
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)  # and the processes it started
            process.wait()
            printed.seek(0)
            lines = printed.read().decode(errors="replace").splitlines()
    return {"lines": lines, "notes": notes}


def program_of(part: str, quick: bool) -> list[str]:
    """Returns the command of a part that is a separate program."""
    if part == "plan":
        main = "import sys; from faith_jax.cli import main; sys.exit(main())"
        return [sys.executable, "-c", main, "plan", *(PLAN_QUICK if quick else PLAN).split()]
    path = pathlib.Path(__file__).resolve().parent / f"benchmark_{part}.py"
    return [sys.executable, str(path), *PROGRAMS[part][quick].split()]


class Results:
    """The results so far, written to a file after each change.

    Args:
      path: the JSON file; parts that it already has stay until they are measured again.
    """

    def __init__(self, path: pathlib.Path):
        self._path = path
        self.parts: dict[str, Any] = json.loads(path.read_text())["parts"] if path.exists() else {}

    def keep(self, part: str, entry: Mapping[str, Any]) -> None:
        """Stores the figures of a part, and writes the file."""
        device = jax.devices()[0].device_kind
        machine = f"{os.cpu_count()} cores, {device}, {platform.machine()}, {SHAPE_NAME}"
        self.parts[part] = {**entry, "machine": machine, "date": time.strftime("%Y-%m-%d")}
        beside = self._path.with_name(f".{self._path.name}.new")
        beside.write_text(json.dumps({"parts": self.parts}, indent=1) + "\n", encoding="utf-8")
        beside.replace(self._path)


COLUMNS = ("part", "ours", "of the matmul peak", "beside", "ratio", "matmul, memory", "rounds")


def markdown(parts: Mapping[str, Mapping[str, Any]]) -> str:
    """Returns the tables of all measured parts as Markdown."""
    lines = [f"| {' | '.join(COLUMNS)} |", f"|{' --- |' * len(COLUMNS)}"]
    for part, entry in parts.items():
        if entry.get("ours_s") is None:
            continue
        share = entry["share_of_peak"]
        ours = f"{entry['ours_s']:.3g} s"
        if entry["tokens_per_s"]:
            ours += f" ({entry['tokens_per_s']:,.0f} tokens/s)"
        rates = f"{entry['matmul_gflops']:.0f} GF/s, {entry['memory_gb_per_s']:.1f} GB/s"
        for name, seconds in entry["compared_s"].items() or [("", None)]:
            beside = f"{name}: {seconds:.3g} s" if seconds else ""
            ratio = f"{entry['ratios'][name]:.2f}" if seconds else ""
            cells = (part, ours, "" if share is None else f"{share:.0%}", beside, ratio, rates)
            lines.append(f"| {' | '.join((*cells, str(entry['rounds'])))} |")
    text = "\n".join(lines) if len(lines) > 2 else ""
    for part, entry in parts.items():
        if entry.get("lines"):
            text += f"\n\n{part}:\n\n```\n" + "\n".join(entry["lines"]) + "\n```"
    machines = sorted({f"{entry['date']}: {entry['machine']}" for entry in parts.values()})
    part_notes = [f"{part}: {note}" for part, entry in parts.items() for note in entry["notes"]]
    notes = ". ".join([*machines, *part_notes])
    return f"{text.strip()}\n\n{notes}.".strip()


def write_docs(path: pathlib.Path, text: str) -> None:
    """Writes a text between the marks in a page."""
    page = path.read_text(encoding="utf-8")
    before, begin, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not (begin and end):
        raise SystemExit(f"{path}: has no marks {BEGIN} and {END}.")
    path.write_text(f"{before}{BEGIN}\n\n{text}\n\n{END}{after}", encoding="utf-8")


def options_of(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Returns the parsed options; an invalid option ends the program."""
    all_parts = [*PARTS, *PROGRAMS]
    parser = argparse.ArgumentParser(
        description=__doc__.splitlines()[0] if __doc__ else "",
        epilog="example: tools/benchmark.py --parts=train,score --minutes=10 --json=benchmark.json",
        allow_abbrev=False,
        parents=[model_options()],
    )
    parser.add_argument("--parts", default="", help=f"of {', '.join(all_parts)} (default: all)")
    parser.add_argument("--rounds", type=int, default=5, help="of a part at most (default 5)")
    parser.add_argument("--minutes", type=float, default=5.0, help="of each part (default 5)")
    parser.add_argument("--quick", action="store_true", help=f"{', '.join(QUICK)} in five minutes")
    parser.add_argument("--plan", action="store_true", help="add TPUs' rooflines (needs libtpu)")
    parser.add_argument("--docs", action="store_true", help=f"write the tables into {DOCS.name}")
    path = pathlib.Path("benchmark.json")
    parser.add_argument("--json", type=pathlib.Path, default=path, help=f"(default {path})")
    options = parser.parse_args(arguments)
    options.parts = (
        options.parts.split(",") if options.parts else [*QUICK] if options.quick else all_parts
    )
    if unknown := [part for part in options.parts if part not in all_parts]:
        parser.error(f"--parts: {', '.join(unknown)} not among {', '.join(all_parts)}")
    if options.rounds < 1 or options.minutes <= 0:
        parser.error("--rounds and --minutes: more than 0")
    if options.plan and not importlib.util.find_spec("libtpu"):
        parser.error("--plan: needs libtpu: pip install 'faith_jax[tpu-plan]'")
    options.parts += ["plan"] * options.plan
    return options


def main(arguments: Sequence[str] | None = None) -> None:
    """Measures the parts, and keeps and prints the results even if it is interrupted."""
    options = options_of(arguments)
    # All sides share the memory of an accelerator.
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    seconds = QUICK_SECONDS / len(options.parts) if options.quick else 60 * options.minutes
    limits = Limits(seconds, options.rounds)
    results, sides = Results(options.json), Sides()
    measured: list[str] = []
    try:
        for part in options.parts:
            measured.append(part)
            if part in PARTS:
                for entry in measure(part, sides, limits):
                    results.keep(part, entry)
            else:
                entry = run_program(program_of(part, options.quick), seconds)
                results.keep(part, entry)
    finally:
        sides.close()
        measured_parts = {part: results.parts[part] for part in measured if part in results.parts}
        if measured_parts:
            print(markdown(measured_parts), flush=True)
        if options.docs:
            write_docs(DOCS, markdown(results.parts))


if __name__ == "__main__":
    main()
