"""The runs `npov inputs` and `npov sets`: inputs of a generator, and errors in its responses.

Chang 2024, sections 4.1 to 5.2: a generator responds to combinations of a topic's arguments;
people's marks, or a rule of words instead, say which responses are free of errors; training and
test sets are made from these with synthetic errors, and with the errors that people found.

The response does not change, but the arguments that it is judged by do:

- hallucination: one given argument is removed, so the response tells one too many;
- coverage error: one unused argument of the topic is added, so the response leaves one out;
- both, with different arguments.

In paraphrased rows, all arguments are paraphrased, including removed and added ones.
"""

import collections
import pathlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from faith_jax.annotation.labels import Label, Slice, combine_marks, slice_rows
from faith_jax.annotation.marks import read_marks
from faith_jax.core.errors import InputError, pluralize
from faith_jax.core.files import working_folder, write_json, write_jsonl
from faith_jax.core.rows import read_json, read_jsonl
from faith_jax.core.schema import Text, Texts, convert_row
from faith_jax.core.table import Table
from faith_jax.core.types import SIDE_FIELDS, SIDES, GroundedExample, Grounding
from faith_jax.datasets import npov
from faith_jax.datasets.augmentation.draws import rank
from faith_jax.datasets.npov.synthetic_errors import Row, synthetic_rows, unused_arguments
from faith_jax.datasets.npov.topics import Topic
from faith_jax.papers.npov.combinations import TEMPERATURES, response_rows
from faith_jax.papers.npov.options import NpovDetection
from faith_jax.papers.npov.word_rule import REASONS, ErrorFreeRule, retold_spans
from faith_jax.report.table_pages import render_table

if TYPE_CHECKING:
    from faith_jax.papers.npov.commands import Inputs, Sets

PARAPHRASED = "paraphrased"
SUMMARY, TEST = "sets.json", "test.jsonl"
NOT_ANNOTATED, _ERROR_FREE = "not annotated", "error-free"
_ORGANIC = {"full organic": Slice.FULL_ORGANIC, "ambiguous organic": Slice.AMBIGUOUS_ORGANIC}
_MORE_ERRORS = (
    "Ask for fewer, or give topics with more arguments than a response is given, and a paraphrase "
    "of each."
)


def with_errors_per_response(
    rows: Sequence[Row], errors: float, label: str, seed: int = 0
) -> list[Row]:
    """Returns all error-free rows and a drawn part of the rows with an error, in their order.

    The draw ignores whether rows are paraphrased, so the same rows are drawn in both forms.

    Raises:
      InputError: if too few rows have an error; the message has the label.
    """
    wrong = [row for row in rows if row["error"] != "none"]
    free = len(rows) - len(wrong)
    needed = round(errors * free)
    if len(wrong) < needed:
        raise InputError(
            f"{label}: {errors:.4g} rows with an error to each of "
            f"{pluralize(free, 'error-free row')} make {needed:,}, but only {len(wrong):,} can be "
            f"made ({len(wrong) / free:.4g} to each)"
        )
    names = {row["id"]: row["id"].removesuffix(f"-{PARAPHRASED}") for row in wrong}
    kept_names = set(sorted(names, key=lambda name: rank(seed, names[name], "kept"))[:needed])
    return [row for row in rows if row["error"] == "none" or row["id"] in kept_names]


def paraphrases(topics: Iterable[Topic]) -> dict[tuple[str, str], str]:
    """Returns the first paraphrase of each argument that has one, by (topic, text)."""
    return {
        (topic.id, argument.text): argument.paraphrases[0]
        for topic in topics
        for argument in (*topic.pro, *topic.con)
        if argument.paraphrases
    }


