"""Checks claims in responses: can one be verified, what is the evidence, is it supported.

A response's sentences are its claims. Evidence is found for each in a knowledge base (Gupta 2022,
section 5.2), and a verifier says whether it supports or refutes the claim (section 5.3). Where a
claim names what it is about, only sentences about that count; and of these only those that have
enough of its words, by the lexical overlap of section 5.1. A claim of whose words no sentence that
was found has enough is not verifiable.
"""

import dataclasses
import functools
import itertools
import logging
import math
import pathlib
import re
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Unpack, get_type_hints

import msgspec

from faith_jax.checkpoints.embedded import check_is_there, checkpoint_path, embedded_models
from faith_jax.core.cutting import by_name
from faith_jax.core.errors import (
    ConfigError,
    InputError,
    did_you_mean,
    field_error,
    pluralize,
)
from faith_jax.core.files import (
    append_rows,
    check_outputs,
    count_whole_rows,
    is_finished,
    move_into_place,
    resumable_output,
    scratch_place,
    truncate_rows,
    write_text,
)
from faith_jax.core.files.stores import path_of
from faith_jax.core.labels import (
    NOT_VERIFIABLE,
    UNSUPPORTED,
    VERDICTS,
    DialFactLabel,
    DialFactType,
    parse_verdict,
    response_verdict,
)
from faith_jax.core.progress import Progress
from faith_jax.core.rows import BadRows, read_jsonl
from faith_jax.core.settings import Share, check_value
from faith_jax.core.types import GroundedExample, Grounding, Score
from faith_jax.core.words import split_sentences, visible
from faith_jax.datasets.grounded_rows import KNOWN_LABELS, ExampleRow
from faith_jax.datasets.list_cells import read_list
from faith_jax.datasets.raw.dialfact import Evidence, select_evidence
from faith_jax.datasets.samples import SAMPLE
from faith_jax.export.read_scored import read_scored_rows
from faith_jax.export.scored_rows import ScoredRow, form_of, scored_row, write_scored
from faith_jax.input.score_input import ScoreInput
from faith_jax.report.claims import (
    GOLD,
    GOLD_RESPONSE,
    VERDICT,
    claims_page,
    gold_table,
    verdict_table,
)
from faith_jax.report.table_pages import render_table
from faith_jax.retrieval.knowledge_base import KnowledgeBase
from faith_jax.retrieval.sentence_ranking import about
from faith_jax.runs.data.find_evidence import Finder, responses_of
from faith_jax.runs.data.knowledge import open_base
from faith_jax.runs.options import CheckOptions, FindingOptions
from faith_jax.statistics.texts.passages import PassageFinder
from faith_jax.statistics.texts.text_metrics import lexical_overlap
from faith_jax.tokenizers.unknown import UnknownTokens, counting_unknown, unknown_warnings

if TYPE_CHECKING:  # wrong options and files are told before JAX is imported
    from faith_jax.scoring.claims import ClaimRows, Verdict
    from faith_jax.scoring.pair_classifier import ClassifierOptions

logger = logging.getLogger("faith_jax")

MINI_NLI, OVERLAP = "mini_nli", "lexical_overlap"
_TINY = (
    f"{MINI_NLI} is a small model to try things out: it is often wrong and always sure; "
    "give your own verifier as --model"
)
SCORERS = ("claim_supports", "claim_refutes", "claim_not_enough_info")
_LABELS = tuple(DialFactLabel)
DIALFACT_LABEL, LABEL = "response_label", "label"
_UNJUDGED = "no sentence of evidence was judged"
_ROWS = "rows.jsonl"
# Of Markdown: headings and the marks of lists, before which a paragraph ends; and emphasis.
_BLOCKS = re.compile(
    r"^[ \t]*#{1,6}[ \t].*$|^[ \t]*(?:[-*•+>]|\d{1,2}[.)])[ \t]+|^[ \t]*$", re.MULTILINE
)
_ADDRESS = re.compile(r"(?:https?://|www\.)\S+")
_EMPHASIS = re.compile(r"\*\*|(?<!\w)__(?=\w)|(?<=\w)__(?!\w)|`")
_TASKS = "_verify"  # in the names of the tasks that have claims in the form "dialfact"


