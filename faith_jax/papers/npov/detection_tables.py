"""Chang 2024's study of error detection: tables 1, 2, 3, 5 and 6 for any generator.

The generator responds, errors are put into its responses, and these are scored by ROUGE, salience
and classifiers (`npov_detection.smk`); this module makes the tables from the scores.
"""

import math
import pathlib
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields
from typing import Any, NamedTuple

from faith_jax.core.errors import ConfigError, pluralize
from faith_jax.core.files import write_text
from faith_jax.core.rows import read_jsonl
from faith_jax.core.table import MARK, figure_text
from faith_jax.core.table import Table as ShownTable
from faith_jax.datasets import npov
from faith_jax.datasets.samples import SAMPLE
from faith_jax.export.read_scored import read_scored_rows
from faith_jax.papers import workflow
from faith_jax.papers.npov.combinations import TEMPERATURES, draw_combinations, temperatures_note
from faith_jax.papers.npov.detection import ERRORS, Detection, Key, comparisons, detections
from faith_jax.papers.npov.error_sets import (
    NOT_ANNOTATED,
    check_errors_per_response,
    read_summary,
    read_topics,
)
from faith_jax.papers.npov.options import NpovCombinations, NpovDetection, NpovErrors, NpovTopics
from faith_jax.papers.options import check_names
from faith_jax.papers.tables import read_published_figures
from faith_jax.papers.workflow import CountRows, GinRun, Scores, scorer_flags
from faith_jax.report.table_pages import table_page
from faith_jax.statistics.bootstrap import interval_note
from faith_jax.statistics.scored_corpora import Corpus, read_corpora
from faith_jax.statistics.significance import SIGNIFICANT
from faith_jax.statistics.texts.salience_scores import AGGREGATIONS

# Classifiers by their training data (section 5.2 and appendix B.1); table 1 shows MAIN's.
TRAINED_ON = ("synth", "para", "dev", "org", "annotation_free")
MAIN = "dev"
_FEW_TOPICS = 10  # intervals from fewer topics say little
RULES = pathlib.Path(__file__).with_name("npov_detection.smk")


def check(options: NpovDetection) -> None:
    """Checks names, and opens the models; a ConfigError names the option."""
    from faith_jax.runs.setup import check_language_model  # imports JAX

    if options.sample and options.knowledge != SAMPLE:
        raise ConfigError(
            f"--sample: is of the topics in the package, --knowledge of {options.knowledge}; give "
            "one of them."
        )
    if not options.model:
        raise ConfigError("npov_detection needs a generator: give --model=CHECKPOINT.")
    if options.marks and not pathlib.Path(options.marks).is_file():
        raise ConfigError(f"--marks: {options.marks}: no such file.")
    check_names("splits", options.splits, npov.SPLITS)
    check_names("classifiers", options.classifiers, TRAINED_ON)
    if "test" not in options.splits:
        raise ConfigError("--splits: the tables are of test topics; name test too.")
    paths = {"--model": options.model, "--salience-model": options.salience_model}
    paths |= {f"--{error}-model": getattr(options, f"{error}_model") for error in ERRORS}
    for name, pair in options.classifiers.items():
        paths |= {f"--classifiers {name}, {e}": p for e, p in zip(ERRORS, pair, strict=True)}
    topics = read_topics(options.knowledge, options.splits)
    for topic in topics:
        draw_combinations(topic, 1)
    if options.errors_per_response is not None:
        check_errors_per_response(topics, options)
    for option, path in paths.items():
        if path:
            check_language_model(option, path)


def _classifiers_of(error: str, options: NpovDetection) -> dict[str, str]:
    """Returns an error's classifiers by their training data; table 1's has the name ""."""
    by_training = {name: pair[ERRORS.index(error)] for name, pair in options.classifiers.items()}
    main = getattr(options, f"{error}_model") or by_training.get(MAIN, "")
    return {name: path for name, path in {"": main, **by_training}.items() if path}


