"""Cutting of inputs that are too long, by a policy over the parts of the text.

The forms of `faith_jax.core.templates` have parts: knowledge, the turns of a history, a response. A
text is first encoded as a whole and then loses tokens, so the tokens of the rest do not change. The
input without its knowledge (the second branch of PMI-Decode and PMI-Faith) is cut in the same way,
so both branches have the same history, token for token.

Policies:
- `knowledge` (default): the end of the knowledge is cut; of several knowledge parts, such as pro
  and con arguments, the longest is cut first. If the history does not fit even without knowledge,
  its oldest turns are cut, but never the last one.
- `history`: the oldest turns are cut first, all but the last, then the end of the knowledge.
- `end`: the end of the text is cut, whatever it contains, as in T5X.
- `error`: a text that is too long is an error.

The first two policies also keep a response. Its end is only cut, after all older turns, if it
leaves the knowledge less than a quarter of the room next to the last turn. Nothing else is cut.
"""

import bisect
import enum
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from faith_jax.core.errors import ConfigError, InputError, did_you_mean
from faith_jax.core.templates import EOT, PUBLISHED, Notation

POLICIES = ("knowledge", "history", "end", "error")

# White space before a part belongs to the part, because it belongs to the token that follows.
_TAG = re.compile(r"\s*<(knowledge|wizard|seeker)>")
_PAIR = re.compile(r"\s*\{(\w+):([^}]*)\}")
_NLI = re.compile(r"premise: (.*) hypothesis: (.*)", re.DOTALL)


class Kind(enum.IntEnum):
    """The kind of a part of an input; OTHER is text between the parts, which is never cut."""

    OTHER = 0
    KNOWLEDGE = 1
    HISTORY = 2
    RESPONSE = 3


_KINDS = {
    "knowledge": Kind.KNOWLEDGE,
    "evidence": Kind.KNOWLEDGE,
    "pro": Kind.KNOWLEDGE,
    "con": Kind.KNOWLEDGE,
    "wizard": Kind.HISTORY,
    "seeker": Kind.HISTORY,
    "query": Kind.HISTORY,
    "message": Kind.HISTORY,
    "context": Kind.HISTORY,
    "response": Kind.RESPONSE,
    "claim": Kind.RESPONSE,
}


class Part(NamedTuple):
    """A part of an input, in characters of its text or in tokens.

    Attributes:
      kind: the kind of the part.
      start: start of the part, including marks such as a tag.
      text_start: start of its own text, without marks.
      text_end: end of its own text (exclusive).
      end: end of the part, including marks (exclusive).
    """

    kind: Kind
    start: int
    text_start: int
    text_end: int
    end: int


class CutTokens(dict[Kind, int]):
    """The number of cut tokens by kind of part; kinds that are not cut have no entry.

    Attributes:
      knowledge: number of tokens that the knowledge had before cutting, without its marks.
      last_turn: whether any token of the last turn is cut, which only the policy `end` may do.
    """

    def __init__(
        self, counts: Mapping[Kind, int] | None = None, knowledge: int = 0, last_turn: bool = False
    ):
        super().__init__(counts or {})
        self.knowledge, self.last_turn = knowledge, last_turn


class Cut(NamedTuple):
    """A mask of an input's tokens that are kept, bool [length], and the numbers of cut tokens."""

    keep: np.ndarray
    tokens: CutTokens


class Fitted(NamedTuple):
    """The token ids of an input, cut to its limit, with and without its knowledge."""

    ids: list[int]
    without_knowledge: list[int]
    cut: CutTokens


def check_policy(policy: str, setting: str = "CUT_POLICY") -> None:
    """Raises a ConfigError that names the setting if there is no such policy."""
    if policy not in POLICIES:
        raise ConfigError(
            f"{setting} = {policy!r}: expected one of {', '.join(POLICIES)}."
            f"{did_you_mean(str(policy), POLICIES)}"
        )


