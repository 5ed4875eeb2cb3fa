"""The run `certify`: checks that a judge scores as its own code does, on this machine and dtype.

Scores of 200 pairs of our own sentences are compared with reference scores by the judge's own code:
for tiny random models, tools/make_judge_references.py computed them; for the published model, a
user did. Scores in another dtype are compared with scores in float32.
"""

import dataclasses
import math
import pathlib
import re
import shutil
import statistics
import tempfile
import types
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, NamedTuple

import msgspec

from faith_jax.core.errors import ConfigError, InputError, pluralize
from faith_jax.core.files import atomic_folder, reserve_outputs, write_json, write_jsonl
from faith_jax.core.files.stores import path_of
from faith_jax.core.rows import BadRows, read_json, read_jsonl
from faith_jax.core.schema import Text, read_as, read_toml_as
from faith_jax.core.table import Table
from faith_jax.inference.opening import clear_models
from faith_jax.report.table_pages import render_table
from faith_jax.runs.judges.options import CertifyOptions
from faith_jax.runs.judges.reference_models import T5_IDS, write_histogram, write_reference_model
from faith_jax.runs.judges.verdicts import check_is_judge
from faith_jax.scoring.judges.card import ENDING, JudgeCard, ReadWords, read_card
from faith_jax.scoring.judges.chunks import text_between
from faith_jax.scoring.registry import load_scorer

_FOLDER = pathlib.Path(__file__).parent
_QUERY = "What is known of it?"
# The first tokens of words in T5's published vocabulary; MiniCheck's code hard-codes 3 and 209.
_PUBLISHED_IDS = {
    **{"1": 209, "0": 3, "Yes": 2163, "No": 465},
    **{"Attributable": 486, "Contradictory": 17277, "Extrapolatory": 8505},
}
# Largest differences that are allowed; tiny random models are sensitive on purpose.
_OF_REFERENCES, _OF_BFLOAT16, _OF_TINY_BFLOAT16 = 1e-4, 0.05, 0.2
_SHOWN = 5  # differing pairs shown for each comparison
# Classes of the tiny models' heads; cards that are not listed have two.
_CLASSES = dict.fromkeys(
    ("wecheck_deberta_v3", "summac_zs_vitaminc", "summac_conv_vitaminc", "alignscore"), 3
)


class ScoredPair(NamedTuple):
    """A grounding and a response to score."""

    kind: str  # the case that the pair tests
    texts: tuple[str, ...]  # of the grounding
    response: str
    query: str = ""  # the last turn before the response


class _Sentences(msgspec.Struct, forbid_unknown_fields=True):
    facts: list[tuple[str, str, str, str]]
    unicode: list[tuple[str, str, str, str]]
    edges: list[tuple[list[str], str]]


def certification_pairs() -> list[ScoredPair]:
    """Returns the 200 pairs, for which the stored references were computed."""
    read = read_toml_as(_FOLDER / "pairs.toml", _Sentences)
    pairs = list[ScoredPair]()
    for kind, facts in (("short", read.facts), ("unicode", read.unicode)):
        for number, (first, second, supported, contradicted) in enumerate(facts):
            text = (f"{first} {second}",)
            pairs += [
                ScoredPair(f"{kind}, supported", text, supported),
                ScoredPair(f"{kind}, contradicted", text, contradicted),
                ScoredPair(f"{kind}, unrelated", text, facts[(number + 7) % len(facts)][2]),
            ]
    for number, (first, second, supported, _) in enumerate(read.facts):
        contradicted = read.facts[(number + 1) % len(read.facts)][3]
        pairs.append(
            ScoredPair("two texts", (first, second), f"{supported} {contradicted}", _QUERY)
        )
    pairs += [ScoredPair("edge", tuple(texts), response) for texts, response in read.edges]
    for number in range(15):
        # 35 facts are longer than a chunk of any card.
        order = [read.facts[(number + place) % len(read.facts)] for place in range(35)]
        passages = [f"{first} {second}" for first, second, _, _ in order]
        texts = tuple(" ".join(passages[start : start + 5]) for start in range(0, 35, 5))
        long = (texts, ("\n".join(texts),), (" ".join(passages),))[number % 3]
        pairs += [
            ScoredPair("long, supported", long, order[0][2]),
            ScoredPair("long, contradicted", long, order[20][3]),
            ScoredPair("long, supported at its end", long, f"{order[34][2]} {order[33][2]}"),
        ]
    return pairs


