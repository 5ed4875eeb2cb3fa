"""DialFact's tables (Gupta 2022, tables 2 to 8, 10 to 12 and figure 2).

Verifiers score the claims of test and validation with the annotators' evidence (oracle), with
evidence that the workflow finds in a knowledge base (Wiki and DPR), and with another retriever's.
"""

import collections
import itertools
import json
import math
import pathlib
import re
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np

from faith_jax.core.errors import ConfigError, FaithJaxError
from faith_jax.core.labels import DialFactLabel, DialFactType, verification_label
from faith_jax.core.rows import Row
from faith_jax.core.table import DASH, figure_text
from faith_jax.core.table import Table as Rows
from faith_jax.datasets.augmentation.tagging import load_tagger
from faith_jax.datasets.samples import SAMPLE, sample_folder
from faith_jax.export.read_scored import read_scored_rows
from faith_jax.input.score_input import tfds_rows
from faith_jax.papers import workflow
from faith_jax.papers.dialfact.options import Dialfact
from faith_jax.papers.dialfact.verification import (
    best_ordered_thresholds,
    confusion_table,
    read_predictions,
    verification_table,
)
from faith_jax.papers.options import absolute_values
from faith_jax.papers.tables import read_published_figures
from faith_jax.papers.workflow import (
    CountRows,
    Scores,
    describe_step,
    leave_accelerators,
    list_opened_checkpoints,
    model_state,
    scorer_flags,
)
from faith_jax.retrieval.documents import BM25
from faith_jax.retrieval.knowledge_base import KnowledgeBase
from faith_jax.runs import options as run_options
from faith_jax.runs.data.find_evidence import SENTENCES
from faith_jax.runs.options import EvaluateOptions
from faith_jax.runs.scores.evaluate_scores import evaluation
from faith_jax.scoring.claims import CLAIM_ONLY
from faith_jax.scoring.registry import load_scorer
from faith_jax.statistics.bootstrap import EQUAL_RESAMPLES
from faith_jax.statistics.dataset_statistics import bias_table
from faith_jax.statistics.texts.text_metrics import SPACY, has_spacy

SPLITS = TEST, VALIDATION = "test", "validation"
ORACLE, RETRIEVED = "oracle", "retrieved"
# Evidence that the workflow finds, by the retriever of its documents: names of articles, like the
# paper's WikiAPI, and dense vectors, like its DPR.
WIKI, DPR, FUSED = "Wiki", "DPR", "fused"
_RETRIEVERS = {WIKI: "entities", DPR: "dense"}
FOUND = "dialfact/retrieved"
# Data sets by their kind of evidence, and the samples.
DATA = {ORACLE: "dialfact/official", RETRIEVED: "dialfact/retrieved"}
_SAMPLES = {ORACLE: "dialfact/sample", RETRIEVED: "dialfact/retrieved_sample"}
MINI, NEUTRAL, LEXICAL, NOTHING = "mini_nli", "nli_neutral", "lexical_overlap", "not_enough_info"
BASELINES = "baselines"  # the file of scores that need no verifier from the user
# The premise that table 3's classifier reads, by the name of its scores.
_PREMISES = {
    NEUTRAL: "grounding",
    f"{NEUTRAL}_last_turn": "last_turn",
    f"{NEUTRAL}_speaker_turns": "speaker_turns",
}
_PREMISE_NAMES = {
    "grounding": "the evidence",
    "last_turn": "the last turn",
    "speaker_turns": "the speaker's earlier turns",
}
# The score added to the overlap of words: that claims are neutral, or (-) that they are not.
_SUMS = {f"{LEXICAL} + {part}": part for name in _PREMISES for part in (name, f"-{name}")}
_PROBABILITIES = tuple(f"claim_{label.name.lower()}" for label in DialFactLabel)
# Labels in the order of rising overlap of a claim's words with its evidence.
_NOTHING = DialFactLabel.NOT_ENOUGH_INFO.value
_RISING = (DialFactLabel.NOT_ENOUGH_INFO, DialFactLabel.REFUTES, DialFactLabel.SUPPORTS)
_NAME = re.compile(r"\w[\w.+-]*")
FILES = {TEST: "test_split.jsonl", VALIDATION: "valid_split.jsonl"}
_BOTH = "claim and context"
_CONTEXTS = {"claim only": ("claim_only", 0), _BOTH: ("ctx", 2)}
_TIDY = ("table", "system", "column", "figure", "claims", "value", "low", "high", "published")


