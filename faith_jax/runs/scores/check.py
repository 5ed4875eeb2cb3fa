"""The run `check`: finds a verdict and evidence for each claim of responses."""

import dataclasses
import functools
import itertools
import logging
import math
import pathlib
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from faith_jax.core.errors import ConfigError, InputError, did_you_mean, field_error, pluralize
from faith_jax.core.files import (
    check_outputs,
    is_finished,
    is_moved,
    move_output,
    output_locks,
    partial_folder,
    resumable_output,
    scratch_place,
    write_text,
)
from faith_jax.core.files.stores import path_of
from faith_jax.core.files.whole import is_stream
from faith_jax.core.labels import (
    NOT_VERIFIABLE,
    UNSUPPORTED,
    VERDICTS,
    DialFactLabel,
    DialFactType,
    label_text,
    parse_verdict,
    response_verdict,
)
from faith_jax.core.progress import Progress
from faith_jax.core.rows import BadRows, read_jsonl
from faith_jax.core.types import GroundedExample, Grounding, Score
from faith_jax.datasets.grounded_rows import KNOWN_LABELS, ExampleRow, is_turned
from faith_jax.datasets.list_cells import read_list
from faith_jax.datasets.table_notes import TableNotes
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
from faith_jax.runs.data.find_evidence import responses_of, spread
from faith_jax.runs.options import CheckOptions
from faith_jax.runs.scores.fact_checker import (
    LABELS,
    MINI_NLI,
    OVERLAP,
    CheckedResponse,
    FactChecker,
    claim_example,
    claims_of,
)
from faith_jax.runs.shards import append_in_batches, keep_whole_batches
from faith_jax.scoring.model_cards import CLAIM_SCORERS
from faith_jax.tokenizers.unknown import unknown_warnings

logger = logging.getLogger("faith_jax")

_TINY = (
    f"{MINI_NLI} is a small model to try things out: it is often wrong, also where it is sure; "
    "give your own verifier as --model"
)
DIALFACT_LABEL, LABEL = "response_label", "label"
_UNJUDGED = "no sentence of evidence was judged"
_ROWS = "rows.jsonl"