class Table(workflow.TableWorkflow):
    """The study; `detectors` maps the name of a scored file to its scorers and their options."""

    def __init__(self, options: NpovDetection, rows: CountRows):
        super().__init__(options, rows)
        for temperature in TEMPERATURES:
            name = f"t{temperature:.1f}"
            files = ("runs/infer_file.gin", "decoding/temperature.gin")
            bindings: dict[str, Any] = {
                "CHECKPOINT_PATH": options.model,
                "TEMPERATURE": temperature,
                "DECODE_LENGTH": options.max_length,
                "MAX_INPUT_LENGTH": options.max_input_length,
                "BATCH_SIZE": options.batch_size,
                "RANDOM_SEED": options.seed,
                "FORMATS": ("jsonl",),
                "INPUT_FILE": f"inputs/{name}.jsonl",
            }
            if options.vocabulary:
                bindings["VOCABULARY"] = options.vocabulary
            self.responses[name] = GinRun(files, bindings, [f"inputs/{name}.jsonl"])
        reader = {"model": options.salience_model or options.model}
        if options.vocabulary and not options.salience_model:
            reader["vocabulary"] = options.vocabulary
        salience = {
            f"salience_{error}{suffix}=salience_{error}": {**reader, "aggregation": aggregation}
            for aggregation in AGGREGATIONS
            for suffix in [f"_{aggregation}" if aggregation != AGGREGATIONS[0] else ""]
            for error in ERRORS
        }
        self.detectors: dict[str, dict[str, dict[str, str]]] = {
            "rouge": {f"npov_rouge1_{error}": {} for error in ERRORS},
            "salience": salience,
        }
        for error in ERRORS:
            for trained_on, path in _classifiers_of(error, options).items():
                name = "_".join(filter(None, (f"npov_{error}", trained_on)))
                self.detectors[name] = {f"{name}=npov_{error}": {"model": path}}
        for name, scorers in self.detectors.items():
            models = sorted(
                {scorer_options["model"] for scorer_options in scorers.values() if scorer_options}
            )
            arguments = ["--input=data/test.jsonl", "--batch-size=32", *scorer_flags(scorers)]
            self.scores[name] = Scores(arguments, ["data/test.jsonl"], models)

    @property
    def is_sample(self) -> bool:
        """See `workflow.TableWorkflow`; the embedded topics always count as samples."""
        return bool(self.options.knowledge == SAMPLE)

    def steps(self) -> dict[str, Any]:
        """See `workflow.TableWorkflow`; adds the configuration of the study's own rules."""
        options = self.options
        return super().steps() | {
            "topics": str(npov.topics_folder(options.knowledge) / npov.TOPICS_FILE),
            "marks": [options.marks] if options.marks else [],
            "inputs": self._format_option_flags(NpovTopics, NpovCombinations),
            "sets": self._format_option_flags(NpovTopics, NpovErrors),
        }

    def _format_option_flags(self, *classes: type) -> str:
        values = {f.name: getattr(self.options, f.name) for c in classes for f in fields(c)}
        return shlex.join(
            f"--{name.replace('_', '-')}={','.join(value) if name == 'splits' else value}"
            for name, value in values.items()
            if value not in ("", None)
        )

    def write(self, folder: pathlib.Path) -> None:
        """Writes the tables from a folder's scores as .md, .tex, .csv, .json and .html."""
        options = self.options
        paths = [folder / "scores" / f"{name}.jsonl" for name in self.scores]
        corpora = read_corpora({str(path): read_scored_rows(path) for path in paths})
        notes, tables = read_summary(folder / "data")
        form = read_published_figures(__name__)
        drawn = options.resamples, options.seed, "topic"
        for table_form in form["tables"]:
            detection_form = DetectionTable(**table_form)
            cells = detections(corpora, detection_form.scorers(), detection_form.words, *drawn)
            tables.append(detection_table(detection_form, cells, form, bool(options.marks)))
        notes = list(self._collect_table_notes(folder, corpora, notes))
        figures = {
            "model": options.model,
            # As shown: `write_tables` adds the tidy forms.
            "tables": [
                {"title": t.title, "notes": list(t.notes), "rows": t._replace(tidy=None).records()}
                for t in tables
            ],
        }
        title = "Detection of hallucinations and coverage errors (Chang 2024)"
        title = self.write_tables(folder, title, notes, tables, figures)
        write_text(folder / f"{self.file_name}.html", table_page(title, notes, tables))

    def _collect_table_notes(
        self, folder: pathlib.Path, corpora: Mapping[str, Corpus], data_notes: Sequence[str]
    ) -> Iterator[str]:
        """Yields notes on the figures, and on everything that is missing."""
        options = self.options
        cut = [row["inputs_cut_tokens"] > 0 for _, row in read_jsonl(folder / "responses.jsonl")]
        yield (
            f"Generator: {options.model}; {pluralize(len(cut), 'response')}, "
            f"{temperatures_note(options.combinations)}."
        )
        if any(cut):
            yield f"{pluralize(sum(cut), 'input')} cut at {options.max_input_length} tokens."
        yield from data_notes
        topics = len({topic for corpus in corpora.values() for topic in corpus.field("topic")})
        drawn = f"topics ({topics}), whose rows are drawn together"
        yield interval_note(0.95, options.resamples, drawn)
        if topics < _FEW_TOPICS:
            yield f"So few topics ({topics}) say little: figures may change much."
        yield f"Salience is of {options.salience_model or options.model}."
        for error in ERRORS:
            models = _classifiers_of(error, options)
            if "" not in models:
                yield (
                    f"No classifier for {error} is given for table 1 (--{error}-model, or dev of "
                    "--classifiers): its cells say that they are not scored."
                )
            for trained_on, path in models.items():
                yield f"Classifier for {error}{f', {trained_on}' if trained_on else ''}: {path}."