def parse(text: str, notation: Notation = PUBLISHED) -> list[Part]:
    """Returns the parts of an input in one of the forms of `core.templates`, in characters.

    A text of another form has no parts. The last "hypothesis:" in an NLI input begins the
    hypothesis. The text may have the published delimiters or those of `notation`.

    >>> text = "<knowledge> Tea is a leaf. <wizard> Hello. <seeker> What is tea?"
    >>> [(part.kind.name, text[part.text_start : part.text_end]) for part in parse(text)]
    [('KNOWLEDGE', 'Tea is a leaf.'), ('HISTORY', 'Hello.'), ('HISTORY', 'What is tea?')]
    """
    text = notation.to_published_notation(text)
    if nli := _NLI.fullmatch(text):
        return [
            _make_trimmed_part(text, "knowledge", 0, *nli.span(1), nli.end(1)),
            _make_trimmed_part(text, "response", nli.end(1), *nli.span(2), len(text)),
        ]
    tags, pairs = list(_TAG.finditer(text)), list(_PAIR.finditer(text))
    # A text may contain something that looks like marks of the other form.
    if tags and not (pairs and pairs[0].start() < tags[0].start()):
        ends = [*(tag.start() for tag in tags[1:]), len(text)]
        return [
            _make_trimmed_part(text, tag[1], tag.start(), tag.end(), end, end)
            for tag, end in zip(tags, ends, strict=True)
        ]
    return [
        part
        for pair in pairs
        if pair[1] in _KINDS
        for part in _split_turns(
            text, _make_trimmed_part(text, pair[1], pair.start(), *pair.span(2), pair.end())
        )
    ]


def _make_trimmed_part(
    text: str, name: str, start: int, text_start: int, text_end: int, end: int
) -> Part:
    """Returns a part whose own text begins and ends without white space."""
    inner = text[text_start:text_end]
    text_start += len(inner) - len(inner.lstrip())
    return Part(_KINDS[name], start, text_start, text_start + len(inner.strip()), end)


def _split_turns(text: str, part: Part) -> Iterator[Part]:
    """Yields the turns of a part, each with the separator that follows.

    If a part has several turns, its marks, such as `{context: ` and `}`, belong to no turn.
    """
    separators = list(re.finditer(re.escape(EOT), text[part.text_start : part.text_end]))
    if part.kind != Kind.HISTORY or not separators:
        yield part
        return
    start = part.text_start
    for separator in separators:
        turn_end = part.text_start + separator.end()
        yield Part(part.kind, start, start, turn_end, turn_end)
        start = turn_end
    yield Part(part.kind, start, start, part.text_end, part.text_end)


def in_tokens(
    parts: Sequence[Part],
    text: str,
    ids: Sequence[int] | np.ndarray,
    tokenizer: Any,
    spans: Sequence[tuple[int, int]] | None = None,
) -> list[Part]:
    """Converts parts from characters to tokens; a token's last character determines its part.

    `spans` are the character offsets of the tokens `ids`. Without them or a tokenizer with offsets,
    the text is encoded up to each boundary.

    >>> from faith_jax.tokenizers.vocabularies import load_vocabulary
    >>> tokenizer, text = load_vocabulary("english_4096"), "{query: Tea?} {pro: It is calming.}"
    >>> query, pro = in_tokens(parse(text), text, tokenizer.encode(text), tokenizer)
    >>> tokenizer.decode(tokenizer.encode(text)[pro.text_start : pro.text_end])
    'It is calming.'
    """
    if not parts:
        return []
    if spans is None and hasattr(tokenizer, "text_ids_with_offsets"):
        spans = tokenizer.text_ids_with_offsets(text)[1]
    if spans is not None:
        ends = [end for _, end in spans]

        def token(place: int) -> int:
            return bisect.bisect_right(ends, place) if place else 0
    else:

        def token(place: int) -> int:
            return min(len(tokenizer.encode(text[:place])), len(ids))

    return [Part(part.kind, *map(token, part[1:])) for part in parts]