def paraphrase_row(row: Row, written: Mapping[tuple[str, str], str]) -> dict[str, Any] | None:
    """Returns a row of `synthetic_rows` with every argument paraphrased; None if one cannot be.

    `written` is from `paraphrases`.
    """

    def other(text: str) -> str | None:
        return written.get((row["topic"], text)) if text else ""

    sides = {side: [other(text) for text in row[side]] for side in SIDE_FIELDS}
    single = {name: other(row[name]) for name in ("removed_argument", "added_argument")}
    if None in (*sides["pro_arguments"], *sides["con_arguments"], *single.values()):
        return None
    return {**row, **sides, **single, "id": f"{row['id']}-{PARAPHRASED}", "paraphrased": 1}


class SplitSets(NamedTuple):
    """The rows of one split.

    Attributes:
      plain: rows without paraphrases, with and without synthetic errors.
      paraphrased: the same rows with paraphrased arguments.
      organic: rows with full errors that annotators found; None = not annotated.
    """

    plain: Sequence[Row] = ()
    paraphrased: Sequence[Row] = ()
    organic: Sequence[Row] | None = None


def training_sets(train: SplitSets, validation: SplitSets) -> dict[str, list[Row] | None]:
    """Returns the nested training sets of section 5.2 by name; None if annotations are missing.

    Each set contains the ones before it.
    """
    synth = list(train.plain)
    para = [*synth, *train.paraphrased]
    dev = [*para, *validation.plain, *validation.paraphrased]
    organic = None
    if train.organic is not None and validation.organic is not None:
        organic = [*dev, *train.organic, *validation.organic]
    return {"synth": synth, "para": para, "dev": dev, "org": organic}


def read_topics(knowledge: str, splits: Sequence[str] = npov.SPLITS) -> list[npov.Topic]:
    """Returns the topics of some splits; raises an InputError if a split has none."""
    folder = npov.topics_folder(knowledge)
    topics = npov.load_topics(folder)
    present = dict.fromkeys(topic.split for topic in topics)
    for split in splits:
        if split not in present:
            raise InputError(
                f"{folder / npov.TOPICS_FILE}: no topic has the split {split!r}, only "
                f"{', '.join(present)}; give one of them that split, or choose with --splits."
            )
    return [topic for topic in topics if topic.split in splits]


def write_inputs(options: "Inputs") -> list[str]:
    """Writes a generator's inputs as rows for `infer`; returns lines about them."""
    rows = [
        row
        for topic in read_topics(options.knowledge, options.splits)
        for row in response_rows(topic, options.combinations, options.seed)
    ]
    lines = []
    with working_folder(options.output) as (folder, _):
        for temperature in TEMPERATURES:
            part = [row for row in rows if row["temperature"] == temperature]
            path = folder / f"t{temperature:.1f}.jsonl"
            write_jsonl(path, part)
            lines.append(f"{path}: {pluralize(len(part), 'row')} for temperature {temperature:.1f}")
    return lines


def check_errors_per_response(topics: Sequence[npov.Topic], options: NpovDetection) -> None:
    """Raises an InputError if topics cannot give the requested errors, before generating."""
    rows = [
        {**row, "response": ""}
        for topic in topics
        for row in response_rows(topic, options.combinations, options.seed)
    ]
    try:
        _synthetic_sets(rows, {topic.id: topic for topic in topics}, options)
    except InputError as error:
        raise InputError(f"even if all responses were error-free: {error}") from None


