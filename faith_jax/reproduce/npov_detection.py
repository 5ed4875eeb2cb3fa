"""Chang 2024's study of error detection: tables 1, 2, 3, 5 and 6 for any generator.

`npov_detection.smk` has the generator respond, puts errors into the responses, and scores these by
ROUGE, salience and classifiers; this page makes the tables of the scores.
"""

import json
import math
import pathlib
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from typing import Any, NamedTuple

from faith_jax.checkpoints import embedded
from faith_jax.core.errors import ConfigError, counted
from faith_jax.core.files import checkpoint_state, write_text
from faith_jax.core.rows import read_jsonl
from faith_jax.core.table import MARK, Table, figure_text
from faith_jax.datasets import npov
from faith_jax.datasets.npov.choices import (
    draw_combinations,
    temperatures_note,
)
from faith_jax.export.read_scored import read_scored_rows
from faith_jax.report.tables import rendered, table_page
from faith_jax.reproduce.faithdial import check_names
from faith_jax.reproduce.workflow import run_workflow
from faith_jax.runs.data.npov_sets import (
    NOT_ANNOTATED,
    SAMPLE,
    check_errors_per_response,
    read_summary,
    read_topics,
    topics_folder,
)
from faith_jax.runs.options import NpovCombinations, NpovErrors, NpovTopics
from faith_jax.statistics.npov_detection import ERRORS, Detection, Key, comparisons, detections
from faith_jax.statistics.salience_scores import AGGREGATIONS
from faith_jax.statistics.scored_corpora import Corpus, read_corpora
from faith_jax.statistics.significance import SIGNIFICANT

NAME = "npov_detection"
# Classifiers by what they are trained on (section 5.2 and appendix B.1); table 1 has MAIN's.
TRAINED_ON = ("synth", "para", "dev", "org", "annotation_free")
MAIN = "dev"
_FEW_TOPICS = 10  # a cluster needs company


@dataclass(frozen=True, kw_only=True)
class Options(NpovErrors, NpovCombinations, NpovTopics):
    """What the study is made of; numbers are the paper's where it has them.

    Attributes:
      model: the generator, any checkpoint of a language model.
      vocabulary: its tokenizer's folder or file, or an embedded name; "" = what it carries.
      hallucination_model: the classifier of table 1, a folder; "" = that of `classifiers["dev"]`.
      coverage_model: likewise.
      classifiers: for each of `TRAINED_ON` two folders, for hallucination and for coverage.
      salience_model: whose gradients are taken; "" = the generator's.
      max_length: tokens of a response at most.
      max_input_length: tokens of an input at most; the rest is cut at its end.
      batch_size: rows decoded at once.
      resamples: of the bootstrap.
    """

    model: str = ""
    vocabulary: str = ""
    hallucination_model: str = ""
    coverage_model: str = ""
    classifiers: Mapping[str, Sequence[str]] = field(default_factory=dict)
    salience_model: str = ""
    max_length: int = 256
    max_input_length: int = 512
    batch_size: int = 16
    resamples: int = 1000

    def check(self) -> None:
        """Checks what is wrong with options, models and topics before anything is decoded.

        Raises:
          FaithJaxError: naming the option.
        """
        if not self.model:
            raise ConfigError(f"{NAME} needs a generator: give --model=CHECKPOINT.")
        check_names("splits", self.splits, npov.SPLITS)
        check_names("classifiers", self.classifiers, TRAINED_ON)
        if "test" not in self.splits:
            raise ConfigError("--splits: the tables are of test topics; name test too.")
        for name in ("combinations", "max_length", "max_input_length", "batch_size"):
            if (value := getattr(self, name)) < 1:
                option = name.replace("_", "-")
                raise ConfigError(f"--{option}: expected a positive number, got {value}.")
        from faith_jax.runs.setup import check_language_model  # imports JAX

        given = {"--model": self.model, "--salience-model": self.salience_model}
        given |= {f"--{error}-model": getattr(self, f"{error}_model") for error in ERRORS}
        for name, pair in self.classifiers.items():
            given |= {f"--classifiers {name}, {e}": p for e, p in zip(ERRORS, pair, strict=True)}
        topics = read_topics(self.knowledge, self.splits)
        for topic in topics:
            draw_combinations(topic, 1)
        if (errors := self.errors_per_response) is not None:
            check_errors_per_response(topics, self.combinations, errors, self.seed)
        for option, path in given.items():
            if path:
                check_language_model(option, path)

    def classifiers_of(self, error: str) -> dict[str, str]:
        """Returns an error's classifiers by what they are trained on; table 1's has the name ""."""
        found = {name: pair[ERRORS.index(error)] for name, pair in self.classifiers.items()}
        main = getattr(self, f"{error}_model") or found.get(MAIN, "")
        return {name: path for name, path in {"": main, **found}.items() if path}