def reference_model(
    folder: pathlib.Path,
    name: str,
    family: str,
    sizes: Mapping[str, int] = types.MappingProxyType({}),
) -> pathlib.Path:
    """Writes the tiny model of one of the package's cards, in given sizes; returns its folder."""
    card = read_card(name)
    reads = card.reads
    classes = 0 if isinstance(reads, ReadWords) else _CLASSES.get(name, 2)
    loud = dict[int, float]()
    if isinstance(reads, ReadWords):
        # The longest piece that a word begins with.
        pieces = sorted(T5_IDS, key=len, reverse=True)
        words = [f"\u2581{word}" for word in reads.words or ()]
        ids = [T5_IDS[next(filter(word.startswith, pieces))] for word in words]
        # With these signs, the first word's probability is near neither 0 nor 1.
        factors = [4.0, 4.0] if len(ids) == 2 else [-4.0, 4.0, 4.0]
        if reads.over == "vocabulary":
            factors = [-10.0]
        loud = dict(zip(ids, factors, strict=False))
    texts = (text for pair in certification_pairs() for text in pair.texts)
    known_words = {word for text in texts for word in re.findall("[A-Za-z]+", text)}
    write_reference_model(folder, family, classes, sorted(known_words), loud, sizes)
    if card.histogram is not None:
        write_histogram(folder / card.histogram.file, len(card.histogram.edges) - 1)
    return folder


class References(msgspec.Struct, forbid_unknown_fields=True):
    """The scores that a judge's own code gives its tiny model."""

    code: Text  # name and version of the judge's code
    scores: list[float | None]  # of each pair; None = the code gives no score


def read_references() -> dict[str, References]:
    """Returns the references of the package's cards by name."""
    return msgspec.convert(read_json(_FOLDER / "references.json"), dict[str, References])


class _ReferenceRow(msgspec.Struct):
    pair: Annotated[int, msgspec.Meta(ge=1)]
    score: float | None = None


@dataclasses.dataclass(frozen=True)
class ScoreComparison:
    """Two lists of scores of the same pairs; NaN = undefined."""

    name: str  # names both sides of the comparison
    tolerance: float  # the largest difference that is allowed
    scores: Sequence[float]  # of each pair
    references: Mapping[int, float]  # of the compared pairs, by number from 0
    threshold: float | None  # responses with higher scores are supported

    def difference(self, number: int) -> float:
        """Returns the distance between a pair's scores; infinite if only one is undefined."""
        score, reference = self.scores[number], self.references[number]
        if math.isnan(score) and math.isnan(reference):
            return 0.0
        return math.inf if math.isnan(score - reference) else abs(score - reference)

    @property
    def differences(self) -> list[float]:
        """The differences of all compared pairs."""
        return [self.difference(number) for number in self.references]

    def changed_pairs(self) -> list[int]:
        """Returns the pairs whose verdict changes."""
        limit = self.threshold
        if limit is None:
            return []
        return [
            n for n, score in self.references.items() if (score > limit) != (self.scores[n] > limit)
        ]

    def wrong(self) -> list[int]:
        """Returns the pairs that differ by more than the tolerance, the worst first."""
        far = [n for n in self.references if self.difference(n) > self.tolerance]
        return sorted(far, key=self.difference, reverse=True)

    def row(self) -> tuple[Any, ...]:
        """Returns this comparison's row of the table."""
        changed = None if self.threshold is None else len(self.changed_pairs())
        largest, median = max(self.differences), statistics.median(self.differences)
        result = "differs" if self.wrong() else "as certified"
        figures = (f"{largest:.2g}", f"{median:.2g}", f"{self.tolerance:g}")
        return (self.name, len(self.references), *figures, changed, result)

    def figures(self) -> dict[str, Any]:
        """Returns all figures for JSON; pairs are counted from 1."""
        return {
            "compared": self.name,
            "pairs": len(self.references),
            "largest_difference": _finite_or_none(max(self.differences)),
            "median_difference": _finite_or_none(statistics.median(self.differences)),
            "tolerance": self.tolerance,
            "verdicts_that_change": [number + 1 for number in self.changed_pairs()],
            "pairs_that_differ": [number + 1 for number in self.wrong()],
        }


