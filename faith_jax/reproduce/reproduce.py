"""The run `reproduce`: one table of a paper from one command, by any scorers."""

import dataclasses
import json
import logging
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any

from faith_jax.core.errors import ConfigError, InputError, did_you_mean
from faith_jax.core.files import as_json, check_same, read_settings_file, write_text
from faith_jax.core.rows import BadRows
from faith_jax.export.read_scored import read_scored_rows
from faith_jax.input.score_input import ScoreInput
from faith_jax.report.tables import rendered
from faith_jax.reproduce.scorers import NEEDS_SPACY, PAPERS_OPTIONS, difference, is_missing
from faith_jax.runs.evaluate_scores import EvaluateOptions, Evaluation, evaluation, write_evaluation
from faith_jax.runs.score import score
from faith_jax.statistics.published import PUBLISHED, Published, with_published

logger = logging.getLogger("faith_jax")

# Made by `faith_jax.reproduce.pmi_table` from responses of a model.
PMI_TABLE = "pmi_decode"
# Made by `faith_jax.reproduce.npov_detection`, likewise.
NPOV_DETECTION = "npov_detection"
# The tables of the user's models, with the modules that make them.
OF_MODELS = {
    PMI_TABLE: "pmi_table",
    NPOV_DETECTION: NPOV_DETECTION,
    "faithdial": "faithdial_table",
    "faith_critic": "faith_critic",
    "nli": "nli",
    "nli_phrases": "nli_phrases",
}
ENDINGS = {"markdown": "md", "latex": "tex", "csv": "csv"}
_TRUE = ("frank", "mnbm", "summeval", "qags_c", "qags_x", "begin", "q2", "dialfact", "paws")


@dataclasses.dataclass(frozen=True)
class Recipe:
    """What a table is made of.

    Attributes:
      title: which table it is.
      datasets: (data set, config, its sample's config, split) of each scored file.
      scorers: those that need no model; others by option.
      options: of the evaluation.
      development: the split that thresholds are chosen on; "" = none.
      scorer_options: of scorers by name, with which they are the paper's.
    """

    title: str
    datasets: tuple[tuple[str, str, str, str], ...]
    scorers: tuple[str, ...]
    options: EvaluateOptions
    development: str = ""
    scorer_options: Mapping[str, Mapping[str, Any]] = dataclasses.field(default_factory=dict)


def _true(corpora: Sequence[str]) -> tuple[tuple[str, str, str, str], ...]:
    return tuple(("true_benchmark", name, f"{name}_sample", "test") for name in corpora)


_OVERLAP = ("token_f1", "rouge1_precision", "rougeL_f1", "coverage", "lexical_overlap")
_NPOV = (("npov_errors", "full", "sample", "test"),)
_DETECTORS = ("npov_rouge1_hallucination", "npov_rouge1_coverage")

RECIPES = {
    "true": Recipe(
        "Steen 2023, table 1: TRUE's nine corpora",
        _true(_TRUE),
        _OVERLAP,
        EvaluateOptions(baseline="token_f1"),
    ),
    "begin": Recipe(
        "Nandwani 2023, table 1: BEGIN",
        (("begin", "official", "sample", "validation"), ("begin", "official", "sample", "test")),
        (*_OVERLAP, "bleu", "q2_baseline_token_f1", "q2_baseline_bleu", "rougeL_f1_stemmed"),
        EvaluateOptions(protocol="begin"),
        development="validation",
        scorer_options=PAPERS_OPTIONS,
    ),
    "npov": Recipe(
        "Chang 2024, table 1: NPOV errors",
        _NPOV,
        _DETECTORS,
        EvaluateOptions(protocol="npov"),
    ),
    "npov_words": Recipe(
        "Chang 2024, table 3: words of NPOV errors",
        _NPOV,
        _DETECTORS,
        EvaluateOptions(protocol="npov_words"),
    ),
    "pronouns": Recipe(
        "Steen 2023, table 3: first-person pronouns",
        _true(("q2", "dialfact", "begin")),
        _OVERLAP,
        EvaluateOptions(protocol="pronouns"),
    ),
}