class Study:
    """What the workflow does, in names of its files.

    Attributes:
      detectors: by the name of a scored file its scorers, with their options.
      topics: the file.
      marks: the file, or nothing.
    """

    def __init__(self, options: Options):
        self.options = options
        self.topics = str(topics_folder(options.knowledge) / npov.TOPICS_FILE)
        self.marks = [options.marks] if options.marks else []
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
            for trained_on, path in options.classifiers_of(error).items():
                name = "_".join(filter(None, (f"npov_{error}", trained_on)))
                self.detectors[name] = {f"{name}=npov_{error}": {"model": path}}

    @property
    def input_flags(self) -> str:
        """The options of `npov inputs`."""
        return self._flags(NpovTopics, NpovCombinations)

    @property
    def set_flags(self) -> str:
        """The options of `npov sets`."""
        return self._flags(NpovTopics, NpovErrors)

    def _flags(self, *classes: type) -> str:
        given = {f.name: getattr(self.options, f.name) for c in classes for f in fields(c)}
        return shlex.join(
            f"--{name.replace('_', '-')}={','.join(it) if name == 'splits' else it}"
            for name, it in given.items()
            if it not in ("", None)
        )

    def decoding_bindings(self, temperature: str) -> dict[str, Any]:
        """Returns the gin macros of the responses at a temperature."""
        options = self.options
        found: dict[str, Any] = {
            "CHECKPOINT_PATH": options.model,
            "TEMPERATURE": float(temperature),
            "DECODE_LENGTH": options.max_length,
            "MAX_INPUT_LENGTH": options.max_input_length,
            "BATCH_SIZE": options.batch_size,
            "RANDOM_SEED": options.seed,
            "FORMATS": ("jsonl",),
        }
        return found | ({"VOCABULARY": options.vocabulary} if options.vocabulary else {})

    @staticmethod
    def state(model: str) -> str:
        """Returns what changes with the files of a model, so that its step runs again."""
        return checkpoint_state(str(embedded.checkpoint_path(model)))

    def states(self, detector: str) -> list[str]:
        """Returns the states of a detector's models."""
        models = {given["model"] for given in self.detectors[detector].values() if given}
        return [self.state(model) for model in sorted(models)]


def npov_detection(options: Options, output: str, given: Mapping[str, Any]) -> str:
    """Runs the study, writes the tables, and returns them as text.

    The tables are npov_detection.md, .tex, .csv, .json and .html; of the sample's topics
    npov_detection_sample.

    Args:
      options: of the study; paths are absolute.
      output: the folder.
      given: `cores`, `dry_run` and `snakemake`, where they were given.

    Raises:
      FaithJaxError: for a wrong option, checkpoint or topic, and where a step fails.
    """
    options.check()
    told = {"options": asdict(options)}
    is_dry = bool(given.get("dry_run"))
    run_workflow(NAME, told, output, given.get("cores", 0), is_dry, given.get("snakemake", ()))
    return "" if is_dry else tables_of(options, pathlib.Path(output))


def tables_of(options: Options, folder: pathlib.Path) -> str:
    """Writes the tables of a folder's scores, and returns them as text."""
    paths = [folder / "scored" / f"{name}.jsonl" for name in Study(options).detectors]
    corpora = read_corpora({str(path): read_scored_rows(path) for path in paths})
    told, tables = read_summary(folder / "data")
    form = json.loads(pathlib.Path(__file__).with_suffix(".json").read_text(encoding="utf-8"))
    drawn = options.resamples, options.seed, "topic"
    for given in form["tables"]:
        one = Form(**given)
        found = detections(corpora, one.scorers(), one.words, *drawn)
        tables.append(detection_table(one, found, form, bool(options.marks)))
    notes = list(_notes(folder, corpora, told, options))
    return _written(folder, tables, notes, options)