def write_sets(options: "Sets") -> str:
    """Writes training, validation and test sets, and returns a summary as text.

    If an exception is raised, for example for too few rows with an error, nothing is written.
    """
    topics = {topic.id: topic for topic in npov.load_topics(options.knowledge)}
    rows = _read_responses(pathlib.Path(options.input), topics)
    labels = _read_labels(rows, options.marks) if options.marks else None
    if labels is None:
        verdicts = _judge_by_rule(rows, topics, options)
    else:
        verdicts = _judge_by_marks(labels)
    free = [row for row in rows if verdicts.get(row["id"]) == _ERROR_FREE]
    if not any(row["split"] == "test" for row in free):
        tested = sum(row["split"] == "test" for row in rows)
        raise InputError(
            f"none of {pluralize(tested, 'response')} to a test topic is error-free, so that "
            "there is nothing to put errors into; train the generator longer, lower "
            "--least-recall and --least-precision, or give --marks."
        )
    splits, lost = _synthetic_sets(free, topics, options)
    for split in splits:
        organic = _organic_rows(rows, labels, split, Slice.FULL_ORGANIC)
        if organic is not None:
            organic = [row for row in organic if row["error"] == "organic"]
        splits[split] = splits[split]._replace(organic=organic)
    sets = _named_sets(splits, {row["split"] for row in rows})
    tests = {
        "full organic": _organic_rows(rows, labels, "test", Slice.FULL_ORGANIC),
        "unparaphrased synthetic": splits["test"].plain or None,
        "paraphrased synthetic": splits["test"].paraphrased or None,
        "ambiguous organic": _organic_rows(rows, labels, "test", Slice.AMBIGUOUS_ORGANIC),
    }
    sets |= {f"test_{name.replace(' ', '_')}": members for name, members in tests.items()}
    tables = [_verdict_table(rows, verdicts, labels is not None), _sets_table(sets)]
    shares = f"{len(free):,} of {pluralize(len(rows), 'response')}"
    notes = list(_collect_set_notes(shares, labels, lost, options))
    summary = {"notes": notes, "tables": [table._asdict() for table in tables]}
    with working_folder(options.output) as (folder, _):
        for name, members in sets.items():
            path = folder / f"{name}.jsonl"
            if members is None:
                path.unlink(missing_ok=True)
            else:
                write_jsonl(path, members)
        write_jsonl(
            folder / TEST,
            ({"corpus": name, **row} for name, members in tests.items() for row in members or ()),
        )
        write_json(folder / SUMMARY, summary)
    rendered = "\n".join(render_table(table) for table in tables)
    return "".join(f"{note}\n" for note in notes) + f"\n{rendered}"


def read_summary(folder: pathlib.Path) -> tuple[list[str], list[Table]]:
    """Returns the notes and tables that `write_sets` wrote into its folder."""
    summary = read_json(folder / SUMMARY)
    tables = [Table(**table) for table in summary["tables"]]
    return summary["notes"], [
        table._replace(rows=tuple(map(tuple, table.rows))) for table in tables
    ]


class GeneratedRow(msgspec.Struct):
    """A row that sets are made from: the output of `infer` for a row of `write_inputs`."""

    id: Text
    topic: Text
    query: Text
    pro_arguments: Texts
    con_arguments: Texts
    response: str


def _read_responses(path: pathlib.Path, topics: Mapping[str, npov.Topic]) -> list[dict[str, Any]]:
    """Returns the responses, topic by topic."""
    responses: list[dict[str, Any]] = []
    seen: set[str] = set()
    for place, row in read_jsonl(path):
        renamed = {"response": row["prediction"], **row} if "prediction" in row else row
        response = msgspec.structs.asdict(convert_row(renamed, place, GeneratedRow, strip=False))
        if response["topic"] not in topics:
            raise InputError(
                f"{place}: field 'topic': {response['topic']!r} is no topic of --knowledge; name "
                "the folder of the topics that were responded to."
            )
        if response["id"] in seen:
            raise InputError(f"{place}: field 'id': {response['id']!r} occurs twice.")
        seen.add(response["id"])
        responses.append({**response, "split": topics[response["topic"]].split})
    order = list(topics)
    return sorted(responses, key=lambda row: (order.index(row["topic"]), row["id"]))


def _read_labels(rows: Iterable[Row], marks: str) -> list[Label]:
    examples = {}
    for row in rows:
        grounding = Grounding.two_sided(row["pro_arguments"], row["con_arguments"])
        examples[row["id"]] = GroundedExample(
            row["id"], grounding, (row["query"],), row["response"]
        )
    by_id = read_marks(pathlib.Path(marks), examples).by_id()
    labels = (combine_marks(examples[name], group) for name, group in by_id.items())
    return [label for label in labels if label is not None]