def cut(length: int, parts: Sequence[Part], limit: int, policy: str, where: str) -> Cut:
    """Selects the tokens of an input to keep: at most `limit` of `length`.

    Lengths and parts are in tokens, without special tokens. `where` names the input and the source
    of its limit in errors.

    Raises:
      InputError: if the input is too long and the policy cannot cut it.
    """
    keep = np.ones(length, bool)
    if length > limit:
        if policy == "error":
            raise InputError(
                f"{where}: {length} tokens, but {limit} fit, and the cut policy is 'error'; raise "
                "the limit, or choose another (CUT_POLICY)."
            )
        if policy == "end":
            keep[max(0, limit) :] = False
        else:
            _cut_parts(keep, parts, limit, policy, where)
    kinds = np.zeros(length, int)
    for part in parts:
        kinds[part.start : part.end] = part.kind
    counts = np.bincount(kinds[~keep], minlength=len(Kind))
    turns = [part for part in parts if part.kind == Kind.HISTORY]
    last_turn = bool(turns) and not keep[turns[-1].start : turns[-1].end].all()
    knowledge = sum(p.text_end - p.text_start for p in parts if p.kind == Kind.KNOWLEDGE)
    tokens = {kind: int(counts[kind]) for kind in Kind if counts[kind]}
    return Cut(keep, CutTokens(tokens, knowledge, last_turn))