class Checked(NamedTuple):
    """The verdict on a claim, with its evidence.

    Attributes:
      claim: a sentence of the response.
      verdict: "SUPPORTS", "REFUTES", "NOT ENOUGH INFO" or "NOT VERIFIABLE".
      probabilities: of the first three, by name; NaN where no sentence was judged.
      evidence: sentences with title, URL and score, best first.
      decisive: the one that the verdict follows from; None where it follows from none or from all.
      overlap: the largest share of the claim's words that a sentence found has; undefined
        without evidence.
      cut: how many tokens of claim and evidence the model could not read, by part.
    """

    claim: str
    verdict: str
    probabilities: dict[str, float]
    evidence: list[Evidence]
    decisive: Evidence | None
    overlap: Score
    cut: Mapping[str, int]


class CheckedResponse(NamedTuple):
    """The verdict on a response (see `response_verdict`), and its checked claims."""

    verdict: str
    claims: list[Checked]


class FactChecker:
    """Checks the claims of responses against a knowledge base.

    Args:
      knowledge_base: a folder of `faith-jax index`, or "sample", the package's encyclopedia; None =
        the evidence is in the groundings that `check_all` is given.
      model: the verifier, see `ClaimVerifier`; "mini_nli" is in the package.
      form: "nli" or "dialfact", likewise.
      labels: likewise.
      verifiable: claims with a smaller share of their words, from 0 to 1, in a sentence of evidence
        are called not verifiable.
      finding: how evidence is found, as `FindingOptions(retrievers=("bm25",), sentences=3)` of
        `faith_jax.runs.options`; its fields are the options of `faith-jax evidence`.
      **options: of the verifier's model: `ClassifierOptions`, such as `vocabulary`, `max_length`
        and `dtype`.

    Raises:
      ConfigError: no knowledge base or model, and for wrong options.

    >>> checker = FactChecker()  # doctest: +SKIP
    >>> checker("The piano has black and white keys.").verdict  # doctest: +SKIP
    'SUPPORTS'
    """

    def __init__(
        self,
        knowledge_base: str | pathlib.Path | None = SAMPLE,
        model: str = MINI_NLI,
        form: str = CheckOptions.form,
        labels: str | Sequence[str] | None = None,
        verifiable: float = CheckOptions.verifiable,
        finding: FindingOptions | None = None,
        **options: "Unpack[ClassifierOptions]",
    ):
        form = check_value("form", form, get_type_hints(CheckOptions)["form"])
        verifiable = check_value("verifiable", verifiable, Share)
        finding = check_value("finding", finding or FindingOptions(), FindingOptions)
        if options:
            from faith_jax.scoring.pair_classifier import ClassifierOptions

            names = list(ClassifierOptions.__annotations__)
            of_finding = [field.name for field in dataclasses.fields(FindingOptions)]
            for name in options:
                if name in of_finding:
                    raise ConfigError(f"{name}: give it as finding=FindingOptions({name}=…).")
                if name not in names:
                    further = "knowledge_base", "model", "form", "labels", "verifiable", "finding"
                    raise ConfigError(
                        f"there is no option {name!r}.{did_you_mean(name, (*further, *names))}"
                    )
        check_is_there(model)
        self.base = None if knowledge_base is None else open_base(knowledge_base)
        self._finder = Finder(self.base, finding) if self.base else None
        self._sentences = finding.sentences
        from faith_jax.scoring.claims import ClaimVerifier
        from faith_jax.scoring.registry import load_scorer

        self._verifier = ClaimVerifier(model, form, labels, **options)
        if self._verifier.writes_labels:
            _check_form(model, form)
        self._verifiable, self._overlap = verifiable, load_scorer(OVERLAP)
        self.unknown = UnknownTokens()  # of all that the verifier has read

    def __call__(self, response: str, history: Sequence[str] = ()) -> CheckedResponse:
        """Checks a response; see `check_all`."""
        return self.check_all([response], [history])[0]

    def check_all(
        self,
        responses: Sequence[str],
        histories: Sequence[Sequence[str]] | None = None,
        groundings: Sequence[Grounding] | None = None,
    ) -> list[CheckedResponse]:
        """Checks each response and each of its sentences.

        Args:
          responses: texts.
          histories: what was said before each, oldest first; None = nothing.
          groundings: what each was made from, without a knowledge base.

        Raises:
          ConfigError: a text in place of a list, a response that is no text, other than one history
            or grounding for each response, and groundings beside a knowledge base or neither.
        """
        dialogues = [()] * len(responses) if histories is None else histories
        for name, value in {"responses": responses, "histories": dialogues}.items():
            if isinstance(value, str):
                raise ConfigError(f"{name}: expected a list, got a text: {value[:80]!r}.")
        if (groundings is None) != (self.base is not None):
            raise ConfigError("groundings: give them without a knowledge base, and only then.")
        if groundings is not None and len(groundings) != len(responses):
            raise ConfigError(
                f"groundings: expected {len(responses)}, one for each response, "
                f"got {len(groundings)}."
            )
        if wrong := [response for response in responses if not isinstance(response, str)]:
            raise ConfigError(f"response: expected a text, got {wrong[0]!r:.80}.")
        if len(dialogues) != len(responses):
            raise ConfigError(
                f"histories: expected {len(responses)}, one for each response, "
                f"got {len(dialogues)}."
            )
        if (text := next((t for t in dialogues if isinstance(t, str)), None)) is not None:
            raise ConfigError(f"history: expected a list of turns, got a text: {text[:80]!r}.")
        sentences = [claims_of(response) for response in responses]
        claims = [
            (claim, (*before, *own_claims[:place]))
            for own_claims, before in zip(sentences, dialogues, strict=True)
            for place, claim in enumerate(own_claims)
        ]
        if self._finder:
            base, finds = self._finder.base, list(self._finder(claims))
            ranked = [select_evidence(find.evidence) for find in finds]
            about_subjects = [
                about(base, find.subjects, best) for find, best in zip(finds, ranked, strict=True)
            ]
        else:
            finders = [PassageFinder(grounding.texts) for grounding in groundings or ()]
            ranked = about_subjects = [
                _evidence_in(finder, claim, self._sentences)
                for finder, own_claims in zip(finders, sentences, strict=True)
                for claim in own_claims
            ]
        # Whether a claim can be verified is told by all that was found, not only by its subject's.
        overlaps = self._overlap.score(
            [_make_example(*pair) for pair in zip(claims, ranked, strict=True)]
        )
        # Sentences with few words of a claim decide nothing; a model that reads all weighs them.
        read = [
            [
                sentence
                for sentence in evidence
                if self._verifier.reads_all
                or lexical_overlap(visible(claim), [visible(sentence.sentence)]) >= self._verifiable
            ]
            for (claim, _), evidence in zip(claims, about_subjects, strict=True)
        ]
        with counting_unknown(self.unknown):
            rows = [
                self._verifier.read(_make_example(*pair)) for pair in zip(claims, read, strict=True)
            ]
        verdicts = self._verifier.verdicts(rows)
        checked = iter(
            map(self._check_claim, claims, about_subjects, overlaps, read, rows, verdicts)
        )
        by_response = [list(itertools.islice(checked, len(own_claims))) for own_claims in sentences]
        return [
            CheckedResponse(response_verdict(claim.verdict for claim in b), b) for b in by_response
        ]

    def _check_claim(
        self,
        claim: tuple[str, Sequence[str]],
        evidence: list[Evidence],
        overlap: Score,
        read: list[Evidence],
        row: "ClaimRows",
        judgement: "Verdict",
    ) -> Checked:
        verdict = verdict_of(overlap.value, judgement.probabilities, self._verifiable)
        values = judgement.probabilities if read else (math.nan,) * len(_LABELS)
        probabilities = dict(zip((label.value for label in _LABELS), values, strict=True))
        is_one = judgement.decisive is not None and not self._verifier.reads_all
        decisive = read[judgement.decisive or 0] if is_one else None
        cut = by_name(row.cut)
        return Checked(claim[0], verdict, probabilities, evidence, decisive, overlap, cut)