def _judge_by_marks(labels: Iterable[Label]) -> dict[str, str]:
    """Returns the errors that people found in responses (section 4.1), or `_ERROR_FREE`, by id."""
    return {
        label.example.id: _ERROR_FREE
        if label.slice is Slice.ERROR_FREE
        else str(label.slice).replace("_", " ")
        for label in labels
    }


def _judge_by_rule(
    rows: Iterable[Row], topics: Mapping[str, npov.Topic], options: "Sets"
) -> dict[str, str]:
    """Returns the errors that a rule of words finds in responses, or `_ERROR_FREE`, by id."""
    rule = ErrorFreeRule(options.least_recall, options.least_precision)
    verdicts = {}
    for row in rows:
        arguments = (*row["pro_arguments"], *row["con_arguments"])
        unused = [t for s in SIDES for t in unused_arguments(row, topics[row["topic"]], s)]
        error = rule.error(row["response"], row["query"], arguments, unused)
        verdicts[row["id"]] = error or _ERROR_FREE
    return verdicts


def _synthetic_sets(
    free: Sequence[Row], topics: Mapping[str, npov.Topic], options: "Sets | NpovDetection"
) -> tuple[dict[str, SplitSets], int]:
    """Puts synthetic errors into error-free responses (section 4.2), split by split.

    Returns:
      The sets, and the number of rows that have an argument without a paraphrase.

    Raises:
      InputError: if too few rows have an error.
    """
    written, sets, lost = paraphrases(topics.values()), dict[str, SplitSets](), 0
    for split in npov.SPLITS:
        plain = [
            changed
            for row in free
            if row["split"] == split
            for changed in synthetic_rows(row, topics[row["topic"]], retold_spans, options.seed)
        ]
        reworded = [paraphrase_row(row, written) for row in plain]
        lost += reworded.count(None)
        sets[split] = SplitSets(plain, [row for row in reworded if row is not None])
    if options.errors_per_response is not None:
        sets = _draw_errors(sets, options.errors_per_response, options.seed)
    return sets, lost


def _draw_errors(sets: Mapping[str, SplitSets], errors: float, seed: int) -> dict[str, SplitSets]:
    """Returns sets with `errors` rows with an error for each error-free row (section 4.2)."""
    drawn, too_few = {}, []
    for split, members in sets.items():
        parts = {}
        for kind in ("plain", PARAPHRASED):
            rows, label = getattr(members, kind), f"{split}, {kind}"
            try:
                parts[kind] = with_errors_per_response(rows, errors, label, seed)
            except InputError as error:
                too_few.append(str(error))
        drawn[split] = members._replace(**parts)
    if too_few:
        raise InputError(f"--errors-per-response: {'; '.join(too_few)}. {_MORE_ERRORS}")
    return drawn


def _organic_rows(
    rows: Iterable[Row], labels: Iterable[Label] | None, split: str, part: Slice
) -> list[Row] | None:
    """Returns a split's error-free rows and rows with organic errors; None without marks."""
    if labels is None:
        return None
    fields_by_id = {row["id"]: {"topic": row["topic"]} for row in rows if row["split"] == split}
    split_labels = [label for label in labels if label.example.id in fields_by_id]
    names = (
        "id", "topic", "query", "pro_arguments", "con_arguments", "response", "has_hallucination",
        "has_coverage_error",
    )  # fmt: skip
    return [
        {name: row[name] for name in names}
        | {
            "error": "none" if row["slice"] == Slice.ERROR_FREE else "organic",
            "removed_argument": "",
            "added_argument": row["added_argument"],
            "paraphrased": 0,
            "hallucinated_spans": row["hallucinated_spans"],
        }
        for row in slice_rows(split_labels, part, fields_by_id)
    ]


