"""FaithDial's tables 5 and 8 in one run: models are trained, respond, and are judged.

The output folder has `models/` (a folder for each training), a folder for each data set that is
responded to, with the responses of each system and seed and a scored file for each scorer, and
`settings.json`. The same command goes on where it was stopped, cell by cell, and may add models,
methods, data sets, seeds and scorers.
"""

import logging
import pathlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from faith_jax.checkpoints.open import open_checkpoint
from faith_jax.data.control_tokens import FAITHFUL_TOKENS, extra_id_texts
from faith_jax.data.vocabularies import load_vocabulary, vocabulary_setting
from faith_jax.errors import CheckpointError, ConfigError, InputError
from faith_jax.evaluation.decodings import Cell, Measure, bleu_measure, compared, mean_measure
from faith_jax.report.tables import rendered
from faith_jax.runs.evaluate_scores import write_evaluation
from faith_jax.runs.faithdial_options import (
    FAITHDIAL,
    MODEL_SCORERS,
    FaithDialOptions,
    keep_settings,
)
from faith_jax.runs.faithdial_report import report
from faith_jax.runs.faithdial_systems import (
    CROSS_ENTROPY,
    CTRL,
    DOHA,
    System,
    best_checkpoint,
    check_doha,
    check_trainings,
    stages,
    task_of,
    trained_system,
)
from faith_jax.runs.kept_settings import made_folder
from faith_jax.runs.reproduce import ENDINGS
from faith_jax.runs.response_files import (
    cut_rows,
    read_rows,
    respond,
    scored,
    texts,
)
from faith_jax.runs.score_input import dataset_rows
from faith_jax.runs.setup import check_generates
from faith_jax.scoring.registry import load_scorer

logger = logging.getLogger("faith_jax")

# Shares are shown in per cent, as the paper has them; BERTScore is not.
_PER_CENT = ("Critic", "Q\u00b2 F1", "Q\u00b2 NLI", "F1", "TRUE F1", "ROUGE")
_UNFAITHFUL_BELOW = 0.5


def faithdial_table(options: FaithDialOptions, output: str) -> str:
    """Trains, responds, scores, writes the table as faithdial.md, .tex, .csv and .json; returns it.

    Args:
      options: see there.
      output: the folder; with samples, the table's files are named faithdial_sample.

    Raises:
      FaithJaxError: for a wrong option or checkpoint, for a folder with other settings, and where
        no data is at hand.
    """
    systems, left_out = _with_data(options)
    _check_models(options)
    folder = made_folder(output)
    tested = _tested(folder, options, left_out)
    keep_settings(folder, options)
    checkpoints = _trained(folder, systems, options)
    cells: dict[tuple[str, str, str], dict[str, Cell]] = {}
    by_seed: list[tuple[Any, ...]] = []
    cut: dict[str, int] = {}
    for corpus in tested:
        for group in _groups([system for system in systems if system.is_tested_on(corpus)]):
            measures: dict[str, dict[str, Measure]] = {}
            for system in group:
                path = _respond(folder / corpus, system, checkpoints[system], options)
                cut[corpus] = max(cut.get(corpus, 0), cut_rows(path))
                found = dict(_measures(corpus, path, options))
                by_seed += [
                    (corpus, system.trained_on, system.name, name, system.seed, _value(measure))
                    for name, measure in found.items()
                ]
                measures[system.name] = _summed(measures.get(system.name), found)
            baseline = System(group[0].model, CROSS_ENTROPY, group[0].trained_on, 0).name
            figures = compared(measures, baseline, options.resamples, seed=options.seed)
            for name, row in figures.items():
                cells[corpus, group[0].trained_on, name] = row
    found_all = report(cells, by_seed, cut, left_out, options)
    name = f"{FAITHDIAL}_sample" if options.sample else FAITHDIAL
    tables = {form: str(folder / f"{name}.{ending}") for form, ending in ENDINGS.items()}
    write_evaluation(found_all, str(folder / f"{name}.json"), tables)
    return rendered(found_all.table)


def _with_data(options: FaithDialOptions) -> tuple[list[System], list[str]]:
    """Returns the systems whose data are at hand, and what is left out."""
    missing: dict[str, InputError] = {}
    systems, left_out = [], []
    for system in options.systems():
        key = f"{system.name}/{system.trained_on}"
        tasks = [] if key in options.trained else list(_tasks(system, options.sample))
        for task in tasks:
            if task not in missing and (problem := _problem(task, "train")):
                missing[task] = problem
        lacking = [task for task in tasks if task in missing]
        if not lacking:
            systems.append(system)
        elif system.seed == options.seeds[0]:
            logger.warning("%s is left out: %s", key, missing[lacking[0]])
            left_out.append(f"{key} (no data of {lacking[0]})")
    if not systems:
        nothing = "--methods, --trained-on, --tested-on: no method has such data to train on."
        raise next(iter(missing.values()), ConfigError(nothing))
    return systems, left_out


def _tasks(system: System, sample: bool) -> Iterator[str]:
    for method, data in stages(system):
        yield task_of(method, data, sample)


