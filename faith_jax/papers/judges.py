"""Tables of judged responses: their scorers, with the options that the papers use.

A paper's figure is shown below ours only if ours is computed as in the paper.
"""

from collections.abc import Mapping
from typing import Any, ClassVar, NamedTuple

from faith_jax.core.errors import ConfigError
from faith_jax.papers.options import PAPERS_OPTIONS, Judged, absolute_values
from faith_jax.papers.tables import read_published_figures
from faith_jax.papers.workflow import (
    CountRows,
    Scores,
    TableWorkflow,
    leave_accelerators,
    list_opened_checkpoints,
    scorer_flags,
)
from faith_jax.runs.options import scorer_options
from faith_jax.statistics.texts.text_metrics import has_spacy

_SPACY = "q2_baseline_token_f1"
NEEDS_SPACY = "spaCy (pip install 'faith_jax[augmentation]')"
_Q2 = ("q2_f1", "q2_nli")


class Scored(NamedTuple):
    """A scorer of a table's responses.

    Attributes:
      name: name of the scorer.
      needs: text on the models that the scorer needs; "" = none.
      against: the column that responses are compared with.
    """

    name: str
    needs: str = ""
    against: str = "knowledge"


def _scorers_with_models(options: Judged) -> dict[str, dict[str, Any]]:
    """Returns the options of scorers with a model; raises a ConfigError on options of others."""
    by_scorer = {}
    for name, further_options in scorer_options(options.judges, options.scorer_option).items():
        models = {"model": getattr(options, options.judges[name])}
        if name in _Q2:
            models |= {"answer_model": options.q2_answer_model, "nli_model": options.q2_nli_model}
        options_of_scorer = {key: path for key, path in models.items() if path} | further_options
        if not options_of_scorer:
            continue
        if name in _Q2 and not (
            options_of_scorer.get("model") and options_of_scorer.get("nli_model")
        ):
            lacking = "--q2-nli-model" if options_of_scorer.get("model") else "--q2-model"
            raise ConfigError(
                f"{name} needs a model that asks questions (--q2-model) and one of natural "
                f"language inference (--q2-nli-model); {lacking} is not given."
            )
        if "model" not in options_of_scorer:
            raise ConfigError(f"--scorer-option: {name} is not scored without a model of its own.")
        by_scorer[name] = absolute_values(options_of_scorer)
    return by_scorer


def check_scorers(options: Judged) -> None:
    """Loads the scorers that have a model, so that their errors are raised first."""
    from faith_jax.scoring.registry import load_scorer

    leave_accelerators()
    for name, options_of_scorer in _scorers_with_models(options).items():
        load_scorer(name, **options_of_scorer)


