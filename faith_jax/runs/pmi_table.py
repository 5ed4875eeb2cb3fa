"""Nandwani 2023, table 3, in one run: decodings of a model with and without PMI, and their scores.

The output folder has what `faith_jax.runs.pmi_responses` keeps, and a scored file for each
decoding and scorer. A further run with the same settings keeps all of these, and may add data sets,
decodings and scorers.
"""

import logging
import math
import pathlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from faith_jax.data.vocabularies import load_vocabulary
from faith_jax.errors import CheckpointError, ConfigError, InputError, counted
from faith_jax.evaluation.dataset_statistics import Table
from faith_jax.evaluation.decodings import Cell, Measure, bleu_measure, compared, mean_measure
from faith_jax.evaluation.published import PUBLISHED
from faith_jax.report.tables import MARK, rendered
from faith_jax.runs.as_published import NEEDS_SPACY, difference
from faith_jax.runs.evaluate_scores import Evaluation, write_evaluation
from faith_jax.runs.kept_settings import made_folder, write_settings
from faith_jax.runs.pmi_responses import (
    BASELINE,
    COLUMNS,
    HIGHEST_PMI,
    LOWEST_PMI,
    MODEL_SCORERS,
    PMITableOptions,
    checked_settings,
    read_rows,
    respond,
)
from faith_jax.runs.reproduce import ENDINGS, PMI_TABLE, of_samples
from faith_jax.runs.response_files import cut_rows, scored, scored_path, texts
from faith_jax.runs.table_files import by_column
from faith_jax.scoring.registry import load_scorer

logger = logging.getLogger("faith_jax")


def pmi_table(options: PMITableOptions, output: str) -> str:
    """Decodes, scores, writes the table as pmi_decode.md, .tex, .csv and .json, and returns it.

    Args:
      options: see there.
      output: the folder; with samples, the table's files are named pmi_decode_sample.

    Raises:
      FaithJaxError: for a wrong option or checkpoint, for a folder with responses of other
        settings, and where no data is at hand.
    """
    folder = made_folder(output)
    settings = checked_settings(folder, options)
    chosen, problems = {}, []
    for corpus in dict.fromkeys(options.corpora):
        try:
            chosen[corpus] = read_rows(corpus, folder / corpus, options)
        except InputError as problem:
            reason = str(problem).partition(". ")[0]
            logger.warning("%s is left out: %s", corpus, reason)
            problems.append(problem)
    if not chosen:
        raise problems[0]
    _check_models(folder, chosen, options)
    write_settings(folder, settings)
    cells: dict[str, dict[str, dict[str, Cell]]] = {}
    cut: list[str] = []
    for corpus, rows in chosen.items():
        measures = {}
        for decoding in dict.fromkeys(options.decodings):
            path = folder / corpus / f"{decoding}.jsonl"
            respond(decoding, path, options)
            measures[decoding] = dict(_measures(corpus, path, options))
        if longer := cut_rows(path):
            cut.append(f"{longer:,} of {counted(len(rows), 'input')} of {corpus}")
        cells[corpus] = compared(measures, BASELINE, options.resamples, seed=options.seed)
    found = _evaluation(cells, {c: len(rows) for c, rows in chosen.items()}, cut, options)
    name = f"{PMI_TABLE}_sample" if options.sample else PMI_TABLE
    tables = {form: str(folder / f"{name}.{ending}") for form, ending in ENDINGS.items()}
    write_evaluation(found, str(folder / f"{name}.json"), tables)
    return rendered(found.table)


def _check_models(
    folder: pathlib.Path, corpora: Mapping[str, Any], options: PMITableOptions
) -> None:
    """Finds what is wrong with a model or scorer before anything is decoded."""
    from faith_jax.checkpoints.open import open_checkpoint

    wanted = [folder / corpus / name for corpus in corpora for name in options.decodings]
    if not all(path.with_suffix(".jsonl").exists() for path in wanted):
        try:
            config = open_checkpoint(options.model).config
        except CheckpointError as error:
            raise ConfigError(f"--model: {error}") from None
        try:
            load_vocabulary(options.tokenizer)
        except ConfigError as error:
            raise ConfigError(f"--vocabulary: {error}") from None
        if config.is_encoder_only:
            raise ConfigError(
                f"--model: {options.model}: expected a language model, got an encoder-only one."
            )
    for scorer, _ in options.columns.values():
        if scorer and not all(scored_path(path, scorer).exists() for path in wanted):
            load_scorer(scorer, **options.scorers.get(scorer, {}))


def _measures(
    corpus: str, responses: pathlib.Path, options: PMITableOptions
) -> Iterator[tuple[str, Measure]]:
    """Yields the figures of a decoding by column; scores what is not scored yet."""
    for column, (scorer, grounding) in options.columns.items():
        if not scorer:
            yield column, bleu_measure(*texts(responses), lowercase=True)
            continue
        given = {scorer: options.scorers.get(scorer, {})}
        values = scored(responses, given, grounding, f"{corpus}/{responses.stem}")[scorer]
        scale = (LOWEST_PMI, HIGHEST_PMI) if scorer == "pmi_faith_mean" else (0.0, 1.0)
        yield column, mean_measure(values, *scale)