def reproduce(
    table: str,
    output: str,
    scorers: Sequence[str] = (),
    sample: bool = False,
    options: Mapping[str, Mapping[str, Any]] | None = None,
) -> str:
    """Scores what a table needs, evaluates it, and returns the table as text.

    The folder gets a scored file for each data set, which a further run with the same scorers
    keeps, and the table as TABLE.md, .tex, .csv and .json, or TABLE_sample. Figures that the paper
    prints for the same scorers stand below ours, but with samples, and but for options that make
    them other functions. Data sets of which no raw files are at hand are left out, and the log
    says so.

    Args:
      table: of `RECIPES`.
      output: the folder.
      scorers: in place of the recipe's.
      sample: of the samples inside the package.
      options: of the scorers, by name, such as their models.

    Raises:
      FaithJaxError: for an unknown table or scorer, and where no data is at hand.
    """
    if table in OF_MODELS:
        raise ConfigError(f"{table} is of a model's own; see faith_jax.runs.{OF_MODELS[table]}.")
    if table not in RECIPES:
        known = (*RECIPES, *OF_MODELS)
        raise ConfigError(
            f"There is no recipe for {table!r}.{did_you_mean(table, known)} There are: "
            f"{', '.join(known)}."
        )
    recipe, folder = RECIPES[table], pathlib.Path(output)
    left_out = [] if scorers else [name for name in recipe.scorers if is_missing(name)]
    wanted = tuple(scorers) or tuple(name for name in recipe.scorers if name not in left_out)
    chosen = {
        name: {**recipe.scorer_options.get(name, {}), **(options or {}).get(name, {})}
        for name in wanted
    }
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(f"--output: {folder}: cannot be written ({error.strerror}).") from None
    development, tested, problems = "", [], []
    for name, config, sample_config, split in recipe.datasets:
        given = ScoreInput(tfds=f"{name}/{sample_config if sample else config}", split=split)
        path = folder / f"{given.tfds.replace('/', '_')}_{split}.jsonl"
        try:
            _scored(given, chosen, path)
        except InputError as problem:
            reason = str(problem).partition(". ")[0]
            logger.warning(
                "%s is left out: %s; `faith-jax prepare %s` says more",
                path.stem,
                reason,
                given.tfds,
            )
            problems.append(problem)
            continue
        if split == recipe.development:
            development = str(path)
        else:
            tested.append(path)
    if not tested or bool(development) != bool(recipe.development):
        raise problems[0]
    settings = dataclasses.replace(recipe.options, development=development)
    if settings.baseline and settings.baseline not in wanted:
        settings = dataclasses.replace(settings, baseline="")
    found = evaluation([str(path) for path in tested], settings)
    told_of = tuple(f"{name} is left out: it needs {NEEDS_SPACY}." for name in left_out)
    notes = (*found.table.notes, *told_of)
    found = dataclasses.replace(found, table=found.table._replace(notes=notes))
    if sample:
        found = of_samples(found)
    else:
        published = _comparable(PUBLISHED[table], chosen)
        rows = [{"row": list(key), **values} for key, values in published.rows.items()]
        told = {"sample": False, "published": {"note": published.note, "rows": rows}}
        found = dataclasses.replace(
            found, table=with_published(found.table, published), figures={**found.figures, **told}
        )
    name = f"{table}_sample" if sample else table
    tables = {form: str(folder / f"{name}.{ending}") for form, ending in ENDINGS.items()}
    write_evaluation(found, str(folder / f"{name}.json"), tables)
    return rendered(found.table)


def of_samples(found: Evaluation) -> Evaluation:
    """Returns the evaluation with the warning that it is not of a paper's data."""
    table = found.table._replace(title=f"SAMPLES, not the paper's data: {found.table.title}")
    return dataclasses.replace(found, table=table, figures={"sample": True, **found.figures})


def _comparable(published: Published, scorers: Mapping[str, Mapping[str, Any]]) -> Published:
    """Returns the rows of scorers that have the paper's options, and says which have not."""
    why = {name: difference(name, given) for name, given in scorers.items()}
    rows = {key: row for key, row in published.rows.items() if not why.get(key[-1])}
    hidden = [key[-1] for key in published.rows if key not in rows]
    note = " ".join([published.note, *(f"Not beside {name}: {why[name]}." for name in hidden)])
    return Published(note, rows)


def _scored(
    given: ScoreInput, scorers: Mapping[str, Mapping[str, Any]], path: pathlib.Path
) -> None:
    """Scores a data set unless the file has it already.

    The scorers' options stand beside the file; one without them is of none.
    """
    noted = path.with_suffix(".settings.json")
    now = as_json({f"scorer-option of {name}": given for name, given in scorers.items()})
    first = next(iter(read_scored_rows(path)), None) if path.exists() else None
    if first is None:
        write_text(noted, json.dumps(now, indent=1, ensure_ascii=False) + "\n")
        score(given, scorers, str(path))
        return
    if set(first["scores"]) != set(scorers):
        raise ConfigError(f"{path} has other scorers; remove it or name another folder.")
    before = read_settings_file(noted) if noted.exists() else {name: {} for name in now}
    check_same(path.parent, before, now, path.name)
    try:
        expected = next(iter(given.rows(BadRows())), None)
    except InputError:  # the data has gone since
        expected = None
    if expected is not None:
        example = expected.example
        known = (first["corpus"], first["id"], first["generated_text"])
        if known != (expected.corpus, example.id, example.response):
            raise ConfigError(
                f"{path} is of other data than {given.tfds}; remove it or name another folder."
            )
    logger.info("%s is kept", path)