def check(options: CheckOptions) -> Iterator[str]:
    """Checks a response, or all responses in files, and yields a report; a stopped run resumes.

    Raises:
      InputError: for missing or bad rows.
      ConfigError: for wrong options, a missing knowledge base or model, or an existing output.
    """
    outputs = {"--output": options.output, "--html": options.html}
    check_outputs(options.input, outputs)
    if options.output:
        partial_folder(path_of(options.output))  # raises if the output cannot have one
    paths = {option: path_of(output) for option, output in outputs.items() if output}
    complete = [o for o, path in paths.items() if not is_stream(path) and is_finished(path)]
    # A run that was killed between moving its output and its end makes both outputs again.
    ends = "--output" in complete and is_moved(path_of(options.output))
    lacks_page = bool(options.html) and complete == ["--output"] and not ends
    if complete and not lacks_page and not ends:
        option = complete[0]
        raise ConfigError(f"{option}: {outputs[option]} exists already; remove it or name another.")
    if options.claim:
        logger.setLevel(logging.WARNING)
    with tempfile.TemporaryDirectory() as folder, output_locks({"--html": options.html}):
        target = path_of(options.output or f"{folder}/checked.jsonl")
        form = form_of(target)
        bad_rows = BadRows(skip=options.skip_bad_rows)
        source = None
        if options.input:
            source = responses_of(options.input, options, options.grounding_column)
        rows = functools.partial(_read_responses, options, source)
        count = silent = labelled = 0
        columns: dict[str, Any] = {}
        table_notes = TableNotes()
        for row in rows(bad_rows, table_notes):
            count += 1
            silent += not claims_of(row.example.response)
            labelled += options.label_column in row.fields
            columns |= row.fields
        if not count:
            raise bad_rows.nothing_left(f"{', '.join(options.input)}: no rows to check")
        for line in table_notes.report()["lines"]:
            logger.info("  %s", line)
        for warning in table_notes.report()["warnings"]:
            logger.warning("%s", warning)
        if options.label_column and not labelled:
            hint = did_you_mean(options.label_column, columns)
            raise InputError(f"--label-column: no row has {options.label_column!r}.{hint}")
        if options.model == MINI_NLI:
            logger.warning("%s.", _TINY)
        claims = functools.partial(read_scored_rows, target)

        def write_page() -> None:
            if options.html:
                page = claims_page("Claims and evidence", claims(), CLAIM_SCORERS, notes + lines)
                write_text(options.html, page)

        lines = []
        if silent:
            responses = pluralize(silent, "response")
            lines.append(f"{responses} without a sentence, and so without claims")
        if lacks_page:
            logger.info("%s is there already: %s is made of it", target, options.html)
            notes, unknown = [f"Claims: {target}"], None
            write_page()
        else:
            knowledge_base = None if options.grounding_column else options.knowledge_base
            checker = FactChecker(
                knowledge_base, options.model, options.form, options.labels, options.verifiable,
                options,
            )  # fmt: skip
            notes, unknown = _describe_sources(options, checker.base), checker.unknown
            with resumable_output(
                target, _identify_run(options, source, checker), options.restart
            ) as draft:
                _write_claim_rows(rows, count, checker, draft / _ROWS, options)
                claim_rows = (
                    row for line in read_jsonl(draft / _ROWS) for row in line.fields["claims"]
                )
                with scratch_place(draft) as beside:
                    write_scored(claim_rows, beside, form, (*CLAIM_SCORERS, OVERLAP))
                    move_output(beside, target)
                write_page()
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
    options: CheckOptions,
    source: ScoreInput | None,
    bad_rows: BadRows,
    notes: TableNotes | None = None,
) -> Iterator[ExampleRow]:
    """Yields the responses; a row whose label cannot be read is a bad row."""
    if source is None:
        example = GroundedExample("claim", Grounding(()), options.history, options.claim)
        yield ExampleRow(example, "claims", {})
        return
    for row in source.rows(bad_rows, notes=notes):
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
    """Reads the right verdicts of a row; DialFact's personal claims count as not verifiable.

    Raises:
      InputError: a label is unknown, or there is not one label per claim.
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
    texts = [label_text(label) for label in values]
    if any(is_turned(name, text) and text not in options.verdicts for text in texts):
        raise InputError(
            f"{place}: field {name!r}: by its name, 1 or yes means an error; say what its labels "
            f"mean: --label-values=1={UNSUPPORTED},0=SUPPORTS,yes={UNSUPPORTED},no=SUPPORTS."
        )
    of_answers = {1: DialFactLabel.SUPPORTS.value, 0: UNSUPPORTED}  # by the labels of `score`
    verdicts = [
        text
        and (
            options.verdicts.get(text)
            or parse_verdict(text)
            or of_answers.get(KNOWN_LABELS.get(text, -1))
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
    rows: Callable[[BadRows], Iterator[ExampleRow]],
    count: int,
    checker: FactChecker,
    rows_file: pathlib.Path,
    options: CheckOptions,
) -> None:
    """Appends the claims of each response as scored rows, after the rows that exist already."""

    def texts(some: Iterable[ExampleRow]) -> tuple[list[str], list[Any], list[Grounding] | None]:
        examples = [row.example for row in some]
        groundings = None if checker.base else [example.grounding for example in examples]
        return [e.response for e in examples], [e.history for e in examples], groundings

    def check_batch(batch: Sequence[ExampleRow]) -> Iterator[Mapping[str, Any]]:
        responses = checker.check_all(*texts(batch))
        gold = [_read_gold_verdicts(row, options) for row in batch]
        scored = map(_build_claim_rows, batch, responses, gold)
        return ({"claims": list(claims)} for claims in scored)

    size = options.batch_size
    done = keep_whole_batches(rows_file, count, size)
    if done < count and count > size:
        checker.prepare(*texts(spread(rows(BadRows(skip=True)), count)), size, count)
    left = itertools.islice(rows(BadRows(skip=True)), done, None)
    progress = Progress("response", count, done)
    append_in_batches(rows_file, left, size, check_batch, progress)


def _build_claim_rows(
    row: ExampleRow, checked: CheckedResponse, gold: _Gold
) -> Iterator[ScoredRow]:
    """Yields a response's claims as scored rows; input columns with our names are renamed."""
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
            for name, value in zip(CLAIM_SCORERS, claim.probabilities.values(), strict=True)
        }
        example = claim_example(
            (claim.claim, dialogue), claim.evidence, f"{row.example.id}#{number}"
        )
        dialogue = (*dialogue, claim.claim)
        yield scored_row(
            ExampleRow(example, row.corpus, fields), {**scores, OVERLAP: claim.overlap}
        )


def _claim_lines(rows: Iterable[ScoredRow]) -> Iterator[str]:
    """Yields lines: a response's claims with verdicts and evidence, and the response's verdict."""
    count, verdict = 0, NOT_VERIFIABLE
    for row in rows:
        count += 1
        reason = ", ".join(
            f"{label.value.lower()} {row['scores'][name]:.2f}"
            for label, name in zip(LABELS, CLAIM_SCORERS, strict=True)
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