class VerifierTable(NamedTuple):
    """A table of verifiers.

    `figure` is 3-way, 2-way or factual. `columns` maps headings to the evidence and the group of
    claims: all, generated or written.
    """

    title: str
    split: str
    figure: str
    columns: Mapping[str, tuple[str, str]]


_BY_EVIDENCE = {name: (name, "all") for name in (ORACLE, WIKI, DPR, RETRIEVED)}
FORMS = {
    "6": VerifierTable("Verification of claims by evidence, test", TEST, "3-way", _BY_EVIDENCE),
    "7": VerifierTable("Variants of verifiers by evidence, test", TEST, "3-way", _BY_EVIDENCE),
    "8": VerifierTable(
        "Verification of generated and written claims by oracle evidence, test",
        TEST,
        "3-way",
        {group: (ORACLE, group) for group in ("generated", "written")},
    ),
    "10": VerifierTable(
        "Verification of claims by evidence, validation", VALIDATION, "3-way", _BY_EVIDENCE
    ),
    "11": VerifierTable(
        "Verification of factual claims by evidence, test", TEST, "factual", _BY_EVIDENCE
    ),
    "12": VerifierTable("SUPPORTS or not, by evidence, test", TEST, "2-way", _BY_EVIDENCE),
}


def _search_step_name(split: str, name: str, context: str) -> str:
    """Returns the name of a step that searches for evidence."""
    return f"{split}/{name}_{context}"


def _verifiers_of(options: Dialfact) -> dict[str, dict[str, Any]]:
    """Returns the options of the verifiers' scorers, and of table 3's classifier."""
    folders = {MINI: MINI, NEUTRAL: options.neutral_model} | options.verifiers | options.variants
    scorer_options = run_options.scorer_options(folders, options.scorer_option, "the verifiers")
    return {
        name: {"model": folder} | absolute_values(scorer_options[name])
        for name, folder in folders.items()
    }


RULES = pathlib.Path(__file__).with_name("dialfact.smk")


def check(options: Dialfact) -> None:
    """Checks names, and opens models and knowledge base; a ConfigError names the option."""
    for name in (*options.verifiers, *options.variants):
        if name in (MINI, NEUTRAL, LEXICAL, NOTHING, BASELINES) or not _NAME.fullmatch(name):
            raise ConfigError(
                f"--verifiers: {name!r} cannot be a verifier's name: expected letters, digits and "
                "._+-, and no baseline's name."
            )
    for name in options.variants:
        if name in options.verifiers or not _bases_of(name, options):
            raise ConfigError(
                f"--variants: {name!r}: expected a name that begins with that of a verifier "
                f"({', '.join(options.verifiers) or 'none is given'}), such as Aug-WoW-noctx."
            )
    if bool(options.knowledge_base) != bool(options.claims):
        lacking = "--claims" if options.knowledge_base else "--knowledge-base"
        raise ConfigError(f"tables 4 and 5 need --knowledge-base and --claims; give {lacking}.")
    for option in ("vectors", "evidence_model", "validation_claims"):
        if getattr(options, option) and not options.knowledge_base:
            raise ConfigError(f"--{option.replace('_', '-')}: goes with --knowledge-base.")
    load_tagger(options.tagger)
    if options.knowledge_base:
        KnowledgeBase.open(options.knowledge_base)
    leave_accelerators()
    for name, verifier_options in _verifiers_of(options).items():
        try:
            load_scorer(NEUTRAL if name == NEUTRAL else _PROBABILITIES[0], **verifier_options)
        except FaithJaxError as error:
            option = "--neutral-model" if name == NEUTRAL else f"--verifiers: {name}"
            raise ConfigError(f"{option}: {error}") from None


def _bases_of(variant: str, options: Dialfact) -> list[str]:
    """Returns the verifiers whose name is a prefix of a variant's name."""
    return [name for name in options.verifiers if variant.startswith(name)]