_COLUMNS = (
    *("compared", "pairs", "largest difference", "median", "allowed"),
    *("verdicts that change", "result"),
)


def _inputs_and_outputs(options: CertifyOptions) -> tuple[list[str], dict[str, str]]:
    outputs = {"--json": options.json, "--write-pairs": options.write_pairs}
    return [options.references, options.folder], outputs


@reserve_outputs(_inputs_and_outputs)
def certify(options: CertifyOptions) -> tuple[str, bool]:
    """Returns the table of a judge's certification, and whether it is certified.

    Raises:
      FaithJaxError: for bad input, such as an unknown card, a folder that does not fit the card, or
        an invalid file of references.
    """
    name, pairs = options.card, certification_pairs()
    check_is_judge(name)
    card = read_card(name)
    if options.write_pairs:
        write_jsonl(options.write_pairs, pair_rows(pairs, card))
    if options.write_model and (options.folder or name.endswith(ENDING)):
        raise ConfigError("--write-model: goes with a judge of the package, without a FOLDER.")
    if options.folder:
        expected = None
        if options.references:
            path, numbers = path_of(options.references), dict[int, float]()

            def row_of(row: _ReferenceRow, place: str) -> list[tuple[int, float]]:
                if row.pair > len(pairs):
                    raise InputError(
                        f"{place}: field 'pair': expected 1 to {len(pairs)}, got {row.pair}."
                    )
                return [(row.pair - 1, _none_to_nan(row.score))]

            for number, score in read_as(_ReferenceRow, read_jsonl(path), row_of, BadRows()):
                if number in numbers:
                    raise InputError(f"{path}: field 'pair': {number + 1} is given twice.")
                numbers[number] = score
            if not numbers:
                raise InputError(
                    f"{path}: has no rows; expected a JSON object on each line, with pair."
                )
            expected = path.name, numbers
        return _certify_folder(options, card, pairs, options.folder, expected)
    if options.references:
        raise ConfigError("--references: goes with the FOLDER whose scores these are.")
    if name.endswith(ENDING):
        raise ConfigError(f"{name}: a card of your own has no tiny model; give its FOLDER.")
    with tempfile.TemporaryDirectory() as scratch:
        path = reference_model(pathlib.Path(scratch) / "model", name, card.architectures[0])
        if options.write_model:
            with atomic_folder(path_of(options.write_model), f"the tiny model of {name}") as folder:
                shutil.copytree(path, folder)
        reference = read_references()[name]
        numbers = {n: _none_to_nan(score) for n, score in enumerate(reference.scores)}
        return _certify_folder(options, card, pairs, str(path), (reference.code, numbers))


