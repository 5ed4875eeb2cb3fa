"""The run `prompt-report`: reports on prompt-tuned runs as text, JSON, a page and a picture."""

import functools
import pathlib
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from faith_jax.checkpoints.checkpoint import PROMPTS, content_hash
from faith_jax.checkpoints.embedded import model_dir_of
from faith_jax.checkpoints.native import is_native, params_folder, read_native, run_folder
from faith_jax.checkpoints.open import open_checkpoint
from faith_jax.core.errors import ConfigError, FaithJaxError, first_duplicate
from faith_jax.core.files import reserve_outputs, write_json, write_text
from faith_jax.core.files.stores import path_of
from faith_jax.gin_files.run_settings import read_settings
from faith_jax.gin_files.values import Reference
from faith_jax.models.soft_prompt import prompt_embedding
from faith_jax.report.figures import save_curves
from faith_jax.report.prompts import (
    PromptReport,
    all_tables,
    prompt_page,
    prompt_panels,
    report_figures,
    report_of,
)
from faith_jax.report.table_pages import render_table
from faith_jax.runs.model_dir import RunLog, read_prompt_starts
from faith_jax.runs.options import PromptReportOptions
from faith_jax.runs.soft_prompt_files import read_prompts
from faith_jax.statistics import prompt_health
from faith_jax.statistics.prompt_health import PromptHealth, RunHealth, VocabularyPiece
from faith_jax.tokenizers.carried import carried_vocabulary
from faith_jax.training.metrics import GRADIENT_NORMS, MOVEMENTS

_OUTPUTS = "html", "png", "json"
# The settings of a run that are shown, with the paths of their arguments.
_SETTINGS = {
    "seed": "optimization.seed",
    "learning_rate": "optimization.optimizer.learning_rate.learning_rate",
    "steps": "optimization.total_steps",
    "task": "dataset.mixture_or_task_name",
    "lengths": "dataset.task_feature_lengths",
}


@reserve_outputs(lambda options: (options.runs, {f"--{n}": getattr(options, n) for n in _OUTPUTS}))
def prompt_report(options: PromptReportOptions) -> str:
    """Returns the report on prompt-tuned runs as text, and writes it in the requested forms."""
    if twice := first_duplicate(options.runs):
        raise ConfigError(f"{twice}: is given twice.")
    report = make_report(options.runs, options.nearest)
    panels = prompt_panels(report.runs)
    if options.png and not panels:
        raise ConfigError(f"--png: {', '.join(options.runs)}: there are no metrics to draw.")
    if options.html:
        names = ", ".join(pathlib.Path(source).name for source in options.runs)
        write_text(options.html, prompt_page(f"Prompts of {names}", report))
    if options.png:
        save_curves(panels, path_of(options.png))
    if options.json:
        write_json(options.json, report_figures(report))
    parts = [render_table(table) for table in all_tables(report)]
    warnings = "".join(f"! {line}\n" for line in report.all_warnings())
    return "\n".join([*parts, f"Warnings\n{warnings or 'None.'}\n"]).rstrip("\n")


def make_report(sources: Sequence[str], nearest: int = 3) -> PromptReport:
    """Reads runs and reports on them, with the `nearest` pieces to each vector."""
    open_base = functools.cache(_open_base)  # runs often share their base
    return report_of([_read_run(source, nearest, open_base) for source in sources])


class _Vocabulary(NamedTuple):
    """The pieces that vectors are compared with."""

    embedding: NDArray[np.floating]  # [pieces, embed] of the base model
    text: Callable[[int], str]  # the readable text of a piece


class _Base(NamedTuple):
    """A base model: the embedding to compare each prompt with, and the prompts that it has itself.

    If it cannot be opened, `problem` is the reason.
    """

    embeddings: Mapping[str, NDArray[np.floating]]
    prompts: Sequence[str] = ()
    problem: str = ""