class Table(workflow.TableWorkflow):
    """The workflow: each verifier scores each split with each evidence."""

    nothing = "dialfact: no claims"

    def __init__(self, options: Dialfact, rows: CountRows):
        super().__init__(options, rows)
        names = _SAMPLES if options.sample else DATA
        self.verifiers = _verifiers_of(options)
        neutral = self.verifiers.pop(NEUTRAL)
        self.searches = dict(self._build_search_steps(options))
        self.verdicts: dict[str, Scores] = {}
        self.confusions: dict[tuple[str, str], Rows] = {}
        # Data sets by split and evidence.
        self.data: dict[tuple[str, str], str] = {}
        for split in SPLITS:
            for evidence, data in names.items():
                if rows(data, split):
                    self.data[split, evidence] = data
                else:
                    self.left_out.append(f"{split} with {evidence} evidence (no data)")
        # The claims that verifiers score: a data set, or the step that finds the evidence.
        sources: dict[tuple[str, str], str] = dict(self.data)
        for split, evidence in itertools.product(SPLITS, _RETRIEVERS):
            step = _search_step_name(split, evidence, "ctx")
            if step in self.searches and (split, ORACLE) in self.data:
                sources[split, evidence] = step
        self.evidence = list(sources)
        for (split, evidence), source in sources.items():
            is_found = evidence in _RETRIEVERS
            for verifier, verifier_options in self.verifiers.items():
                if verifier_options.get("form") == CLAIM_ONLY and evidence != ORACLE:
                    continue
                scorers: dict[str, Mapping[str, Any]] = dict.fromkeys(
                    _PROBABILITIES, verifier_options
                )
                if verifier == MINI:
                    scorers |= {LEXICAL: {"normalization": SPACY} if has_spacy() else {}}
                    scorers |= {
                        f"{name}={NEUTRAL}": neutral | {"premise": premise}
                        for name, premise in _PREMISES.items()
                    }
                arguments = [
                    f"--tfds={FOUND if is_found else source}@{split}",
                    *scorer_flags(scorers),
                    "--perspective-column=evidence_titles",
                    "--label-column=type_label",
                    "--label-values=factual=1,personal=0",
                    "--skip-bad-rows",  # claims without evidence
                ]
                steps = self.verdicts if is_found else self.scores
                inputs = [f"found/{source}"] if is_found else []
                name = f"{split}/{evidence}/{BASELINES if verifier == MINI else verifier}"
                steps[name] = Scores(arguments, inputs, list_opened_checkpoints(scorers))

    def _build_search_steps(self, options: Dialfact) -> Iterator[tuple[str, dict[str, Any]]]:
        """Yields the steps that search for evidence, with their names."""
        base = options.knowledge_base
        claims = {TEST: options.claims, VALIDATION: options.validation_claims}
        if options.sample and not base:
            base, claims[TEST] = "knowledge", SAMPLE
        retriever_names = {
            name: retriever
            for name, retriever in _RETRIEVERS.items()
            if retriever != "dense" or options.vectors
        }
        names = ("vectors", "question_model", "evidence_model")
        paths = {name: path for name in names if (path := getattr(options, name))}
        state = [model_state(path) for name, path in paths.items() if name != "vectors"]
        searches = [
            (TEST, name, context)
            for name in (FUSED, *retriever_names)
            for context in _CONTEXTS.values()
        ]
        searches += [(VALIDATION, name, _CONTEXTS[_BOTH]) for name in retriever_names]
        for split, name, (context, turns) in searches:
            if not claims[split]:
                continue
            retrievers = (
                [*retriever_names.values(), BM25] if name == FUSED else [retriever_names[name]]
            )
            arguments = [
                *(claims[split], base, f"--retrievers={','.join(retrievers)}"),
                f"--context-turns={turns}",
                f"--documents={options.dense_documents if name == DPR else options.documents}",
                f"--tagger={options.tagger}",
                *(f"--{option.replace('_', '-')}={path}" for option, path in paths.items()),
            ]
            is_sample = claims[split] == SAMPLE
            # `prepare` expects DialFact's file names.
            raw = sample_folder("dialfact") / FILES[split] if is_sample else claims[split]
            step = {
                "arguments": shlex.join(arguments),
                "inputs": [base, *([] if is_sample else [claims[split]])],
                "state": state,
                "claims": str(raw),
                "files": [FILES[split], FILES[split].replace("_split", "_evidence")],
            }
            yield _search_step_name(split, name, context), step

    def steps(self) -> dict[str, Any]:
        """See `workflow.TableWorkflow`."""
        steps = super().steps()
        outputs = [
            *steps["made"],
            *(f"evidence/{name}.json" for name in self.searches),
            *(f"verdicts/{name}.jsonl" for name in self.verdicts),
        ]
        verdicts = {name: describe_step(step) for name, step in self.verdicts.items()}
        return {**steps, "made": outputs, "evidence": self.searches, "verify": verdicts}

    def write(self, folder: pathlib.Path) -> None:
        """Writes the tables as dialfact.md, .tex, .csv and .json; samples as dialfact_sample."""
        published = {} if self.options.sample else read_published_figures(__name__)
        figures = {key: self._evaluate_verifiers(folder, *key) for key in self.evidence}
        tables = [self._build_bigram_table()] if (TEST, ORACLE) in self.data else []
        tables += [*self._build_verifiable_table(folder), *self._build_recall_tables(folder)]
        tables += [
            table
            for number, form in FORMS.items()
            if (
                table := _build_verifier_table(
                    number, form, figures, published, self._shows_system(number)
                )
            ).rows
        ]
        if confusion := self.confusions.get((TEST, ORACLE)):
            number, is_shown = "figure 2", self._shows_system("6")
            tidy = [
                (number, system, label, call, claims, share, None, None, None)
                for system, label, call, claims, _, share in (confusion.tidy or confusion).rows
                if is_shown(system)
            ]
            tables.append(
                confusion._replace(
                    title=f"{confusion.title}; oracle evidence, test",
                    rows=tuple(row for row in confusion.rows if is_shown(row[0])),
                    # The paper's remarks on its figure.
                    notes=(published["notes"][number],) if published else (),
                    tidy=Rows("", _TIDY, tuple(tidy)),
                )
            )
        title = "Fact-checking in dialogue (Gupta 2022)"
        notes, further = list(self._collect_table_notes()), {"verifiers": self.verifiers}
        self.write_tables(folder, title, notes, tables, further)

    def _build_bigram_table(self) -> Rows:
        """Returns table 2, for the refuted claims of test."""
        claims = [dict(row.fields) for row in tfds_rows(self.data[TEST, ORACLE], TEST)]
        biases = bias_table(claims, "response", "response_label")
        rows = [row[1:] for row in biases.rows if row[0] == DialFactLabel.REFUTES.value]
        tidy = [
            ("2", bigram, "REFUTES", figure, count, value, None, None, None)
            for bigram, *values, count in rows
            for figure, value in zip(("lmi", "probability"), values, strict=True)
        ]
        title = "Bigrams that give REFUTES away (Gupta 2022, table 2)"
        return Rows(title, biases.columns[1:], tuple(rows), (), Rows("", _TIDY, tuple(tidy)))

    def _build_verifiable_table(self, folder: pathlib.Path) -> Iterator[Rows]:
        """Yields table 3 if both splits have claims of both kinds with evidence."""
        rows, tidy, notes = [], [], []
        for evidence in (ORACLE, RETRIEVED):
            if not {(TEST, evidence), (VALIDATION, evidence)} <= set(self.data):
                continue
            files = {s: folder / f"scores/{s}/{evidence}/{BASELINES}.jsonl" for s in SPLITS}
            kinds = [{row["label"] for row in read_scored_rows(path)} for path in files.values()]
            if any(len(kind) < 2 for kind in kinds):
                notes.append(f"{evidence}: all claims with evidence are of one kind.")
                continue
            options = EvaluateOptions(
                protocol="verifiable",
                scorers=(LEXICAL, *_PREMISES),
                development=str(files[VALIDATION]),
                ensemble=tuple(f"{name}={LEXICAL},{part}:0:1" for name, part in _SUMS.items()),
            )
            result = evaluation([str(files[TEST])], options)
            claims = len(next(iter(result.corpora.values())).ids)
            figures = {row["scorer"]: row for row in result.figures["rows"]}
            cells_by_scorer = {scorer: cells for scorer, *cells in result.table.rows}
            for name, scorer, source in _chosen_on_validation(figures):
                threshold, _, *cells = cells_by_scorer[scorer]
                tuned_on = f"{source} {threshold}" if source else ""
                rows.append((name, evidence, tuned_on, *cells))
                for figure in result.table.columns[3:]:
                    values = _read_figure(figures[scorer], figure)
                    tidy.append(("3", name, evidence, figure, claims, *values, None))
            notes.append(f"{evidence}: {claims:,} claims of test that have evidence.")
            notes += result.table.notes[1:]  # without the first note, on intervals
        if rows:
            columns = (
                *("scorer", "evidence", "chosen on validation"),
                *("Acc", "F1 verifiable", "F1 non-verifiable"),
            )
            notes.append(
                "Thresholds have the best macro F1 on validation, which also chooses what the "
                "classifier reads as premise and whether neutral claims are verifiable; the paper "
                "states neither. The sum is a mean here. 95% bootstrap intervals draw claims with "
                f"the same evidence together. {EQUAL_RESAMPLES}"
            )
            notes.append(
                "Words and stop words are spaCy's, as the paper's."
                if has_spacy()
                else "spaCy is not installed: stop words are NLTK's, where the paper has spaCy's."
            )
            title = "Verifiable claims, per cent, test (Gupta 2022, table 3)"
            yield Rows(title, columns, tuple(rows), tuple(notes), Rows("", _TIDY, tuple(tidy)))

    def _build_recall_tables(self, folder: pathlib.Path) -> Iterator[Rows]:
        """Yields tables 4 and 5 for the searches of evidence."""
        documents: dict[str, dict[str, Mapping[str, Any]]] = {}
        ranked: dict[str, dict[str, Mapping[str, Any]]] = {}
        ranker = self.options.evidence_model or "BM25"
        for name, (heading, (context, _)) in itertools.product(
            (FUSED, *_RETRIEVERS), _CONTEXTS.items()
        ):
            if (step := _search_step_name(TEST, name, context)) not in self.searches:
                continue
            recalls = json.loads((folder / f"evidence/{step}.json").read_text("utf-8"))
            for row in recalls["rows"]:
                if row["what"] == SENTENCES:
                    of = _RETRIEVERS.get(name, name)
                    ranked.setdefault(f"of {of}, by {ranker}", {})[heading] = row
                elif name == FUSED:
                    documents.setdefault(row["what"], {})[heading] = row
        for number, kind, part in (("4", "documents", documents), ("5", "sentences", ranked)):
            rows, tidy = [], []
            for name, by_context in part.items():
                cells = []
                for heading, row in by_context.items():
                    value, low, high = (
                        math.nan if row[key] is None else 100 * row[key]
                        for key in ("recall", "low", "high")
                    )
                    cells.append(figure_text(value, (low, high), 1))
                    figures = row["claims"], value, low, high, None
                    tidy.append((number, name, heading, "recall", *figures))
                if cells:
                    rows.append((f"{name}, {row['at_most']} at most", *cells))
            if rows:
                title = f"Recall of {kind} with gold evidence, per cent, test"
                title = f"{title} (Gupta 2022, table {number})"
                columns = (kind, *_CONTEXTS)
                yield Rows(title, columns, tuple(rows), (), Rows("", _TIDY, tuple(tidy)))

    def _evaluate_verifiers(
        self, folder: pathlib.Path, split: str, evidence: str
    ) -> dict[tuple[str, str], Mapping[str, Any]]:
        """Returns the figures of a split with some evidence, by system and group."""
        claims = [dict(row.fields) for row in self._read_claims(split, evidence)]
        nothing = dict.fromkeys((c["id"] for c in claims), _NOTHING)
        # Only the verifiers that read this evidence.
        predictions = {
            name: nothing | read_predictions(str(path), ())
            for name in self.verifiers
            if (path := self._scores_path(folder, split, evidence, name)).exists()
        }
        predictions[NOTHING] = nothing
        if (VALIDATION, evidence) in self.evidence:
            # With rising overlap of its words with the evidence, a claim is called NOT ENOUGH INFO,
            # REFUTES, then SUPPORTS, by the thresholds with the best macro F1 on validation.
            overlaps = self._read_word_overlaps(folder, VALIDATION, evidence)
            scores, places = [], []
            for claim in (row.fields for row in self._read_claims(VALIDATION, evidence)):
                label = verification_label(claim["response_label"], claim["type_label"])
                scores.append(overlaps.get(claim["id"], 0.0))
                places.append(_RISING.index(DialFactLabel(label)))
            thresholds = best_ordered_thresholds(scores, places)
            overlaps = self._read_word_overlaps(folder, split, evidence)
            predictions[LEXICAL] = {
                c["id"]: _RISING[int(np.sum(overlaps.get(c["id"], 0.0) >= thresholds))].value
                for c in claims
            }
        table = verification_table(claims, predictions)
        self.confusions[split, evidence] = confusion_table(claims, predictions)
        factual = [c["data_type"] for c in claims if c["type_label"] == DialFactType.FACTUAL.value]
        sizes = {"all": len(factual)} | collections.Counter(factual)
        return {
            (row["system"], row["claims"]): {**row, "factual": sizes.get(row["claims"], 0)}
            for row in table.records()
        }

    def _read_claims(self, split: str, evidence: str) -> Iterator[Row]:
        """Yields the claims of a split; those with found evidence are the annotators' claims."""
        data = self.data.get((split, evidence)) or self.data[split, ORACLE]
        return tfds_rows(data, split)

    def _scores_path(
        self, folder: pathlib.Path, split: str, evidence: str, verifier: str
    ) -> pathlib.Path:
        part = "verdicts" if evidence in _RETRIEVERS else "scores"
        name = BASELINES if verifier == MINI else verifier
        return folder / f"{part}/{split}/{evidence}/{name}.jsonl"

    def _shows_system(self, number: str) -> Callable[[str], bool]:
        """Returns a filter for the systems of a table: variants have their own table, 7."""
        options = self.options
        bases = {base for name in options.variants for base in _bases_of(name, options)}
        if number == "7":
            return lambda name: name in bases or name in options.variants
        return lambda name: name not in options.variants

    def _read_word_overlaps(
        self, folder: pathlib.Path, split: str, evidence: str
    ) -> dict[str, float]:
        path = self._scores_path(folder, split, evidence, MINI)
        return {row["id"]: row["scores"][LEXICAL] or 0.0 for row in read_scored_rows(path)}

    def _collect_table_notes(self) -> Iterator[str]:
        """Yields notes on the figures, and on everything that is left out."""
        yield from workflow.model_notes(self.verifiers)
        yield (
            "Verification: accuracy / macro F1 in per cent, with 95% bootstrap intervals that draw "
            "the claims of a dialogue together. Claims that cannot be verified are NOT ENOUGH "
            f"INFO; so are those without evidence. {EQUAL_RESAMPLES}"
        )
        yield (
            f"{NOTHING} says NOT ENOUGH INFO of all claims, as verifiers do without evidence. "
            f"{LEXICAL} says SUPPORTS, REFUTES or NOT ENOUGH INFO by the share of a claim's words "
            "in its evidence; validation, without which it is left out, has chosen its thresholds."
        )
        if any(evidence in _RETRIEVERS for _, evidence in self.evidence):
            yield (
                f"{WIKI} and {DPR}: found in the knowledge base by names of articles, and by dense "
                f"vectors, with the context; {ORACLE}: the annotators'; {RETRIEVED}: that of "
                f"{DATA[RETRIEVED]}."
            )
        if self.searches:
            options = self.options
            yield (
                f"Searches take at most {options.documents} documents of a claim by names and BM25 "
                f"(the paper: 3 for each name) and {options.dense_documents} by vectors (the "
                f"paper: 100); names are found by {options.tagger} (the paper: spaCy)."
            )
        if unread := [
            n
            for n, verifier_options in self.verifiers.items()
            if verifier_options.get("form") == CLAIM_ONLY
        ]:
            yield f"Read no evidence, and stand under {ORACLE} alone: {', '.join(unread)}."
        if not self.options.sample:
            yield "The paper's figures of tables 2 to 5, 7, 8, 11 and 12 are not at hand."
        yield from self.left_out_notes()


