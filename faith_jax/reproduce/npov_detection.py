"""Chang 2024's study in one run: responses, errors in them, detectors, and tables 1, 2, 3, 5 and 6.

The output folder has what `faith_jax.reproduce.npov_responses` keeps, the data sets in `data`, the
scored test sets in `scored`, and the tables. A further run with the same settings keeps responses
and scores, and may add marks and classifiers.
"""

import json
import logging
import math
import pathlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from faith_jax.core.errors import counted
from faith_jax.core.kept_settings import made_folder, write_settings
from faith_jax.core.outputs import write_text
from faith_jax.datasets.npov.choices import draw_combinations, temperatures_note
from faith_jax.report.tables import rendered, table_page
from faith_jax.reproduce.npov_detection_data import (
    NOT_ANNOTATED,
    ORGANIC,
    SLICES,
    Judged,
    check_errors_per_response,
    judged,
    verdict_table,
    write_sets,
)
from faith_jax.reproduce.npov_detection_scores import check_kept, scored_sets
from faith_jax.reproduce.npov_responses import (
    DETECTION,
    ERRORS,
    DetectionOptions,
    check_models,
    checked_settings,
    read_topics,
    responses_of,
)
from faith_jax.statistics.dataset_statistics import Table
from faith_jax.statistics.npov_detection import detection_tables, joined_tidy
from faith_jax.statistics.scored_corpora import Corpus

logger = logging.getLogger("faith_jax")

DATA, SCORED = "data", "scored"
# A cluster needs company.
_FEW_TOPICS = 10


def npov_detection(options: DetectionOptions, output: str) -> str:
    """Generates, makes the data sets, scores, writes the tables, and returns them as text.

    The tables are npov_detection.md, .tex, .csv, .json and .html; of the sample's topics
    npov_detection_sample.

    Args:
      options: see there.
      output: the folder.

    Raises:
      FaithJaxError: for a wrong option, checkpoint, topic or mark, for a folder with responses or
        scores of other settings, and where no response to a test topic is error-free.
    """
    folder = pathlib.Path(output)
    topics = read_topics(options)
    for topic in topics:
        draw_combinations(topic, 1)  # its errors come before anything is computed
    check_errors_per_response(topics, options)
    check_models(options)
    made_folder(output)
    settings = checked_settings(folder, options)
    check_kept(folder / SCORED, options)
    write_settings(folder, settings)
    rows = responses_of(folder, topics, options)
    found = judged(rows, topics, options)
    sets, lost = write_sets(
        folder / DATA, rows, topics, found, options.seed, options.errors_per_response
    )
    corpora = scored_sets(folder / SCORED, folder / DATA, options)
    absent = {
        name: NOT_ANNOTATED if name in ORGANIC and not options.marks else "" for name in SLICES
    }
    tables = detection_tables(corpora, absent, options.resamples, options.seed)
    notes = tuple(_notes(rows, found, corpora, lost, options))
    return _written(folder, [verdict_table(rows, found), sets, *tables], notes, options)


def _written(
    folder: pathlib.Path, tables: Sequence[Table], notes: Sequence[str], options: DetectionOptions
) -> str:
    """Writes the tables in all forms, and returns them as text."""
    title = "Detection of hallucinations and coverage errors (Chang 2024)"
    if options.sample:
        title = f"SAMPLES, not the paper's data: {title}"
    path = folder / (f"{DETECTION}_sample" if options.sample else DETECTION)
    tidy = joined_tidy(tables)
    told = {
        "title": title,
        "notes": list(notes),
        "sample": options.sample,
        "model": options.model,
        "rows": _by_column(tidy),
        "tables": [
            {"title": table.title, "notes": list(table.notes), "rows": _by_column(table)}
            for table in tables
        ],
    }
    listed = "".join(f"\n{note}\n" for note in notes)
    joined = {form: "\n".join(rendered(t, form) for t in tables) for form in ("markdown", "latex")}
    texts = {
        "md": f"# {title}\n{listed}\n{joined['markdown']}",
        "tex": joined["latex"],
        "csv": rendered(tidy, "csv"),
        "json": json.dumps(told, indent=1, ensure_ascii=False) + "\n",
        "html": table_page(title, notes, tables),
    }
    for ending, text in texts.items():
        write_text(path.with_suffix(f".{ending}"), text)
    shown = "\n".join(rendered(table) for table in tables)
    return f"{title}\n" + "".join(f"{note}\n" for note in notes) + f"\n{shown}"


def _by_column(table: Table) -> list[dict[str, Any]]:
    """Returns the rows by column, with None for what is undefined."""
    rows = (zip(table.columns, row, strict=True) for row in table.rows)
    return [
        {name: None if isinstance(v, float) and math.isnan(v) else v for name, v in row}
        for row in rows
    ]


def _notes(
    rows: Sequence[Mapping[str, Any]],
    found: Judged,
    corpora: Mapping[str, Corpus],
    lost: int,
    options: DetectionOptions,
) -> Iterator[str]:
    """Yields what the figures are of, and what is missing."""
    yield (
        f"Generator: {options.model}; {counted(len(rows), 'response')}, "
        f"{temperatures_note(options.combinations)}."
    )
    cut = sum(row.get("inputs_cut_tokens", 0) > 0 for row in rows)
    if cut:
        yield f"{counted(cut, 'input')} cut at {options.max_input_length} tokens."
    yield from _truth_notes(rows, found, options)
    if options.errors_per_response is not None:
        yield (
            f"Rows with a synthetic error: {options.errors_per_response:.4g} to each error-free "
            "response, drawn."
        )
    if lost:
        yield (
            f"{counted(lost, 'row')} left out of the paraphrased sets, with an argument without a "
            "written paraphrase."
        )
    topics = len({topic for corpus in corpora.values() for topic in corpus.field("topic")})
    yield (
        f"Intervals: 95% percentile bootstrap over topics ({topics}), whose rows are drawn "
        f"together, {counted(options.resamples, 'resample')}."
    )
    if topics < _FEW_TOPICS:
        yield f"So few topics ({topics}) say little: figures may change much."
    yield f"Salience is of {options.salience_model or options.model}."
    for error in ERRORS:
        models = options.models_of(error)
        if "" not in models:
            yield (
                f"No classifier for {error} is given for table 1 (--{error}-model, or dev of "
                "--classifiers): its cells say that they are not scored."
            )
        for trained_on, path in models.items():
            yield f"Classifier for {error}{f', {trained_on}' if trained_on else ''}: {path}."


def _truth_notes(
    rows: Sequence[Mapping[str, Any]], found: Judged, options: DetectionOptions
) -> Iterator[str]:
    """Yields who says what is an error."""
    free = f"{len(found.error_free):,} of {counted(len(rows), 'response')}"
    if found.labels is not None:
        seen = counted(len(found.labels), "response")
        yield f"Error-free by people's marks ({options.marks}): {free}; {seen} are annotated."
    else:
        rule = options.rule
        yield (
            f"STAND-IN for the paper's annotation: {free} count as error-free by a rule of words: "
            f"at least {rule.recall:g} of the stems of each given argument are in the response, at "
            f"least {rule.precision:g} of the response's stems in the query or a given argument, "
            f"and less than {rule.unused:g} of an unused argument's own. Such a choice favours "
            "ROUGE, which sees the same words."
        )
        yield "Organic errors are not annotated: give --marks (faith-jax annotate)."
    yield (
        "Words of synthetic errors (table 3): uncovered are the words of the added argument; "
        "hallucinated is, for each sentence of the removed argument, the stretch of the response "
        "from the first to the last word of it in the sentence that has most of them, by a rule "
        "and not by annotators."
    )