def _cut_parts(
    keep: np.ndarray, parts: Sequence[Part], limit: int, policy: str, where: str
) -> None:
    """Cuts turns, knowledge and responses, in place."""
    turns = [part for part in parts if part.kind == Kind.HISTORY]
    lengths = {
        kind: [p.text_end - p.text_start if p.kind == kind else 0 for p in parts]
        for kind in (Kind.KNOWLEDGE, Kind.RESPONSE)
    }
    knowledge, responses = (sum(kind_lengths) for kind_lengths in lengths.values())
    older = sum(turn.end - turn.start for turn in turns[:-1])
    last = turns[-1].end - turns[-1].start if turns else 0

    # The last turn, and the text around all parts, cannot be cut.
    uncut = len(keep) - older - knowledge - responses
    # The knowledge keeps this before a response is cut: a quarter of the room beside the last turn.
    least_knowledge = min(knowledge, max(0, limit - last) // 4) if responses else 0
    # Without older turns, uncut + least_knowledge + responses - from_responses tokens are kept,
    # which must be at most `limit`.
    from_responses = max(0, uncut + least_knowledge + responses - limit)
    # At least one response token must stay: uncut + least_knowledge + 1 <= limit. The smallest such
    # limit is uncut + 1 + knowledge, or uncut + 1 + (uncut - last) // 3 if a quarter is less.
    least_limit = uncut
    if responses:
        least_limit += 1 + min(knowledge, (uncut - last) // 3)
    if limit < least_limit:
        if turns:
            uncuttable = "the last turn of the history"
        elif parts:
            uncuttable = "what stands around its parts"
        else:
            uncuttable = "a text without knowledge or history that could be cut"
        end_hint = ", or choose the cut policy 'end' (CUT_POLICY), which cuts the end of any text"
        raise InputError(
            f"{where}: without its knowledge and earlier turns, the input has "
            f"{uncut + responses} tokens, but {limit} fit: no room for "
            f"{uncuttable}; raise the limit by at least "
            f"{least_limit - limit}{'' if parts else end_hint}."
        )
    # A response is only cut after all older turns.
    without = knowledge if policy == "knowledge" and not from_responses else 0
    while len(turns) > 1 and keep.sum() - from_responses - without > limit:
        oldest = turns.pop(0)
        keep[oldest.start : oldest.end] = False
    from_knowledge = max(0, int(keep.sum()) - from_responses - limit)
    for kind, removed in ((Kind.KNOWLEDGE, from_knowledge), (Kind.RESPONSE, from_responses)):
        # The longest part is cut first: a short part leaves the rest of its share to longer ones.
        room = sum(lengths[kind]) - removed
        by_length = sorted(zip(lengths[kind], parts, strict=True), key=lambda pair: pair[0])
        for rank, (length, part) in enumerate(by_length):
            stays = min(length, room // (len(parts) - rank))
            room -= stays
            if part.kind == kind:
                keep[part.text_start + stays : part.text_end] = False


def without_knowledge(keep: np.ndarray, parts: Sequence[Part]) -> np.ndarray:
    """Returns the mask `keep` without the knowledge and its marks, bool [length]."""
    keep = keep.copy()
    for part in parts:
        if part.kind == Kind.KNOWLEDGE:
            keep[part.start : part.end] = False
    return keep


def check_second_branch(length: int, tokens: CutTokens, policy: str, where: str) -> None:
    """Raises an InputError if cutting left PMI's second branch, of `length` tokens, empty."""
    if not length and not tokens.keys().isdisjoint({Kind.HISTORY, Kind.OTHER}):
        raise InputError(
            f"{where}: the cut policy {policy!r} leaves an empty second branch of PMI, the input "
            "without its knowledge; raise the limit, or choose the policy 'knowledge'."
        )


def by_name(tokens: Mapping[Kind, int]) -> dict[str, int]:
    """Returns the number of cut tokens by the name of their kind, as in `core.types.Score`.

    >>> by_name({Kind.KNOWLEDGE: 3})
    {'knowledge': 3}
    """
    return {kind.name.lower(): count for kind, count in tokens.items()}


def sum_cuts(cuts: Iterable[CutTokens]) -> CutTokens:
    """Returns the sum over several inputs.

    >>> first = CutTokens({Kind.KNOWLEDGE: 3}, knowledge=8)
    >>> total = sum_cuts([first, CutTokens({Kind.HISTORY: 1, Kind.KNOWLEDGE: 2}, knowledge=4)])
    >>> by_name(total), total.knowledge
    ({'knowledge': 5, 'history': 1}, 12)
    """
    total = CutTokens()
    for tokens in cuts:
        total.knowledge += tokens.knowledge
        total.last_turn |= tokens.last_turn
        for kind, count in tokens.items():
            total[kind] = total.get(kind, 0) + count
    return total


def one_part(kind: Kind, length: int) -> Part:
    """Returns the part of a text that consists of one part only, such as a premise."""
    return Part(kind, 0, 0, length, length)


def concatenate_pieces(
    pieces: Iterable[tuple[Sequence[int] | np.ndarray, Sequence[Part]]],
) -> tuple[np.ndarray, list[Part]]:
    """Joins texts that were encoded separately to one input: ids int [length], and parts."""
    ids: list[int] = []
    parts: list[Part] = []
    for piece_ids, piece_parts in pieces:
        parts += [
            Part(part.kind, *(place + len(ids) for place in part[1:])) for part in piece_parts
        ]
        ids.extend(piece_ids)
    return np.asarray(ids, int), parts


def notation_of(tokenizer: Any) -> Notation:
    """Returns the delimiters that a tokenizer writes; the published ones for other tokenizers."""
    return getattr(tokenizer, "notation", PUBLISHED)


def fit(
    tokenizer: Any,
    text: str,
    limit: int,
    policy: str,
    where: str,
    parts: Sequence[Part] | None = None,
) -> Fitted:
    """Encodes a text in the tokenizer's notation and cuts it with `cut`.

    `parts` are in characters; None = parse the text as a form of `core.templates`.
    """
    notation = notation_of(tokenizer)
    text = notation.to_model_notation(text)
    parts, spans = parse(text, notation) if parts is None else parts, None
    if parts and hasattr(tokenizer, "encode_with_offsets"):
        token_ids, spans = tokenizer.encode_with_offsets(text)
    else:
        token_ids = tokenizer.encode(text)
    ids = np.asarray(token_ids, int)
    parts = in_tokens(parts, text, ids, tokenizer, spans)
    keep, tokens = cut(len(ids), parts, limit, policy, where)
    ungrounded = without_knowledge(keep, parts)
    return Fitted(ids[keep].tolist(), ids[ungrounded].tolist(), tokens)