def claims_of(response: str) -> list[str]:
    """Returns the sentences of a response.

    Headings and marks of Markdown, addresses of pages and what has no letter are none.

    >>> claims_of("1. Tea is **hot**. It is a drink. https://example.org/tea")
    ['Tea is hot.', 'It is a drink.']
    """
    blocks = _BLOCKS.split(_EMPHASIS.sub("", response))
    sentences = (sentence for block in blocks for sentence in split_sentences(block))
    return [text for text in sentences if any(map(str.isalnum, _ADDRESS.sub("", text)))]


def _evidence_in(finder: PassageFinder, claim: str, most: int) -> list[Evidence]:
    """Returns passages of a grounding that have words of a claim, best first.

    Their scores are the shares of the claim's content words that they have.
    """
    passages = [Evidence("", "", *passage) for passage in finder(claim, most - 1)]
    # Python's sort keeps a single sentence before the passage around it that has no more words.
    return select_evidence(list(dict.fromkeys(passages)), most)


def _make_example(
    claim: tuple[str, Sequence[str]], evidence: Sequence[Evidence], name: str = "claim"
) -> GroundedExample:
    """Returns a claim with what was said before it, and its evidence, as scorers read it."""
    titles = tuple(e.title for e in evidence)
    grounding = Grounding(tuple(e.sentence for e in evidence), titles if any(titles) else ())
    return GroundedExample(name, grounding, tuple(claim[1]), claim[0])