def _chosen_on_validation(
    figures: Mapping[str, Mapping[str, Any]],
) -> Iterator[tuple[str, str, str]]:
    """Yields table 3's scorers: name, the scorer that is best on validation, and its source.

    `figures` are by scorer, with the macro F1 of validation as "F1 development".
    """

    def merit(name: str) -> tuple[float, bool]:
        # Ties go to scores that are higher for verifiable claims.
        return figures[name]["F1 development"], figures[name]["direction"] == "high"

    def source(part: str) -> str:
        """Describes a part of `_SUMS`, such as "1 - P(neutral) of the evidence"."""
        premise = _PREMISE_NAMES[_PREMISES[part.removeprefix("-")]]
        return f"{'1 - ' if part.startswith('-') else ''}P(neutral) of {premise}"

    neutral, sum_ = max(_PREMISES, key=merit), max(_SUMS, key=merit)
    yield LEXICAL, LEXICAL, "overlap"
    yield NEUTRAL, neutral, source(neutral)
    yield f"{LEXICAL} + {NEUTRAL}", sum_, f"overlap and {source(_SUMS[sum_])}:"
    yield "random", "random", ""


def _build_verifier_table(
    number: str,
    form: VerifierTable,
    figures: Mapping[tuple[str, str], Mapping[tuple[str, str], Mapping[str, Any]]],
    published: Mapping[str, Any],
    is_shown: Callable[[str], bool],
) -> Rows:
    """Returns a table of verifiers with the paper's figures; without rows if we have no figures."""
    ours: dict[str, dict[str, Mapping[str, Any]]] = {}
    for heading, (evidence, group) in form.columns.items():
        for (system, of), row in figures.get((form.split, evidence), {}).items():
            if of == group and is_shown(system):
                ours.setdefault(system, {})[heading] = row
    rows: list[tuple[str, ...]] = []
    tidy: list[tuple[Any, ...]] = []
    names = {figure: f"{form.figure} {figure}" for figure in ("Acc", "F1")}
    published_rows = published.get("published", {}).get(number, {})
    filled = {heading for row in (*ours.values(), *published_rows.values()) for heading in row}
    headings = [heading for heading in form.columns if heading in filled]
    for system in dict.fromkeys((*ours, *published_rows)) if ours else ():
        measured, paper = ours.get(system, {}), published_rows.get(system, {})
        if measured:
            rows.append(
                (system, *(_format_pair(measured.get(h), names.values()) for h in headings))
            )
        if paper:
            texts = (" / ".join(f"{value:.1f}" for value in paper.get(h, ())) for h in headings)
            rows.append((f"{system} (published)", *texts))
        for heading in (h for h in headings if h in measured or h in paper):
            pair = paper.get(heading, (None, None))
            for (figure, name), value in zip(names.items(), pair, strict=True):
                figures_of_cell: tuple[Any, ...] = (None,) * 4
                if heading in measured:
                    row = measured[heading]
                    size = row["factual" if form.figure == "factual" else "number"]
                    figures_of_cell = (int(size), *_read_figure(row, name))
                tidy.append((number, system, heading, figure, *figures_of_cell, value))
    notes = filter(None, [published.get("notes", {}).get(number, "")])
    title = f"{form.title} (Gupta 2022, table {number})"
    columns = ("verifier", *headings)
    return Rows(title, columns, tuple(rows), tuple(notes), Rows("", _TIDY, tuple(tidy)))


def _format_pair(row: Mapping[str, Any] | None, names: Iterable[str]) -> str:
    """Returns accuracy and macro F1 with their intervals; "" without a row."""
    figures = (_read_figure(row, name) for name in names) if row else ()
    return " / ".join(
        DASH if value is None else figure_text(value, None if low is None else (low, high), 1)
        for value, low, high in figures
    )


def _read_figure(row: Mapping[str, Any], name: str) -> tuple[Any, Any, Any]:
    """Returns a figure in per cent and the ends of its interval; None = undefined."""
    return row[name], row[f"{name} low"], row[f"{name} high"]
