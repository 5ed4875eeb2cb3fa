"""Unknown tokens: how many a vocabulary makes of texts, and which characters cause them.

T5's published vocabulary lacks `{`, `<` and others, which a model can then neither read nor write.
Whatever is encoded while `counting_unknown` is open is counted by the parts of its format.

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

# The names of `core.cutting.Kind`, and what a model learns to write.
PARTS = ("other", "knowledge", "history", "response", "targets")
_WARNING_SHARE = 0.001  # of a part's tokens
_MOST_CHARACTERS = 12  # that a warning shows


class UnknownTokens:
    """Counts of tokens by part of the texts that were encoded.

    Attributes:
      tokens: how many tokens each part has, by its share of the characters of its text.
      unknown: how many of them are unknown; exact.
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
          tokenizer: that made them.
          text: the text, as it was encoded.
          ids: its tokens; special ones behind it do not matter.
          part: what the text is; None = its format tells its parts.
        """
        from faith_jax.core.cutting import parse  # imports templates, which tokenizers need not

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
        """Adds the sums of several rows of `row`, and the characters of each."""
        self.tokens.update({part: int(n) for part, n in zip(PARTS, tokens, strict=True)})
        self.unknown.update({part: int(n) for part, n in zip(PARTS, unknown, strict=True)})
        for text in characters:
            self.characters.update(text)

    def share(self, part: str) -> float:
        """Returns the share of unknown tokens among those of a part, in [0, 1]."""
        tokens = max(self.tokens[part], self.unknown[part])
        return self.unknown[part] / tokens if tokens else 0.0

    def report(self) -> dict[str, Any]:
        """Returns the counts of unknown tokens by part, {} if there are none: for JSON."""
        parts = {
            part: {"tokens": self.tokens[part], "unknown": count, "share": self.share(part)}
            for part, count in sorted(self.unknown.items())
            if count
        }
        return {"parts": parts, "characters": dict(self.characters.most_common())} if parts else {}


def unknown_warnings(report: dict[str, Any]) -> Iterator[str]:
    """Yields a sentence for each part of which too many tokens are unknown, of `report()`."""
    for part, counts in report.get("parts", {}).items():
        if counts["share"] >= _WARNING_SHARE:
            yield (
                f"{100 * counts['share']:.1f}% of the tokens of {_part_name(part)} are unknown to "
                f"the vocabulary: the model cannot read {_shown_characters(report)}."
            )


def unknown_lines(report: dict[str, Any]) -> Iterator[str]:
    """Yields a line with the counts of each part; none if nothing is unknown."""
    for part, counts in report.get("parts", {}).items():
        yield (
            f"  unknown tokens of {_part_name(part)}: {counts['unknown']:,} of "
            f"{counts['tokens']:,} ({100 * counts['share']:.2f}%), from "
            f"{_shown_characters(report)}"
        )


def _part_name(part: str) -> str:
    """Returns the name of a part of a text for people."""
    return {"other": "other text", "targets": "the targets"}.get(part, part)


def _shown_characters(report: dict[str, Any]) -> str:
    """Returns the characters that are unknown, the most frequent ones first."""
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
    """Counts the unknown tokens of all texts that any tokenizer of ours encodes within.

    Args:
      unknown: is added to; None = new counts.
    """
    unknown = UnknownTokens() if unknown is None else unknown
    _counts.append(unknown)
    try:
        yield unknown
    finally:
        _counts.remove(unknown)


def note_unknown(tokenizer: "Tokenizer", text: str, ids: Sequence[int]) -> None:
    """Adds a text that was encoded to the counts that are open."""
    for unknown in _counts:
        unknown.add(tokenizer, text, ids)