def verdict_of(overlap: float, probabilities: Sequence[float], verifiable: float) -> str:
    """Returns the verdict on a claim.

    Args:
      overlap: the largest share of its words that a sentence of evidence has; NaN = it has none.
      probabilities: of SUPPORTS, REFUTES and NOT ENOUGH INFO.
      verifiable: the least overlap of a claim that can be verified.

    >>> verdict_of(0.5, (0.1, 0.7, 0.2), 0.2), verdict_of(0.1, (0.1, 0.7, 0.2), 0.2)
    ('REFUTES', 'NOT VERIFIABLE')
    """
    if not overlap >= verifiable:
        return NOT_VERIFIABLE
    return _LABELS[max(range(len(_LABELS)), key=lambda place: probabilities[place])].value


def _check_form(model: str, form: str) -> None:
    """Says whether a model that writes labels was trained for a form, as far as that is known.

    Raises:
      ConfigError: it was not.
    """
    wanted = form == "dialfact"
    needed = "dialfact_verify_…" if wanted else "NLI"
    path = checkpoint_path(model)
    if str(model) in embedded_models() and (wanted or model != MINI_NLI):
        advice = "docs/dialfact.md says how to train a verifier"
        raise ConfigError(
            f"form: {model} was not trained on {needed}; --model={MINI_NLI} with --form=nli is the "
            f"package's verifier, and {advice}."
        )
    run = path.parent.parent if path.parent.name == "checkpoints" else path
    task = None
    if (run / "config.gin").is_file():
        from faith_jax.runs.run_settings import read_settings

        task = (read_settings(run) or {}).get("dataset.mixture_or_task_name")
    if task is None:
        if model != MINI_NLI:
            logger.warning("%s: whether it was trained on %s cannot be seen in it.", path, needed)
    elif wanted != (_TASKS in str(task.value)):
        right = "nli" if wanted else "dialfact"
        raise ConfigError(
            f"form: {path} was trained on {task.value}, which --form={form} does not fit; give "
            f"--form={right}, or another model."
        )
    elif not wanted and "nli" not in str(task.value):
        logger.warning("%s was trained on %s, which does not look like NLI.", path, task.value)


def check(options: CheckOptions) -> Iterator[str]:
    """Checks a response, or those of files, and yields lines about them; a stopped run resumes.

    Raises:
      InputError: for missing or bad rows.
      ConfigError: for wrong options, no knowledge base or model, and an output that exists.
    """
    outputs = {"--output": options.output, "--html": options.html}
    check_outputs(options.input, outputs)
    complete = [o for o, output in outputs.items() if output and is_finished(path_of(output))]
    # As a run leaves it that is killed between its two outputs.
    lacks_page = bool(options.html) and complete == ["--output"]
    if complete and not lacks_page:
        option = complete[0]
        raise ConfigError(f"{option}: {outputs[option]} exists already; remove it or name another.")
    if options.claim:
        logger.setLevel(logging.WARNING)
    with tempfile.TemporaryDirectory() as folder:
        target = path_of(options.output or f"{folder}/checked.jsonl")
        form = form_of(target)
        bad_rows = BadRows(skip=options.skip_bad_rows)
        source = None
        if options.input:
            source = responses_of(options.input, options, options.grounding_column)
        rows = functools.partial(_read_responses, options, source)
        count = silent = labelled = 0
        columns: dict[str, Any] = {}
        for row in rows(bad_rows):
            count += 1
            silent += not claims_of(row.example.response)
            labelled += options.label_column in row.fields
            columns |= row.fields
        if not count:
            raise InputError(f"{', '.join(options.input)}: no rows to check.")
        if options.label_column and not labelled:
            hint = did_you_mean(options.label_column, columns)
            raise InputError(f"--label-column: no row has {options.label_column!r}.{hint}")
        if options.model == MINI_NLI:
            logger.warning("%s.", _TINY)
        claims = functools.partial(read_scored_rows, target)
        lines = []
        if silent:
            responses = pluralize(silent, "response")
            lines.append(f"{responses} without a sentence, and so without claims")
        if lacks_page:
            logger.info("%s is there already: %s is made of it", target, options.html)
            notes, unknown = [f"Claims: {target}"], None
        else:
            checker = FactChecker(
                None if options.grounding_column else options.knowledge_base,
                options.model,
                options.form,
                options.labels,
                options.verifiable,
                options,
            )
            notes, unknown = _describe_sources(options, checker.base), checker.unknown
            with resumable_output(
                target, _identify_run(options, source, checker), options.restart
            ) as kept:
                _write_claim_rows(rows(BadRows(skip=True)), count, checker, kept / _ROWS, options)
                claim_rows = (
                    row for line in read_jsonl(kept / _ROWS) for row in line.fields["claims"]
                )
                with scratch_place(kept) as beside:
                    write_scored(claim_rows, beside, form, (*SCORERS, OVERLAP))
                    move_into_place(beside, target)
        if options.html:
            page = claims_page("Claims and evidence", claims(), SCORERS, notes + lines)
            write_text(options.html, page)
        if options.claim:
            yield from _claim_lines(claims())
        else:
            yield render_table(verdict_table(claims()))
            if (figures := gold_table(claims())).rows:
                yield render_table(figures)
        yield from lines
        if cut := sum(any(row["cut_tokens"].values()) for row in claims()):
            claims_cut = pluralize(cut, "claim")
            yield f"{claims_cut} with evidence that was too long for the model, and cut"
        for warning in unknown_warnings(unknown.report()) if unknown else ():
            logger.warning("%s", warning)
    yield from bad_rows.describe_skipped()