def _problem(task: str, split: str) -> InputError | None:
    """Returns why a task cannot be read, or None."""
    try:
        next(iter(dataset_rows(task, "", split)), None)
    except InputError as problem:
        return problem
    return None


def _tested(folder: pathlib.Path, options: FaithDialOptions, left_out: list[str]) -> list[str]:
    """Returns the data sets to respond to; their rows are kept in the folder."""
    found, problems = [], []
    for corpus in dict.fromkeys(options.tested_on):
        try:
            read_rows(folder / corpus / "rows.jsonl", *options.task(corpus), options.limit)
        except InputError as problem:
            logger.warning("%s is left out: %s", corpus, problem)
            left_out.append(f"responses to {corpus} (no data)")
            problems.append(problem)
            continue
        found.append(corpus)
    if not found:
        raise problems[0]
    return found


def _check_models(options: FaithDialOptions) -> None:
    """Finds what is wrong with a model or a scorer before anything is trained."""
    for name, path in options.models.items():
        try:
            check_generates(open_checkpoint(path).config)
            load_vocabulary(options.vocabulary(name))
        except (CheckpointError, ConfigError) as error:
            raise ConfigError(f"--models: {error}") from None
        if name == DOHA:
            check_doha("--models: doha", path)
    for key, path in options.trained.items():
        if key.startswith(f"{DOHA}/"):
            check_doha(f"--trained: {key}", path, is_trained=True)
    for name in MODEL_SCORERS:
        if name in options.scorers:
            load_scorer(name, **options.scorers[name])


def _trained(
    folder: pathlib.Path, systems: Sequence[System], options: FaithDialOptions
) -> dict[System, str]:
    """Trains all systems before the first one responds; see `trained_cells`."""
    place, found = folder / "models", {}
    for system in systems:
        if f"{system.name}/{system.trained_on}" not in options.trained:
            check_trainings(system, options.models, place, options.training)
    for number, system in enumerate(systems, start=1):
        given = options.trained.get(f"{system.name}/{system.trained_on}")
        if given is not None:
            there = pathlib.Path(given).expanduser() / "checkpoints"
            found[system] = str(best_checkpoint(pathlib.Path(given))) if there.is_dir() else given
            continue
        logger.info(
            "system %d/%d: %s on %s, seed %d",
            number,
            len(systems),
            system.name,
            system.trained_on,
            system.seed,
        )
        found[system] = str(trained_system(system, options.models, place, options.training))
    return found


def _groups(systems: Sequence[System]) -> list[list[System]]:
    """Returns the systems of each model and training data, which are compared."""
    groups: dict[tuple[str, str], list[System]] = {}
    for system in systems:
        groups.setdefault((system.trained_on, system.model), []).append(system)
    return list(groups.values())


def _respond(
    folder: pathlib.Path, system: System, checkpoint: str, options: FaithDialOptions
) -> pathlib.Path:
    rows = folder / "rows.jsonl"
    if system.method == CTRL:
        rows = folder / f"rows_{system.name}.jsonl"
        prefix = control_prefix(options.vocabulary(system.model))
        read_rows(rows, *options.task(folder.name), options.limit, prefix)
    path = folder / f"{system.name}_{system.trained_on}_seed_{system.seed}.jsonl"
    respond(
        rows,
        path,
        checkpoint,
        options.vocabulary(system.model),
        options.decoding,
        options.training.input_length,
        options.batch_size,
        system.seed,
    )
    return path


def control_prefix(vocabulary: str) -> str:
    """Returns the control tokens of a faithful response, as a vocabulary has them."""
    replacements = extra_id_texts(vocabulary_setting(vocabulary).extra_ids)
    tokens = [token.value for token in FAITHFUL_TOKENS]
    return " ".join(replacements.get(token, token) for token in tokens) + " "


def _measures(
    corpus: str, responses: pathlib.Path, options: FaithDialOptions
) -> Iterator[tuple[str, Measure]]:
    """Yields the figures of one system and seed by column; scores what is not scored yet."""
    name = f"{corpus}/{responses.stem}"
    for column, (scorer, grounding) in options.columns(corpus).items():
        if not scorer:
            yield column, bleu_measure(*texts(responses), lowercase=True)
            continue
        given = {scorer: options.scorers.get(scorer, {})}
        values = scored(responses, given, grounding, name)[scorer]
        if column == "Critic":  # the share that it calls unfaithful
            values = [v if v != v else float(v < _UNFAITHFUL_BELOW) for v in values]
        yield column, mean_measure(values, 0.0, 0.01 if column in _PER_CENT else 1.0)


def _summed(before: Mapping[str, Measure] | None, found: Mapping[str, Measure]) -> dict[str, Any]:
    """Returns measures whose rows have the summands of one seed more.

    So a row's responses by all seeds are drawn and exchanged together.
    """
    if before is None:
        return dict(found)
    return {
        name: measure._replace(
            summands=before[name].summands + measure.summands,
            defined=before[name].defined + measure.defined,
        )
        for name, measure in found.items()
    }


def _value(measure: Measure) -> float:
    return float(measure.value(measure.summands.sum(axis=0, keepdims=True))[0])