def _named_sets(
    splits: Mapping[str, SplitSets], present: set[str]
) -> dict[str, Sequence[Row] | None]:
    """Returns training and validation sets; None for sets of splits without responses."""
    sets: dict[str, Sequence[Row] | None] = {}
    for name, members in training_sets(splits["train"], splits["validation"]).items():
        needed = {"train"} if name in ("synth", "para") else {"train", "validation"}
        sets[f"train_{name}"] = members if needed <= present and members else None
    validation = splits["validation"]
    return sets | {"validation": [*validation.plain, *validation.paraphrased] or None}


def _sets_table(sets: Mapping[str, Sequence[Row] | None]) -> Table:
    flags = ("has_hallucination", "has_coverage_error", "paraphrased")
    rows: list[tuple[Any, ...]] = []
    for name, members in sets.items():
        counts: Sequence[int | None] = (None,) * 5
        if members is not None:
            free = sum(row["error"] == "none" for row in members)
            counts = (len(members), free, *(sum(row[f] for row in members) for f in flags))
        rows.append((name, *counts))
    columns = ("set", "rows", "error-free", "hallucination", "coverage error", "paraphrased")
    return Table("Data sets", columns, tuple(rows), ("A dash: needs marks, or another split.",))


def _verdict_table(rows: Iterable[Row], verdicts: Mapping[str, str], is_marked: bool) -> Table:
    """Returns each topic's numbers of error-free responses, and of others by error."""
    counts: dict[tuple[str, str], collections.Counter[str]] = {}
    for row in rows:
        count = counts.setdefault((row["split"], row["topic"]), collections.Counter())
        count[verdicts.get(row["id"], NOT_ANNOTATED)] += 1
    names = (_ERROR_FREE, *((*_ORGANIC, NOT_ANNOTATED) if is_marked else REASONS))
    lines = [
        (*key, sum(count.values()), *(count[name] for name in names))
        for key, count in counts.items()
    ]
    for split in dict.fromkeys(split for split, _ in counts):
        members = [line[2:] for line in lines if line[0] == split]
        lines.append((split, "all topics", *(sum(column) for column in zip(*members, strict=True))))
    by = "a rule of words, which stands in for the paper's annotation, and why others are not"
    if is_marked:
        by = "people's marks, and with which errors"
    title = f"Responses by topic: error-free by {by}"
    return Table(title, ("split", "topic", "responses", *names), tuple(lines))


def _collect_set_notes(
    free: str, labels: Sequence[Label] | None, lost: int, options: "Sets"
) -> Iterator[str]:
    """Yields notes on how errors were determined, and on missing parts."""
    if labels is not None:
        seen = pluralize(len(labels), "response")
        yield f"Error-free by people's marks ({options.marks}): {free}; {seen} are annotated."
    else:
        yield (
            f"STAND-IN for the paper's annotation: {free} count as error-free by a rule of words: "
            f"at least {options.least_recall:g} of the stems of each given argument are in the "
            f"response, at least {options.least_precision:g} of the response's stems in the query "
            "or a given argument, and less than "
            f"{ErrorFreeRule.unused:g} of an unused argument's own. Such a choice favours "
            "ROUGE, which sees the same words."
        )
        yield "Organic errors are not annotated: give --marks (faith-jax annotate)."
    yield (
        "Words of synthetic errors (table 3): uncovered are the words of the added argument; "
        "hallucinated is, for each sentence of the removed argument, the stretch of the response "
        "from the first to the last word of it in the sentence that has most of them, by a rule "
        "and not by annotators."
    )
    if options.errors_per_response is not None:
        yield (
            f"Rows with a synthetic error: {options.errors_per_response:.4g} to each error-free "
            "response, drawn."
        )
    if lost:
        yield (
            f"{pluralize(lost, 'row')} left out of the paraphrased sets, with an argument without "
            "a written paraphrase."
        )
