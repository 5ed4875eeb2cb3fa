"""The report on a run's input before it begins, counted from the rows without running a model.

A training's report says how often each member of a mixture is read, how much of each part is cut,
whether validation shares groundings with training, and what a step costs, and shows the first
examples. The reports of `infer` and `score` say what is cut and show the first inputs.
"""

import contextlib
import json
import logging
import pathlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from faith_jax.core.cutting import CutTokens, Kind
from faith_jax.core.errors import InputError, pluralize
from faith_jax.core.files import make_output_folder, write_json
from faith_jax.core.labels import labels_line
from faith_jax.core.table import printable
from faith_jax.datasets.grounded_rows import ExampleRow
from faith_jax.scoring.base import BaseScorer
from faith_jax.tokenizers.unknown import PARTS as UNKNOWN_PARTS
from faith_jax.tokenizers.unknown import (
    UnknownTokens,
    counting_unknown,
    unknown_lines,
    unknown_warnings,
)
from faith_jax.tokenizers.vocabularies import special_id

if TYPE_CHECKING:  # `score` without a model starts without JAX
    from faith_jax.datasets.input_rows import InputRow
    from faith_jax.inference.texts.row_tokens import RowTokens
    from faith_jax.input.row_cache import RowCache
    from faith_jax.input.task_batches import SplitRows

logger = logging.getLogger("faith_jax")

Report = dict[str, Any]

_PARTS = (Kind.KNOWLEDGE, Kind.HISTORY, Kind.RESPONSE, Kind.OTHER)
_MOST_CUT = 0.05  # share of rows
_MULTIPLE = 8  # proposed lengths are multiples of this number of tokens
_EXAMPLES = 3
_UNKNOWN_MARK = " \u2047 "  # as SentencePiece shows an unknown token


def training_report(
    rows: "SplitRows", steps: int, validation: "SplitRows | None", tokenizer: Any
) -> Report:
    """Reports on the rows that a training of `steps` steps will read.

    `members` has the rows, readings and epochs of each member; `cut` is by part, see `cut_report`;
    `validation` has the number of its rows, their cuts, and how many of them share a grounding with
    training rows; `shorter_lengths` are TASK_FEATURE_LENGTHS that would suffice, with which a row
    is `times_shorter`; `warnings` are sentences.
    """
    num_places = rows.places(steps - 1)[-1][-1] + 1
    readings = rows.order.count_read(np.array([num_places]))[:, 0].tolist()
    shorter = _shorter_lengths([rows, *([validation] if validation else [])])
    report: Report = {
        "task": rows.config.mixture_or_task_name,
        "split": rows.config.split,
        "steps": steps,
        "batch_size": rows.config.batch_size,
        "examples_read": num_places,
        "members": [
            {
                "name": member.name,
                "rows": len(member),
                "read": read,
                "epochs": round(read / len(member), 4),
                "never_read": max(0, len(member) - read),
                "shuffled": shuffled,
            }
            for member, read, shuffled in zip(
                rows.members, readings, rows.order.shuffled, strict=True
            )
        ],
        "cut": cut_report(_collect_cuts(rows.members)),
        "negatives_cut": int(
            sum(np.asarray(m.column("negatives_cut").fill_null(0)).sum() for m in rows.members)
        ),
        "lengths": {
            name: percentiles(np.concatenate([m.lengths(name) for m in rows.members]))
            for name in ("inputs", "targets")
        },
        "shorter_lengths": shorter,
        "unknown": _report_unknown_tokens(rows.members),
        "examples": list(_decode_examples(rows, tokenizer)),
    }
    if shorter:
        tokens = sum(rows.config.task_feature_lengths[name] for name in shorter)
        report["times_shorter"] = round(tokens / sum(shorter.values()), 1)
    if labels := rows.config.error_labels:
        report["labels"] = labels
    if validation is not None:
        trained, judged = np.unique(_collect_groundings(rows)), _collect_groundings(validation)
        report["validation"] = {
            "split": validation.config.split,
            "rows": len(judged),
            "cut": cut_report(_collect_cuts(validation.members)),
            "unknown": _report_unknown_tokens(validation.members),
            "shared_groundings": int((np.isin(judged, trained) & (judged != 0)).sum()),
        }
    report["warnings"] = list(_list_warnings(report))
    return report