def _certify_folder(
    options: CertifyOptions,
    card: JudgeCard,
    pairs: Sequence[ScoredPair],
    folder: str,
    references: tuple[str, Mapping[int, float]] | None,
) -> tuple[str, bool]:
    """Returns the table of a folder's comparisons, and whether the folder is certified."""
    dtype = options.dtype or ("bfloat16" if options.folder else "float32")
    if references is None and dtype == "float32":
        raise ConfigError(
            "--dtype=float32: nothing would be compared; give --references=FILE, or another dtype."
        )
    settings: dict[str, Any] = {"model": folder}
    if options.vocabulary:
        settings["vocabulary"] = options.vocabulary
    scorer: Any = load_scorer(options.card, dtype="float32", **settings)
    notes, problems = _check_card_tokens(card, scorer, bool(options.folder))
    scores = {"float32": _score_pairs(scorer, pairs)}
    clear_models()
    if dtype != "float32":
        scores[dtype] = _score_pairs(load_scorer(options.card, dtype=dtype, **settings), pairs)
        clear_models()
    low, high = scorer.card.low, scorer.card.high
    for kind, values in scores.items():
        outside = [n for n, v in enumerate(values) if not (math.isnan(v) or low <= v <= high)]
        problems += [
            f"pair {n + 1}: {kind} score {values[n]:g} is outside the card's range, {low:g} to "
            f"{high:g}"
            for n in outside[:_SHOWN]
        ]
    comparisons, threshold = list[ScoreComparison](), card.threshold
    if references is not None:
        whose, numbers = references
        limit = options.tolerance or _OF_REFERENCES
        comparisons.append(
            ScoreComparison(f"float32 with {whose}", limit, scores["float32"], numbers, threshold)
        )
    if dtype != "float32":
        limit = options.tolerance or (_OF_BFLOAT16 if options.folder else _OF_TINY_BFLOAT16)
        exact = dict(enumerate(scores["float32"]))
        title = f"{dtype} with float32"
        comparisons.append(ScoreComparison(title, limit, scores[dtype], exact, threshold))
    for comparison in comparisons:
        wrong = comparison.wrong()
        problems += [
            f"pair {n + 1} ({pairs[n].kind}): {comparison.scores[n]:.6f}, but "
            f"{comparison.references[n]:.6f} ({comparison.name})"
            for n in wrong[:_SHOWN]
        ]
        if len(wrong) > _SHOWN:
            problems.append(f"… and {pluralize(len(wrong) - _SHOWN, 'further pair')}")
    verdict = "not certified" if problems else "certified"
    model = options.folder or "its tiny random model"
    rows = tuple(comparison.row() for comparison in comparisons)
    table = Table(f"{options.card}, {model}: {verdict}", _COLUMNS, rows, (*notes, *problems))
    if options.json:
        figures = {
            "certified": not problems,
            "comparisons": [comparison.figures() for comparison in comparisons],
            "notes": list(table.notes),
            "scores": {kind: list(map(_finite_or_none, of)) for kind, of in scores.items()},
        }
        write_json(options.json, figures)
    return render_table(table), not problems


def _score_pairs(scorer: Any, pairs: Sequence[ScoredPair]) -> list[float]:
    histories = [[pair.query] for pair in pairs]  # an empty query gives no warning
    groundings, responses = [p.texts for p in pairs], [p.response for p in pairs]
    return [score.value for score in scorer.score(groundings, responses, histories)]


def _check_card_tokens(
    card: JudgeCard, scorer: Any, published: bool
) -> tuple[list[str], list[str]]:
    """Returns notes on the ids that the tokenizer gives the card's tokens, and wrong ids."""
    tokenizer, reads = scorer.judge.encode.tokenizer, card.reads
    notes, problems = list[str](), list[str]()
    ids = {
        text: next(i for i in range(tokenizer.vocab_size) if tokenizer.stored_piece(i) == text)
        for text in card.input.special_tokens
    }
    if isinstance(reads, ReadWords):
        words = {word: tokenizer.encode(word)[0] for word in reads.words or ()}
        wrong = {w: i for w, i in words.items() if _PUBLISHED_IDS.get(w, i) != i}
        if published and card.architectures == ["t5"]:
            problems += [
                f"the word {word!r} begins with token {token}, but in T5's published vocabulary, "
                f"which this judge was trained with, with {_PUBLISHED_IDS[word]}"
                for word, token in wrong.items()
            ]
        ids |= words
    if ids:
        token_list = ", ".join(f"{text!r} = {token}" for text, token in ids.items())
        notes.append(f"Tokens that the card names: {token_list}.")
    return notes, problems


def _none_to_nan(score: float | None) -> float:
    return math.nan if score is None else score


def _finite_or_none(value: float) -> float | None:
    return value if math.isfinite(value) else None


def pair_rows(pairs: Sequence[ScoredPair], card: JudgeCard) -> list[dict[str, Any]]:
    """Returns the pairs as rows for a judge's own code, with each grounding as one text."""
    between = text_between(card.chunks)
    return [
        {
            "pair": number,
            "kind": pair.kind,
            "grounding": between.join(pair.texts),
            "query": pair.query,
            "response": pair.response,
        }
        for number, pair in enumerate(pairs, 1)
    ]