class Form(NamedTuple):
    """One of the paper's tables.

    Attributes:
      number: in the paper.
      title: what it shows.
      methods: the names of each method's scores, with {error} for the error.
      published: by error and method the paper's figures in per cent, a test set each.
      words: whether it is of words.
      by_rows: whether methods are rows and not columns.
    """

    number: int
    title: str
    methods: Mapping[str, str]
    published: Mapping[str, Mapping[str, Sequence[float | None]]]
    words: bool = False
    by_rows: bool = False

    def scorers(self) -> dict[str, dict[str, str]]:
        """Returns the names of each method's scores by error."""
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
    form: Form, found: Mapping[Key, Detection], told: Mapping[str, Any], is_marked: bool
) -> Table:
    """Returns one of the tables, with the paper's figures below ours.

    Args:
      form: of the table.
      found: its cells.
      told: the names of all test sets, and what to know of the paper's figures.
      is_marked: whether there are test sets of organic errors.
    """
    places = {name: place for place, name in enumerate(told["test_sets"])}

    def theirs(key: Key) -> float | None:
        value = form.published[key.error][key.method][places[key.slice]]
        return None if value is None else value / 100

    rows: list[tuple[Any, ...]] = []
    for methods in [(method,) for method in form.methods] if form.by_rows else [form.methods]:
        for name in places:
            absent = "" if is_marked or "organic" not in name else NOT_ANNOTATED
            keys = [Key(name, error, method) for error in ERRORS for method in methods]
            first = tuple(methods) if form.by_rows else ()
            rows.append(
                (*first, name, *(_text(key, found) or absent or "not scored" for key in keys))
            )
            published = [theirs(key) for key in keys]
            if any(value is not None for value in published):
                shown = (None if value is None else f"{value:.3f}" for value in published)
                rows.append((*first, f"{name} (published)", *shown))
    columns = ("test set", *(f"{_HEADS[error]}: {m}" for error in ERRORS for m in form.methods))
    if form.by_rows:
        columns = ("aggregation", "test set", *_HEADS.values())
    notes = []
    if number := comparisons(found):
        what = "words" if form.words else "rows"
        notes.append(
            f"{MARK} the best of its test set and error, significantly better than each of the "
            f"others there: two-sided p \u2264 {SIGNIFICANT:g} by Hanley and McNeil's test with "
            f"Bonferroni's correction for all {number} comparisons of the table; the test takes "
            f"{what} as independent."
        )
    if unknown := [m for m in form.methods if m not in {key.method for key in found}]:
        notes.append(f"Not scored: {', '.join(unknown)}, of which no classifier is given.")
    notes.append(f"Published: Chang 2024, table {form.number}, {told['note']}.")
    tidy = [
        (form.number, *key, d.rows, d.errors, d.cell.auc, *d.cell.interval, d.p_value, int(d.best))
        + (theirs(key),)
        for key, d in found.items()
    ]
    title = f"{form.title} (Chang 2024, table {form.number}): ROC AUC"
    return Table(title, columns, tuple(rows), tuple(notes), Table("", _TIDY, tuple(tidy)))


def _text(key: Key, found: Mapping[Key, Detection]) -> str:
    """Returns a cell; marked is the best method where it is better than each of the others."""
    if key not in found:
        return ""
    cell = found[key].cell
    if math.isnan(cell.auc):
        return "one class"
    others = [d for k, d in found.items() if k[:2] == key[:2] and k.method != key.method]
    beats_all = found[key].best and others and all(other.significant for other in others)
    return figure_text(cell.auc, cell.interval, 3, MARK if beats_all else "")


def _notes(
    folder: pathlib.Path, corpora: Mapping[str, Corpus], told: Sequence[str], options: Options
) -> Iterator[str]:
    """Yields what the figures are of, and what is missing."""
    cut = [row["inputs_cut_tokens"] > 0 for _, row in read_jsonl(folder / "responses.jsonl")]
    yield (
        f"Generator: {options.model}; {counted(len(cut), 'response')}, "
        f"{temperatures_note(options.combinations)}."
    )
    if any(cut):
        yield f"{counted(sum(cut), 'input')} cut at {options.max_input_length} tokens."
    yield from told
    topics = len({topic for corpus in corpora.values() for topic in corpus.field("topic")})
    yield (
        f"Intervals: 95% percentile bootstrap over topics ({topics}), whose rows are drawn "
        f"together, {counted(options.resamples, 'resample')}."
    )
    if topics < _FEW_TOPICS:
        yield f"So few topics ({topics}) say little: figures may change much."
    yield f"Salience is of {options.salience_model or options.model}."
    for error in ERRORS:
        models = options.classifiers_of(error)
        if "" not in models:
            yield (
                f"No classifier for {error} is given for table 1 (--{error}-model, or dev of "
                "--classifiers): its cells say that they are not scored."
            )
        for trained_on, path in models.items():
            yield f"Classifier for {error}{f', {trained_on}' if trained_on else ''}: {path}."


def _written(
    folder: pathlib.Path, tables: Sequence[Table], notes: Sequence[str], options: Options
) -> str:
    """Writes the tables in all forms, and returns them as text."""
    is_sample = options.knowledge == SAMPLE
    title = "Detection of hallucinations and coverage errors (Chang 2024)"
    title = f"SAMPLES, not the paper's data: {title}" if is_sample else title
    tidy = Table("", _TIDY, tuple(row for table in tables if table.tidy for row in table.tidy.rows))
    told = {
        **{"title": title, "notes": notes, "sample": is_sample, "model": options.model},
        "rows": tidy.records(),
        "tables": [
            {"title": table.title, "notes": list(table.notes), "rows": table.records()}
            for table in tables
        ],
    }
    markdown, latex, shown = (
        "\n".join(rendered(table, form) for table in tables)
        for form in ("markdown", "latex", "text")
    )
    listed = "".join(f"\n{note}\n" for note in notes)
    for ending, text in {
        "md": f"# {title}\n{listed}\n{markdown}",
        "tex": latex,
        "csv": rendered(tidy, "csv"),
        "json": json.dumps(told, indent=1, ensure_ascii=False) + "\n",
        "html": table_page(title, notes, tables),
    }.items():
        write_text(folder / f"{NAME}{'_sample' if is_sample else ''}.{ending}", text)
    return f"{title}\n" + "".join(f"{note}\n" for note in notes) + f"\n{shown}"