def _read_run(source: str, count: int, open_base: "Callable[[str, str], _Base]") -> RunHealth:
    """Returns the health of a run's prompts, with `count` nearest pieces for each vector."""
    prompts = read_prompts(source)
    path = path_of(source)
    folder, step = path, None
    if is_native(path):
        folder, saved = run_folder(path), params_folder(path).parent
        step = int(saved.name) if model_dir_of(saved) != saved else None
    if prompts.base is not None:
        base = open_base(str(prompts.base.get("path")), str(prompts.base.get("content_hash")))
    else:  # the checkpoint is a whole model
        params = read_native(path).params if is_native(path) else {}
        if "token_embedder" not in params:
            params = open_checkpoint(source).params
        base = _Base({name: prompt_embedding(params, name) for name in prompts.vectors})
    notes = [f"its base model is not compared with: {base.problem}"] if base.problem else []
    vocabularies = _load_vocabularies(base, source, notes)
    settings, (starts, origin) = read_settings(folder) or {}, read_prompt_starts(folder)
    if starts is None:
        notes.append("its start is unknown: it was not kept with the prompt.")
    log = RunLog(folder, step)
    health_by_prompt = {}
    for name, vectors in prompts.vectors.items():
        start = (starts or {}).get(name)
        if start is not None and start.shape != vectors.shape:
            notes.append(f"{name}: its start is unknown: the one that was kept is {start.shape}.")
            start = None
        health_by_prompt[name] = _measure_prompt_health(
            name, vectors, start, vocabularies.get(name), log, count
        )
    values = {name: settings[path].value for name, path in _SETTINGS.items() if path in settings}
    texts = {
        n: str(value) for n, value in values.items() if not isinstance(value, Reference | None)
    }
    initializer = origin.get("initializer", "unknown")
    if any(name in base.prompts for name in prompts.vectors):
        initializer = "the base's prompt"
    return RunHealth(
        name=source,
        step=step,
        initializer=initializer,
        settings=texts | {k: origin[k] for k in ("seed",) if k in origin},
        base=str((prompts.base or {}).get("content_hash") or ""),
        prompts=health_by_prompt,
        training_loss=log.training("loss"),
        validation_loss=log.validation("loss"),
        notes=tuple(notes),
    )


def _open_base(path: str, expected: str) -> _Base:
    try:
        checkpoint = open_checkpoint(path)
        digest = checkpoint.content_hash or content_hash(checkpoint.params)
    except FaithJaxError as error:
        return _Base({}, problem=str(error))
    if digest != expected:
        return _Base({}, problem=f"{path} is another model than the one it was trained on.")
    prompts = [name for name in checkpoint.params if name.endswith("_prompt")]
    params = checkpoint.params
    return _Base({name: prompt_embedding(params, name) for name in PROMPTS}, prompts)


def _load_vocabularies(base: _Base, source: str, notes: list[str]) -> dict[str, _Vocabulary]:
    """Returns the pieces to compare each prompt with; empty if the base cannot be opened."""
    if not base.embeddings:
        return {}
    problem = "no tokenizer is kept with it."
    try:
        vocabulary = carried_vocabulary(source)
    except FaithJaxError as error:
        vocabulary, problem = None, str(error)
    if vocabulary is None:
        notes.append(f"pieces are shown by their ids: {problem}")
        return {n: _Vocabulary(e, lambda token: f"#{token}") for n, e in base.embeddings.items()}
    # Embeddings after the last piece only pad the table and were never trained.
    return {
        name: _Vocabulary(embedding[: vocabulary.vocab_size], vocabulary.piece_text)
        for name, embedding in base.embeddings.items()
    }


def _measure_prompt_health(
    name: str,
    vectors: NDArray[np.float32],
    start: NDArray[np.float32] | None,
    vocabulary: _Vocabulary | None,
    log: RunLog,
    count: int,
) -> PromptHealth:
    length, wide = len(vectors), vectors.astype(np.float64)
    norms, start_pieces = None, [""] * length
    cosine: list[list[VocabularyPiece]] = [[] for _ in vectors]
    distance = cosine
    if vocabulary is not None:
        embedding, text = vocabulary.embedding, vocabulary.text
        norms = prompt_health.vocabulary_norms(wide, embedding)
        cosine = _make_pieces(*prompt_health.nearest_by_cosine(vectors, embedding, count), text)
        distance = _make_pieces(*prompt_health.nearest_by_distance(vectors, embedding, count), text)
        if start is not None:
            rows = prompt_health.rows_that_are(start, embedding)
            start_pieces = ["" if row is None else text(row) for row in rows]
    return PromptHealth(
        name=name,
        vectors=wide,
        start=None if start is None else start.astype(np.float64),
        vocabulary=norms,
        start_pieces=start_pieces,
        by_cosine=cosine,
        by_distance=distance,
        gradient_norms=log.vectors(name + GRADIENT_NORMS, length),
        movements=log.vectors(name + MOVEMENTS, length),
    )


def _make_pieces(
    ids: NDArray[np.integer], values: NDArray[np.floating], text: Callable[[int], str]
) -> list[list[VocabularyPiece]]:
    return [
        [VocabularyPiece(i, text(i), v) for i, v in zip(*row, strict=True)]
        for row in zip(ids.tolist(), values.tolist(), strict=True)
    ]