def _evaluation(
    cells: Mapping[str, Mapping[str, Mapping[str, Cell]]],
    sizes: Mapping[str, int],
    cut: Sequence[str],
    options: PMITableOptions,
) -> Evaluation:
    """Returns the table and the figures."""
    published = {} if options.sample else PUBLISHED[PMI_TABLE].rows
    columns, differences = list(options.columns), _differences(options)
    rows: list[tuple[Any, ...]] = []
    tidy: list[tuple[Any, ...]] = []
    for corpus, decodings in cells.items():
        for decoding, found in decodings.items():
            rows.append((corpus, decoding, *(_text(c, found[c]) for c in columns)))
            theirs = {
                column: value
                for column, value in published.get((corpus, decoding), {}).items()
                if column in columns and column not in differences
            }
            if theirs:
                shown = (f"{theirs[c]:.2f}" if c in theirs else "" for c in columns)
                rows.append((corpus, f"{decoding} (published)", *shown))
            for column, cell in found.items():
                p_value = None if math.isnan(cell.p_value) else cell.p_value
                tidy.append(
                    (corpus, decoding, column, cell.rows, cell.value, *cell.interval, p_value)
                    + (None if p_value is None else int(cell.significant), theirs.get(column))
                )
    names = ("corpus", "decoding", "column", "rows", "value", "low", "high", "p_value")
    plain = Table("", (*names, "significant", "published"), tuple(tidy))
    title = "Decodings with and without PMI, with 95% bootstrap intervals (Nandwani 2023, table 3)"
    if options.limit:
        title += f", first {counted(options.limit, 'row')} of each data set"
    notes = tuple(_notes(cells, sizes, cut, options))
    if published:
        told = (f"No published {c}: {why}." for c, why in differences.items())
        notes = (*notes, PUBLISHED[PMI_TABLE].note, *told)
    table = Table(title, ("corpus", "decoding", *columns), tuple(rows), notes, plain)
    figures = {"sample": options.sample, "model": options.model, "rows": by_column(plain)}
    found_all = Evaluation(table, figures, {})
    return of_samples(found_all) if options.sample else found_all


def _differences(options: PMITableOptions) -> dict[str, str]:
    """Returns why columns are not to be compared with the paper's."""
    found = {
        column: difference(scorer, options.scorers.get(scorer, {}))
        for column, (scorer, _) in options.columns.items()
    }
    return {column: why for column, why in found.items() if why}


def _text(column: str, cell: Cell) -> str:
    if math.isnan(cell.value):
        return "undefined"
    digits = 2 if column == "BLEU-4" else 3
    low, high = (f"{end:.{digits}f}" for end in cell.interval)
    return f"{cell.value:.{digits}f}{MARK if cell.significant else ''} ({low}\u2013{high})"


def _notes(
    cells: Mapping[str, Mapping[str, Mapping[str, Cell]]],
    sizes: Mapping[str, int],
    cut: Sequence[str],
    options: PMITableOptions,
) -> Iterator[str]:
    """Yields what the figures are and what is left out."""
    search = f"{options.num_beams} beams" if options.num_beams > 1 else "greedy search"
    yield (
        f"Model: {options.model}, {search}. PMI-Decode: alpha = {options.alpha:g} and p = "
        f"{options.p:g}; pmi_no_mask has p = 1, pmi_equal alpha = 0.5."
    )
    if "PMI-Faith" in options.columns:
        model = options.scorers["pmi_faith_mean"].get("model")
        yield (
            f"PMI-Faith: pmi_faith_mean by {model}, where {LOWEST_PMI} is 0 and {HIGHEST_PMI} is 1 "
            "(the paper's range, of its own scorer); not clipped."
        )
    yield (
        "PMI-Faith, F1-U (the paper's: spaCy's tokens without stop words and punctuation), TRUE F1 "
        "(TRUE's token F1), BERTScore and Q\u00b2: against the document; BLEU-4 (of the whole "
        "corpus in lower case, 0 to 100) and ROUGE-L (F1 of Porter stems): against the gold "
        "response."
    )
    yield f"Intervals: percentile bootstrap over rows, {counted(options.resamples, 'resample')}."
    if BASELINE in options.decodings and len(options.decodings) > 1:
        yield (
            f"{MARK} differs from {BASELINE} on the same rows: two-sided p \u2264 0.05 by "
            f"approximate randomisation of {counted(options.resamples, 'round')}, with Holm's "
            "correction over the decodings of each data set and column."
        )
    for column, (scorer, _) in COLUMNS.items():
        if column not in options.columns:
            needed = MODEL_SCORERS.get(scorer)
            yield f"{column} is left out: {f'it needs {needed}' if needed else NEEDS_SPACY}."
    missing = [
        f"{sizes[corpus] - cell.rows:,} of {corpus}, {decoding} ({column})"
        for corpus, decodings in cells.items()
        for decoding, found in decodings.items()
        for column, cell in found.items()
        if cell.rows < sizes[corpus]
    ]
    if missing:
        yield f"Rows whose score is undefined, not in the mean: {'; '.join(missing)}."
    if cut:
        yield f"Cut at {options.max_input_length} tokens: {'; '.join(cut)}."