class DetectionTable(NamedTuple):
    """One of the paper's tables.

    `methods` maps a method to the name of its scores, with {error} for the error. `published` has
    the paper's figures in per cent by error and method, one for each test set.
    """

    number: int
    title: str
    methods: Mapping[str, str]
    published: Mapping[str, Mapping[str, Sequence[float | None]]]
    words: bool = False
    by_rows: bool = False

    def scorers(self) -> dict[str, dict[str, str]]:
        """Returns the name of each method's scores for each error."""
        return {
            method: {error: scorer.format(error=error) for error in ERRORS}
            for method, scorer in self.methods.items()
        }


_HEADS = {"hallucination": "hallucinations", "coverage": "coverage errors"}
_TIDY = (
    "table", "test set", "error", "method", "rows", "errors", "auc", "low", "high", "p_value",
    "best", "published",
)  # fmt: skip


def detection_table(
    form: DetectionTable,
    cells: Mapping[Key, Detection],
    published_form: Mapping[str, Any],
    is_marked: bool,
) -> ShownTable:
    """Returns one of the tables, with the paper's figures below ours.

    `published_form` has the names of all test sets, and a note on the paper's figures; `is_marked`
    says whether there are test sets of organic errors.
    """
    places = {name: place for place, name in enumerate(published_form["test_sets"])}

    def published_share(key: Key) -> float | None:
        value = form.published[key.error][key.method][places[key.slice]]
        return None if value is None else value / 100

    rows: list[tuple[Any, ...]] = []
    for methods in [(method,) for method in form.methods] if form.by_rows else [form.methods]:
        for name in places:
            absent = "" if is_marked or "organic" not in name else NOT_ANNOTATED
            keys = [Key(name, error, method) for error in ERRORS for method in methods]
            first = tuple(methods) if form.by_rows else ()
            rows.append(
                (
                    *first,
                    name,
                    *(_format_detection(key, cells) or absent or "not scored" for key in keys),
                )
            )
            published = [published_share(key) for key in keys]
            if any(value is not None for value in published):
                published_cells = (None if value is None else f"{value:.3f}" for value in published)
                rows.append((*first, f"{name} (published)", *published_cells))
    columns = ("test set", *(f"{_HEADS[error]}: {m}" for error in ERRORS for m in form.methods))
    if form.by_rows:
        columns = ("aggregation", "test set", *_HEADS.values())
    notes = []
    if number := comparisons(cells):
        units = "words" if form.words else "rows"
        notes.append(
            f"{MARK} the best of its test set and error, significantly better than each of the "
            f"others there: two-sided p \u2264 {SIGNIFICANT:g} by Hanley and McNeil's test with "
            f"Bonferroni's correction for all {number} comparisons of the table; the test takes "
            f"{units} as independent."
        )
    if unknown := [m for m in form.methods if m not in {key.method for key in cells}]:
        notes.append(f"Not scored: {', '.join(unknown)}, of which no classifier is given.")
    notes.append(f"Published: Chang 2024, table {form.number}, {published_form['note']}.")
    tidy = [
        (form.number, *key, d.rows, d.errors, d.cell.auc, *d.cell.interval, d.p_value, int(d.best))
        + (published_share(key),)
        for key, d in cells.items()
    ]
    title = f"{form.title} (Chang 2024, table {form.number}): ROC AUC"
    return ShownTable(title, columns, tuple(rows), tuple(notes), ShownTable("", _TIDY, tuple(tidy)))


def _format_detection(key: Key, cells: Mapping[Key, Detection]) -> str:
    """Returns a cell's text; a method that is better than all the others is marked."""
    if key not in cells:
        return ""
    cell = cells[key].cell
    if math.isnan(cell.auc):
        return cell.undefined
    rivals = [d for k, d in cells.items() if k[:2] == key[:2] and k.method != key.method]
    beats_all = cells[key].best and rivals and all(rival.significant for rival in rivals)
    return figure_text(cell.auc, cell.interval, 3, MARK if beats_all else "")