class JudgedTable(TableWorkflow):
    """A table of systems that respond to data sets, and are judged by scorers.

    Attributes:
      title: title of the table.
      judged_by: the scorers that judge responses.
      columns: fields of `faith_jax.statistics.systems.Column`, by the column's name.
      corpora: the data sets; the name of a step of responses begins with one of them.
    """

    title: ClassVar[str]
    judged_by: ClassVar[tuple[Scored, ...]]
    columns: ClassVar[Mapping[str, Mapping[str, Any]]]

    def __init__(self, options: Any, rows: CountRows):
        super().__init__(options, rows)
        self.scorers = as_published(_scorers_with_models(options))
        self.corpora: list[str] = []

    def missing(self) -> dict[str, str]:
        """Returns the scorers that cannot be computed, with what they need."""
        needs = {
            scorer.name: scorer.needs
            for scorer in self.judged_by
            if scorer.needs and scorer.name not in self.scorers
        }
        return needs | {
            scorer.name: NEEDS_SPACY for scorer in self.judged_by if is_missing(scorer.name)
        }

    def scorers_of(self, corpus: str) -> dict[str, list[str]]:
        """Returns a data set's available scorers by the column that they compare responses with."""
        missing = self.missing()
        by_reference: dict[str, list[str]] = {}
        for scorer in self.judged_by:
            if scorer.name not in missing:
                by_reference.setdefault(scorer.against, []).append(scorer.name)
        return by_reference

    def add_scores(self) -> None:
        """Adds the steps that score all responses."""
        for corpus in self.corpora:
            files = [
                f"responses/{name}/predictions.jsonl"
                for name in self.responses
                if name.startswith(f"{corpus}/")
            ]
            for against, names in self.scorers_of(corpus).items() if files else ():
                options = {name: self.scorers.get(name, {}) for name in names}
                arguments = [
                    *(f"--input={file}" for file in files),
                    f"--corpus={corpus}",
                    f"--grounding-column={against}",
                    *scorer_flags(options),
                ]
                self.scores[f"{corpus}/{against}"] = Scores(
                    arguments, files, list_opened_checkpoints(options)
                )

    def comparisons(self) -> list[tuple[str, str]]:
        """Returns pairs of systems and baselines."""
        return []

    def evaluation(self) -> list[str]:
        """See `TableWorkflow`."""
        pairs = (f"--compare={system}:{base}" for system, base in self.comparisons())
        return ["--protocol=systems", *pairs]

    def notes(self) -> list[str]:
        """Returns notes on the figures; tables override this."""
        return []

    def layout(self) -> dict[str, Any]:
        """See `TableWorkflow`."""
        missing, title, options = self.missing(), self.title, self.options
        if options.limit:
            title += f", first {options.limit:,} rows of each data set"
        notes = self.notes() + [
            f"{column} is left out: it needs {missing[settings['scorer']]}."
            for column, settings in self.columns.items()
            if settings.get("scorer") in missing
        ]
        column_settings = {
            name: dict(settings)
            for name, settings in self.columns.items()
            if settings.get("scorer") not in missing
        }
        if options.sample:
            title = f"SAMPLES, not the paper's data: {title}"
            return {"title": title, "columns": column_settings, "notes": notes}
        differing = {
            name: why
            for name, settings in column_settings.items()
            if (
                why := difference(
                    settings.get("scorer", ""), self.scorers.get(settings.get("scorer", ""), {})
                )
            )
        }
        published = read_published_figures(options.module)
        figures = {
            corpus: {
                system: {name: value for name, value in row.items() if name not in differing}
                for system, row in systems.items()
            }
            for corpus, systems in published["published"].items()
        }
        notes += [
            *published["notes"],
            *(f"No published {c}: {why}." for c, why in differing.items()),
        ]
        return {"title": title, "columns": column_settings, "notes": notes, "published": figures}


def as_published(scorers: Mapping[str, Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
    """Returns scorers' options, with `PAPERS_OPTIONS` as defaults."""
    return {
        name: {**PAPERS_OPTIONS.get(name, {}), **its_options}
        for name, its_options in scorers.items()
    }


def difference(name: str, options: Mapping[str, Any]) -> str:
    """Returns why a scorer's figures are not comparable with a paper's; "" if they are.

    `options` are all options that the scorer is loaded with.
    """
    for option, value in _paper_options(name).items():
        if options.get(option, value) != value:
            return f"{name}.{option} is {options[option]!r}, the paper's {value!r}"
    if name == "bertscore" and not options.get("baseline"):
        return "bertscore.baseline=FILE is not given, by which the paper's is rescaled"
    return ""


def _paper_options(name: str) -> Mapping[str, Any]:
    """Returns the papers' values of options that change what a scorer computes."""
    if name == "bertscore":
        return {"lower_grounding": True, "part": "f1", "idf": None}
    if name in _Q2:
        return {"personal": False}
    if name == "pmi_faith_mean":
        from faith_jax.scoring.pmi_faith import PromptFormat  # imports JAX

        prompt = PromptFormat()
        parts = ("document", "turn", "cue", "response")
        prompts = {f"{part}_prompt": getattr(prompt, part) for part in parts}
        return {"score_cue": True, "last_turns": prompt.last_turns, **prompts}
    return {}


def is_missing(name: str) -> bool:
    """Whether a scorer needs a package that is not installed; see `NEEDS_SPACY`."""
    return name == _SPACY and not has_spacy()
