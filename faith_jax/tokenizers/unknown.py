"""Counts the unknown tokens in encoded texts, and the characters that cause them.

T5's published vocabulary lacks `{`, `<` and other characters, which its models can neither read nor
write. All texts encoded inside a `counting_unknown` block are counted by the parts of their format.

>>> from faith_jax.tokenizers.vocabularies import load_vocabulary
>>> with counting_unknown() as unknown:
...     _ = load_vocabulary("english_4096").encode("{query: Tea?} {pro: Tea is a leaf.}")
>>> sorted(unknown.tokens), unknown.share("query")
(['history', 'knowledge', 'other'], 0.0)
"""

import collections
import contextlib
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from faith_jax.tokenizers.base import Tokenizer

# The names of `core.cutting.Kind`, and the targets of training.
PARTS = ("other", "knowledge", "history", "response", "targets")
_WARNING_SHARE = 0.001  # the share of a part's tokens from which on a warning is given
_MOST_CHARACTERS = 12  # shown in a warning


class UnknownTokens:
    """Counts of tokens by part of the encoded texts.

    Attributes:
      tokens: the number of tokens of each part, estimated from its share of the text's characters.
      unknown: the exact number of unknown tokens of each part.
      characters: how often each character became unknown.
    """

    def __init__(self) -> None:
        self.tokens, self.unknown = collections.Counter[str](), collections.Counter[str]()
        self.characters = collections.Counter[str]()

    def add(
        self, tokenizer: "Tokenizer", text: str, ids: Sequence[int], part: str | None = None
    ) -> None:
        """Counts the tokens of a text.

        Args:
          tokenizer: the tokenizer that encoded the text.
          text: the text, as it was encoded.
          ids: the text's tokens; special tokens after it do not matter.
          part: the part that the whole text is; None = the text's format determines its parts.
        """
        from faith_jax.core.cutting import parse  # late, as tokenizers alone do not need it

        if not text:
            return
        if part is not None:
            spans = [(part, 0, len(text))]
        else:
            notation = tokenizer.notation
            spans = [(p.kind.name.lower(), p.start, p.end) for p in parse(text, notation)]
            between = len(text) - sum(end - start for _, start, end in spans)
            self.tokens["other"] += round(len(ids) * between / len(text))
        for name, start, end in spans:
            self.tokens[name] += round(len(ids) * (end - start) / len(text))
        if tokenizer.unk_id is None or tokenizer.unk_id not in ids:
            return
        for token, (start, end) in zip(*tokenizer.text_ids_with_offsets(text), strict=True):
            if token == tokenizer.unk_id:
                last = max(start, end - 1)
                self.unknown[next((n for n, s, e in spans if s <= last < e), "other")] += 1
                self.characters.update(text[start:end].strip())

    def row(self) -> dict[str, Any]:
        """Returns the counts in the order of `PARTS`, and the characters as one text."""
        return {
            "part_tokens": [self.tokens[part] for part in PARTS],
            "unknown": [self.unknown[part] for part in PARTS],
            "unknown_characters": "".join(self.characters.elements()),
        }

    def add_rows(
        self, tokens: Sequence[int], unknown: Sequence[int], characters: Iterable[str]
    ) -> None:
        """Adds the summed counts of several results of `row`, and the characters of each."""
        self.tokens.update({part: int(n) for part, n in zip(PARTS, tokens, strict=True)})
        self.unknown.update({part: int(n) for part, n in zip(PARTS, unknown, strict=True)})
        for text in characters:
            self.characters.update(text)

    def share(self, part: str) -> float:
        """Returns the share of unknown tokens in a part, in [0, 1]."""
        tokens = max(self.tokens[part], self.unknown[part])
        return self.unknown[part] / tokens if tokens else 0.0

    def report(self) -> dict[str, Any]:
        """Returns the counts of unknown tokens by part, for JSON; {} if there are none."""
        parts = {
            part: {"tokens": self.tokens[part], "unknown": count, "share": self.share(part)}
            for part, count in sorted(self.unknown.items())
            if count
        }
        return {"parts": parts, "characters": dict(self.characters.most_common())} if parts else {}


def unknown_warnings(report: dict[str, Any]) -> Iterator[str]:
    """Yields a sentence for each part of a `report()` in which too many tokens are unknown."""
    for part, counts in report.get("parts", {}).items():
        if counts["share"] >= _WARNING_SHARE:
            yield (
                f"{100 * counts['share']:.1f}% of the tokens of {_part_name(part)} are unknown to "
                f"the vocabulary: the model cannot read {_shown_characters(report)}."
            )


def unknown_lines(report: dict[str, Any]) -> Iterator[str]:
    """Yields a line with the counts of each part of a `report()` that has unknown tokens."""
    for part, counts in report.get("parts", {}).items():
        yield (
            f"  unknown tokens of {_part_name(part)}: {counts['unknown']:,} of "
            f"{counts['tokens']:,} ({100 * counts['share']:.2f}%), from "
            f"{_shown_characters(report)}"
        )


def _part_name(part: str) -> str:
    """Returns the name of a part for messages."""
    return {"other": "other text", "targets": "the targets"}.get(part, part)


def _shown_characters(report: dict[str, Any]) -> str:
    """Returns the unknown characters, most frequent first."""
    characters = list(report["characters"])
    character_list = " ".join(
        c if c.isprintable() else c.encode("unicode_escape").decode()
        for c in characters[:_MOST_CHARACTERS]
    )
    more = len(characters) - _MOST_CHARACTERS
    return character_list + (f" and {more} more" if more > 0 else "")


_counts: list[UnknownTokens] = []


@contextlib.contextmanager
def counting_unknown(unknown: UnknownTokens | None = None) -> Iterator[UnknownTokens]:
    """Counts the unknown tokens of all texts that our tokenizers encode in a `with` block.

    Args:
      unknown: the counts to add to; None = new counts.
    """
    unknown = UnknownTokens() if unknown is None else unknown
    _counts.append(unknown)
    try:
        yield unknown
    finally:
        _counts.remove(unknown)


def note_unknown(tokenizer: "Tokenizer", text: str, ids: Sequence[int]) -> None:
    """Adds an encoded text to all open counts."""
    for unknown in _counts:
        unknown.add(tokenizer, text, ids)