def _read_responses(
    options: CheckOptions, source: ScoreInput | None, bad_rows: BadRows
) -> Iterator[ExampleRow]:
    """Yields the responses; one whose label cannot be read is a bad row."""
    if source is None:
        example = GroundedExample("claim", Grounding(()), options.history, options.claim)
        yield ExampleRow(example, "claims", {})
        return
    for row in source.rows(bad_rows):
        part, number = row.place
        try:
            _read_gold_verdicts(row, options, f"{options.input[part]}, row {number + 1}")
        except InputError as error:
            bad_rows.add(error)
        else:
            yield row


class _Gold(NamedTuple):
    """The right verdicts on a response and on each of its claims; "" = unknown."""

    response: str = ""
    claims: Sequence[str] = ()


def _read_gold_verdicts(row: ExampleRow, options: CheckOptions, place: str = "") -> _Gold:
    """Reads the right verdicts of a row.

    DialFact's claims that are personal cannot be verified.

    Raises:
      InputError: it says anything else, or not as many as there are claims.
    """
    column = options.label_column
    name = column
    if name is None:
        has_label = options.grounding_column and DIALFACT_LABEL not in row.fields
        name = LABEL if has_label else DIALFACT_LABEL
    value = row.fields.get(name, "")
    if isinstance(value, str) and (cell := read_list(value)):
        value = cell.texts
    if column is None and row.fields.get("type_label") == DialFactType.PERSONAL:
        value = NOT_VERIFIABLE
    values = value if isinstance(value, list) else [value]
    texts = ["" if label is None else str(label).strip() for label in values]
    of_answers = {1: DialFactLabel.SUPPORTS.value, 0: UNSUPPORTED}  # by the labels of `score`
    verdicts = [
        text
        and (
            options.verdicts.get(text.lower())
            or parse_verdict(text)
            or of_answers.get(KNOWN_LABELS.get(text.lower(), -1))
        )
        for text in texts
    ]
    right = [verdict for verdict in verdicts if verdict is not None]
    if len(right) < len(verdicts):
        remedy = (
            "say what others mean with --label-values=LABEL=VERDICT,…; --label-column= reads none"
        )
        expected = f"one of {', '.join(VERDICTS)}, 1 (SUPPORTS) or 0 (any other)"
        raise field_error(place, name, expected, value, remedy)
    if not isinstance(value, list):
        return _Gold(*right)
    if (count := len(claims_of(row.example.response))) != len(right):
        expected = f"a text, or one for each of the {pluralize(count, 'sentence')} of the response"
        raise field_error(place, name, expected, value)
    return _Gold(response_verdict(right) if all(right) else "", right)


def _describe_sources(options: CheckOptions, base: KnowledgeBase | None) -> list[str]:
    """Returns lines that name the responses, the knowledge base and the verifier."""
    knowledge = f"Grounding: {options.grounding_column} of each response"
    if base:
        articles = pluralize(len(base), "article")
        knowledge = f"Knowledge base: {options.knowledge_base} ({articles})"
    return [
        *(f"Responses: {path}" for path in options.input),
        knowledge,
        f"Verifier: {options.model}, --form={options.form}",
        *([_TINY] if options.model == MINI_NLI else []),
    ]