def _shorter_lengths(splits: "Sequence[SplitRows]") -> dict[str, int]:
    """Returns lengths of inputs and targets that have room for all rows, if they save a third.

    Rows are padded to TASK_FEATURE_LENGTHS, and a step also computes the padding. Empty = too
    little to save, or rows are packed.
    """
    config = splits[0].config
    limits = {name: config.task_feature_lengths[name] for name in ("inputs", "targets")}
    longest = {
        name: max(int(member.lengths(name).max()) for split in splits for member in split.members)
        for name in limits
    }
    shorter = {
        name: min(limit, -(-longest[name] // _MULTIPLE) * _MULTIPLE)
        for name, limit in limits.items()
    }
    if config.pack or 3 * sum(shorter.values()) > 2 * sum(limits.values()):
        return {}
    return shorter


def inference_report(
    source: str, rows: "Iterable[InputRow]", read: "RowTokens", total: int | None = None
) -> Report:
    """Reports on the rows that `infer` will read and what is cut of them, with the first examples.

    If `rows` are only the first ones, `total` is the number of all rows, and the report's
    `looked_at` is the number of `rows`.
    """
    lengths, cuts, examples = list[int](), list[CutTokens](), list[Report]()
    unknown = UnknownTokens()
    for row in rows:
        with counting_unknown(unknown):
            row_tokens = read(row)
        lengths.append(len(row_tokens.ids))
        cuts.append(row_tokens.cut)
        if len(examples) < _EXAMPLES:
            examples.append(
                {"id": row.id, "inputs": _decode_with_marks(read.tokenizer, row_tokens.ids)}
            )
            if row_tokens.second:
                examples[-1]["second"] = _decode_with_marks(read.tokenizer, row_tokens.second)
    report: Report = {"source": source, "rows": total or len(lengths)}
    if report["rows"] != len(lengths):
        report["looked_at"] = len(lengths)
    report |= {
        "lengths": {"inputs": percentiles(np.array(lengths))},
        "cut": cut_of_inputs(cuts),
        "unknown": unknown.report(),
        "examples": examples,
    }
    report["warnings"] = [*cut_warnings(report["cut"]), *unknown_warnings(report["unknown"])]
    return report


def scoring_report(
    source: str,
    rows: Iterable[ExampleRow],
    scorers: Mapping[str, BaseScorer],
    notes: Callable[[], Mapping[str, Sequence[str]]],
    total: int | None = None,
) -> Report:
    """Reports on the inputs that each scorer's model will read, see `inference_report`.

    For each scorer whose model reads tokens, the report has the number of its `inputs`, how many
    are cut (`inputs_cut`), how much by part (`cut`), and the first `examples`. `notes` returns
    `TableNotes.report` of the input and is called once the rows are read.
    """
    count = 0
    seen: dict[str, list[CutTokens]] = {scorer: [] for scorer in scorers}
    first: dict[str, list[Report]] = {scorer: [] for scorer in scorers}
    unknown = {scorer: UnknownTokens() for scorer in scorers}
    for row in rows:
        count += 1
        for name, scorer in scorers.items():
            with naming(source, name), counting_unknown(unknown[name]):
                model_input = scorer.seen(row.example)
            if model_input is not None:
                seen[name].append(model_input.cut)
                if len(first[name]) < _EXAMPLES:
                    first[name].append({"id": row.example.id, **model_input.texts})
    reports: Report = {
        name: {
            "inputs": len(cuts),
            "inputs_cut": sum(map(bool, cuts)),
            "cut": cut_of_inputs(cuts),
            "unknown": unknown[name].report(),
            "examples": first[name],
        }
        for name, cuts in seen.items()
        if cuts
    }
    warnings = [
        f"{name}: {sentence}"
        for name, report in reports.items()
        for sentence in (*cut_warnings(report["cut"]), *unknown_warnings(report["unknown"]))
    ]
    report: Report = {"source": source, "rows": total or count}
    if report["rows"] != count:
        report["looked_at"] = count
    report |= {"scorers": reports, "warnings": [*notes()["warnings"], *warnings]}
    return report | {"input": list(notes()["lines"])}


@contextlib.contextmanager
def naming(source: str, scorer: str) -> Iterator[None]:
    """Adds the names of the input and the scorer to an InputError about a row."""
    try:
        yield
    except InputError as error:
        raise InputError(f"{source}: {scorer}: {error}") from None


def beside(output: pathlib.Path) -> pathlib.Path:
    """Returns the path of the report beside an output that does not exist yet."""
    output = output if output.name else output.absolute()  # "." has no name
    return output.with_name(f"{output.name}.preflight.json")


def tell(report: Report, path: pathlib.Path | None, dry_run: bool = False) -> None:
    """Logs a report, or prints it in a dry run, and writes it as JSON to `path`, if given."""
    lines = list(_format_report(report))
    if dry_run:
        lines += (f"warning: {line}" for line in report["warnings"])
        print(printable("\n".join(lines), "\n\t"))
    else:
        for line in lines:
            logger.info("%s", line)
        for warning in report["warnings"]:
            logger.warning("%s", warning)
    if path is not None:
        make_output_folder(path.parent, str(path))
        write_json(path, report)
        logger.info("Written: %s", path)


def cut_of_inputs(cuts: Sequence[CutTokens]) -> Report:
    """Returns `cut_report` of inputs.

    `mostly` is the share of inputs that lose more than half of their knowledge, `last_turns` the
    number of inputs that lose tokens of their last turn.
    """
    report = cut_report(
        {part.name.lower(): np.array([cut.get(part, 0) for cut in cuts]) for part in _PARTS}
    )
    if "knowledge" in report:
        mostly = [2 * cut.get(Kind.KNOWLEDGE, 0) > cut.knowledge for cut in cuts]
        report["knowledge"]["mostly"] = float(np.mean(mostly))
    if last_turns := sum(tokens.last_turn for tokens in cuts):
        report["history"]["last_turns"] = last_turns
    return report


def cut_report(counts: Mapping[str, np.ndarray]) -> Report:
    """Returns how much is cut of each part that is cut; `counts` are cut tokens by row.

    That is: how many `rows` lose tokens, their `share`, and percentiles of their lost tokens.
    """
    return {
        part: {"rows": int((cut > 0).sum()), "share": float((cut > 0).mean())}
        | percentiles(cut[cut > 0])
        for part, cut in counts.items()
        if cut.any()
    }


def percentiles(values: np.ndarray) -> dict[str, int]:
    """Returns {"p50", "p90", "p99", "max"} of whole numbers; all 0 if there are no numbers."""
    shares = {"p50": 50, "p90": 90, "p99": 99, "max": 100}
    if not len(values):
        return dict.fromkeys(shares, 0)
    quantiles = np.percentile(values, list(shares.values()), method="higher")
    return dict(zip(shares, map(int, quantiles), strict=True))


def cut_warnings(cut: Report, training: bool = False) -> Iterator[str]:
    """Yields a sentence for each part of which too many rows lose tokens.

    Losing the end of long knowledge is often harmless, so only a loss of more than half counts.
    In training any loss counts: targets were written with all the knowledge, so a cut teaches the
    model to state things that it was not given.
    """
    for part, losses in cut.items():
        share, name = losses["share"], "text outside of known parts" if part == "other" else part
        lost = f"tokens of their {name}"
        if part == "knowledge" and training:
            lost += ", which their targets may need"
        elif part == "knowledge":
            share, lost = losses.get("mostly", 0), "more than half of their knowledge"
        if share > _MOST_CUT:
            yield f"{100 * share:.1f}% of the inputs lose {lost}."
        if last_turns := losses.get("last_turns"):
            inputs = pluralize(last_turns, "input")
            yield f"The last turn, which the response answers, is cut in {inputs}."


def _cut_lines(cut: Report) -> Iterator[str]:
    """Yields a line for each part that loses tokens, or one line that nothing is cut."""
    if not cut:
        yield "  nothing is cut"
    for part, losses in cut.items():
        yield (
            f"  cut of {part}: {pluralize(losses['rows'], 'row')} ({100 * losses['share']:.1f}%); "
            f"tokens that such a row loses: {_format_percentiles(losses)}"
        )


def _format_percentiles(values: Mapping[str, int]) -> str:
    return "median {p50}, 90% {p90}, 99% {p99}, longest {max}".format_map(values)


def _collect_cuts(members: "Sequence[RowCache]") -> dict[str, np.ndarray]:
    cuts = np.concatenate([_table_of(member, "cut", len(Kind)) for member in members])
    return {part.name.lower(): cuts[:, part] for part in _PARTS}


def _report_unknown_tokens(members: "Sequence[RowCache]") -> Report:
    """Returns the report of `UnknownTokens` over all rows of all members."""
    counts, width = UnknownTokens(), len(UNKNOWN_PARTS)
    for member in members:
        tokens = _table_of(member, "part_tokens", width).sum(axis=0)
        unknown = _table_of(member, "unknown", width).sum(axis=0)
        counts.add_rows(tokens, unknown, member.column("unknown_characters").to_pylist())
    return counts.report()


def _table_of(member: "RowCache", column: str, width: int) -> np.ndarray:
    """Returns a column of lists as an array: [rows, width]."""
    return np.asarray(member.column(column).combine_chunks().flatten()).reshape(-1, width)


def _collect_groundings(rows: "SplitRows") -> np.ndarray:
    return np.concatenate([np.asarray(member.column("grounding")) for member in rows.members])


def _decode_examples(rows: "SplitRows", tokenizer: Any) -> Iterator[Report]:
    """Yields the first examples of training, decoded."""
    members, numbers = rows.order.rows(np.arange(_EXAMPLES))
    for member, number in zip(members.tolist(), numbers.tolist(), strict=True):
        cache = rows.members[member]
        row = cache[number]
        fields = {
            "member": cache.name,
            "id": cache.column("id")[number].as_py(),
            "inputs": _decode_with_marks(tokenizer, row["inputs"]),
        }
        if len(row["targets"]):
            fields["targets"] = _decode_with_marks(tokenizer, row["targets"])
        if row["label"] is not None:
            fields["label"] = row["label"]
        if row["negatives"]:
            fields["negatives"] = [_decode_with_marks(tokenizer, ids) for ids in row["negatives"]]
        yield fields


def _decode_with_marks(tokenizer: Any, ids: Sequence[int]) -> str:
    """Returns the text of ids, with a mark for each unknown token.

    For a tokenizer that passes ids through, the text lists the ids.
    """
    unknown, parts = special_id(tokenizer, "unk"), list[list[int]]([[]])
    for token in map(int, ids):
        if token == unknown:
            parts.append([])
        else:
            parts[-1].append(token)
    texts = map(tokenizer.decode, parts)
    return _UNKNOWN_MARK.join(
        text if isinstance(text, str) else " ".join(map(str, text)) for text in texts
    )


def _list_warnings(report: Report) -> Iterator[str]:
    for member in report["members"]:
        if member["never_read"]:
            yield (
                f"{member['name']}: {member['never_read']:,} of {member['rows']:,} rows are never "
                f"read: the run ends after {member['epochs']:.2f} epochs of it."
            )
        if not member["shuffled"]:
            yield f"{member['name']} is read in its own order, without any shuffling."
    yield from cut_warnings(report["cut"], training=True)
    yield from unknown_warnings(report["unknown"])
    shared = report.get("validation", {}).get("shared_groundings")
    if shared:
        total = report["validation"]["rows"]
        yield (
            f"{shared:,} of {total:,} rows of {report['validation']['split']} have a grounding "
            "that training rows have too."
        )


def _format_report(report: Report) -> Iterator[str]:
    looked_at = f"; of the first {report['looked_at']:,}:" if "looked_at" in report else ""
    if "scorers" in report:
        yield f"{report['source']}: {pluralize(report['rows'], 'row')} to score{looked_at}"
        yield from (f"  {line}" for line in report["input"])
        scorers_by_input: dict[str, list[str]] = {}  # groups scorers with equal reports
        for scorer, inputs_report in report["scorers"].items():
            scorers_by_input.setdefault(json.dumps(inputs_report), []).append(scorer)
        for scorers in scorers_by_input.values():
            inputs_report = report["scorers"][scorers[0]]
            inputs = pluralize(inputs_report["inputs"], "input")
            yield f"{', '.join(scorers)}: {inputs}, {inputs_report['inputs_cut']:,} cut"
            yield from _cut_lines(inputs_report["cut"])
            yield from unknown_lines(inputs_report["unknown"])
            # As JSON, so that a text stays on one line and cannot control the terminal.
            yield from _example_lines(inputs_report["examples"], json.dumps)
        return
    if "steps" in report:
        yield (
            f"{report['task']}, split {report['split']!r}: "
            f"{pluralize(report['examples_read'], 'example')} in "
            f"{pluralize(report['steps'], 'step')} of {pluralize(report['batch_size'], 'row')}"
        )
        for member in report["members"]:
            yield (
                f"  {member['name']}: {pluralize(member['read'], 'reading')} of "
                f"{pluralize(member['rows'], 'row')} ({member['epochs']:,.2f} epochs; "
                f"{pluralize(member['never_read'], 'row')} never)"
            )
    else:
        yield f"{report['source']}: {pluralize(report['rows'], 'row')}{looked_at}"
    for name, lengths in report["lengths"].items():
        yield f"  tokens of {name}: {_format_percentiles(lengths)}"
    if shorter := report.get("shorter_lengths"):
        yield (
            f"  TASK_FEATURE_LENGTHS = {shorter} has room for all rows, and a step has "
            f"{report['times_shorter']} times fewer tokens: add "
            f'--gin.TASK_FEATURE_LENGTHS="{shorter}"'
        )
    yield from _cut_lines(report["cut"])
    yield from unknown_lines(report["unknown"])
    if report.get("labels"):
        yield f"  {labels_line(report['labels'])}"
    if report.get("negatives_cut"):
        yield f"  cut of negatives: {pluralize(report['negatives_cut'], 'text')}"
    if validation := report.get("validation"):
        rows = pluralize(validation["rows"], "row")
        yield f"validation, split {validation['split']!r}: {rows}"
        yield from _cut_lines(validation["cut"])
        yield from unknown_lines(validation["unknown"])
    if model := report.get("model"):
        yield (
            f"trained parameters: {model['trained']:,}; frozen: {model['frozen']:,}; a step: "
            f"{model['step_operations']:.3g} operations and {model['step_bytes'] / 2**20:,.0f} MiB "
            f"on each device; attention kernel: {model['attention_kernel']}"
        )
    yield from _example_lines(report["examples"], str)


def _example_lines(examples: Sequence[Report], format_value: Callable[[Any], str]) -> Iterator[str]:
    for number, example in enumerate(examples, 1):
        yield f"example {number}:"
        for name, value in example.items():
            yield f"  {name}: {format_value(value)}"