def _identify_run(
    options: CheckOptions, source: ScoreInput | None, checker: FactChecker
) -> dict[str, Any]:
    """Returns the settings and inputs that must be the same for a stopped run to resume."""
    from faith_jax.checkpoints.identity import checkpoint_digest  # imports JAX

    models = filter(None, (options.model, options.evidence_model, options.question_model))
    left_out = ("output", "html", "restart")
    run = {k: v for k, v in dataclasses.asdict(options).items() if k not in left_out}
    return run | {
        "read": source.stamp() if source else [],
        "base": msgspec.structs.asdict(checker.base.manifest) if checker.base else {},
        "models": [checkpoint_digest(model) for model in models],
    }


def _write_claim_rows(
    rows: Iterable[ExampleRow],
    count: int,
    checker: FactChecker,
    kept: pathlib.Path,
    options: CheckOptions,
) -> None:
    """Writes the claims of each response as scored rows, those that are not there yet."""
    done, size = count_whole_rows(kept), options.batch_size
    # The claims of a batch change the last digits of each other's probabilities.
    done = truncate_rows(kept, done if done == count else done - done % size)
    progress = Progress("response", count, done)
    left = itertools.islice(rows, done, None)
    while batch := list(itertools.islice(left, size)):
        examples = [row.example for row in batch]
        responses = checker.check_all(
            [example.response for example in examples],
            [example.history for example in examples],
            None if checker.base else [example.grounding for example in examples],
        )
        gold = [_read_gold_verdicts(row, options) for row in batch]
        scored = map(_build_claim_rows, batch, responses, gold)
        append_rows(kept, ({"claims": list(claims)} for claims in scored))
        progress.add(len(batch))


def _build_claim_rows(
    row: ExampleRow, checked: CheckedResponse, gold: _Gold
) -> Iterator[ScoredRow]:
    """Yields the claims of a response as scored rows; columns of the same names are renamed."""
    dialogue = row.example.history
    for number, claim in enumerate(checked.claims):
        own_fields = {
            "response_id": row.example.id,
            VERDICT: checked.verdict,
            "verdict": claim.verdict,
            "decisive": claim.decisive and claim.decisive.sentence,
            "evidence_urls": [sentence.url for sentence in claim.evidence],
            GOLD_RESPONSE: gold.response or None,
            GOLD: (gold.claims[number] or None) if gold.claims else None,
        }
        fields = {
            f"input_{name}" if name in own_fields else name: value
            for name, value in row.fields.items()
        }
        fields |= {name: value for name, value in own_fields.items() if value is not None}
        scores = {
            name: Score(value, cut=claim.cut, undefined=_UNJUDGED if math.isnan(value) else "")
            for name, value in zip(SCORERS, claim.probabilities.values(), strict=True)
        }
        example = _make_example(
            (claim.claim, dialogue), claim.evidence, f"{row.example.id}#{number}"
        )
        dialogue = (*dialogue, claim.claim)
        yield scored_row(
            ExampleRow(example, row.corpus, fields), {**scores, OVERLAP: claim.overlap}
        )


def _claim_lines(rows: Iterable[ScoredRow]) -> Iterator[str]:
    """Yields a response's claims with verdicts and evidence, and the verdict on the response."""
    count, verdict = 0, NOT_VERIFIABLE
    for row in rows:
        count += 1
        reason = ", ".join(
            f"{label.value.lower()} {row['scores'][name]:.2f}"
            for label, name in zip(_LABELS, SCORERS, strict=True)
            if row["scores"][name] is not None
        )
        verdict, overlap = row["fields"][VERDICT], row["scores"][OVERLAP]
        if row["fields"]["verdict"] == NOT_VERIFIABLE:
            reason = "no evidence found"
            if row["grounding"]:
                reason = f"at most {overlap or 0:.0%} of its words are in one sentence"
        reason = reason or _UNJUDGED
        yield f"{row['fields']['verdict']}: {row['generated_text']} ({reason})"
        for title, text in zip(row["perspectives"], row["grounding"], strict=True):
            mark = "[decides] " if text == row["fields"].get("decisive") else ""
            yield f"  {mark}{title}: {text}"
    if count != 1:
        yield f"The response: {verdict}"
