"""Delimiters that a vocabulary can write, in place of those that a format was published with.

The formats of `faith_jax.core.templates` use `{key: value}` (Chang 2024) and `<tag>` (Dziri 2022).
T5's published vocabulary has neither `{` nor `<`: each would become an unknown token, and a model
could not write `{response: ...}` at all. So the delimiters are chosen when the vocabulary is known:
the published ones if it writes them, else the next of a short list that it writes.

Inside the package, texts have the published delimiters. `Notation.to_model_notation` replaces them
just before a text is encoded, and `Notation.to_published_notation` restores them in a text that was
decoded. Both keep the length of the text, so that places in it stay valid. A delimiter inside of a
value becomes another bracket, as a brace in a value does in the published format.

>>> t5 = Notation(braces="[]", tags="[]")
>>> t5.to_model_notation("{query: Is tea [green] {or black}?} {pro: It is.}")
'[query: Is tea (green) [or black]?] [pro: It is.]'
>>> t5.to_model_notation("<knowledge> Tea is a leaf [1]. <seeker> Hi!")
'[knowledge] Tea is a leaf (1). [seeker] Hi!'
>>> t5.to_published_notation("[response: It is a leaf.]")
'{response: It is a leaf.}'
"""

import functools
import re
from collections.abc import Callable, Sequence
from typing import NamedTuple

from faith_jax.core.errors import ConfigError

KEYS = (
    "query", "pro", "con", "response", "label", "knowledge", "message", "context", "claim",
    "evidence",
)  # fmt: skip
TAGS = ("knowledge", "wizard", "seeker")
CANDIDATES = {"braces": ("{}", "[]", "()", "<>"), "tags": ("<>", "[]", "{}", "()")}
# What a delimiter becomes inside of a value.
_IN_VALUES = {"{}": "()", "[]": "()", "<>": "()", "()": ",,"}
# Private characters stand for what is protected while delimiters are replaced.
_OPEN, _CLOSE = "\ue010", "\ue011"
_EXTRA_ID = r"extra_id_[0-9]+"
_EOT = r"\[(EOT)\]"  # between turns; it stays as published

# A pattern, which `re` and RE2 read alike, and its replacement.
Replacement = tuple[str, str]


class Notation(NamedTuple):
    """The opening and the closing delimiter of each kind; "" = the vocabulary can write none.

    Attributes:
      braces: around the pairs of a key and a value.
      tags: around the name of a part.
    """

    braces: str = CANDIDATES["braces"][0]
    tags: str = CANDIDATES["tags"][0]

    def to_model_notation(self, text: str) -> str:
        """Returns a text as the model reads and writes it; texts of no known format as they are.

        Raises:
          ConfigError: the text needs delimiters, and the vocabulary can write none.
        """
        for form in self.forms:
            if re.match(form.start, text):
                return form.apply_replacements(text, form.writing)
        return text

    def to_published_notation(self, text: str) -> str:
        """Returns a text in the published format; texts of no known format as they are.

        Text in front of the first `key:` of a generated text does not matter.
        """
        for form in self.forms:
            if re.search(form.written_start, text):
                return form.apply_replacements(text, form.reading)
        return text

    @property
    def forms(self) -> "tuple[Form, ...]":
        """The formats whose delimiters differ from the published ones."""
        return _build_forms(self)


PUBLISHED = Notation()


class Form(NamedTuple):
    """A format, and the replacements between its published and its written form.

    Attributes:
      start: matches the beginning of texts in the published form.
      written_start: is in texts of the written form, for `re` alone.
      writing: from the published form to the written one; none if nothing can be written.
      reading: back.
    """

    start: str
    written_start: str
    writing: tuple[Replacement, ...]
    reading: tuple[Replacement, ...]

    def apply_replacements(self, text: str, replacements: Sequence[Replacement]) -> str:
        """Returns a text with all replacements, in their order."""
        self.check()
        for pattern, replacement in replacements:
            text = re.sub(pattern, replacement, text)
        return text

    def check(self) -> None:
        """Raises a ConfigError if the vocabulary can write no delimiters."""
        if not self.writing:
            raise ConfigError(
                "VOCABULARY: it can write none of the delimiters "
                f"{' '.join(dict.fromkeys((*CANDIDATES['braces'], *CANDIDATES['tags'])))}, each of "
                "which it reads as unknown or does not give back; choose a model whose vocabulary "
                "has one of these pairs, or a task of texts without delimiters."
            )


@functools.cache
def _build_forms(notation: Notation) -> tuple[Form, ...]:
    keys, tags = "|".join(KEYS), "|".join(TAGS)
    forms = []
    if notation.braces != PUBLISHED.braces:
        opening = re.escape(notation.braces[:1])
        forms.append(
            Form(
                r"\{[\w -]+: ",
                rf"{opening}({keys}):" if opening else r"(?!)",
                _make_write_replacements(PUBLISHED.braces, notation.braces, _EOT),
                _make_read_replacements(PUBLISHED.braces, notation.braces, _EOT),
            )
        )
    if notation.tags != PUBLISHED.tags:
        opening, closing = (re.escape(c) for c in (notation.tags[:1], notation.tags[1:]))
        control = rf"(<{_EXTRA_ID}> |{opening}[a-z-]+{closing} )*"
        forms.append(
            Form(
                rf"(<[a-z0-9_-]+> )*<({tags})> ",
                rf"^{control}{opening}({tags}){closing} " if opening else r"(?!)",
                _make_write_replacements(PUBLISHED.tags, notation.tags, f"<({_EXTRA_ID})>"),
                _make_read_replacements(PUBLISHED.tags, notation.tags, f"<({_EXTRA_ID})>"),
            )
        )
    return tuple(forms)


def _make_write_replacements(
    published: str, chosen: str, protected: str
) -> tuple[Replacement, ...]:
    if not chosen:
        return ()
    values = zip(chosen, _IN_VALUES[chosen], strict=True)
    return _make_protected_replacements(protected, [*values, *zip(published, chosen, strict=True)])


def _make_read_replacements(published: str, chosen: str, protected: str) -> tuple[Replacement, ...]:
    if not chosen:
        return ()
    return _make_protected_replacements(protected, [*zip(chosen, published, strict=True)])


def _make_protected_replacements(
    protected: str, characters: Sequence[tuple[str, str]]
) -> tuple[Replacement, ...]:
    """Returns replacements of characters that leave what matches `protected` as it is."""
    first, last = protected.lstrip("\\")[0], protected[-1]
    replacements = ((re.escape(old), new) for old, new in characters)
    return (
        (protected, rf"{_OPEN}\1{_CLOSE}"),
        *replacements,
        (_OPEN, first),
        (_CLOSE, last),
    )


def check_label(name: str, label: str, notation: Notation) -> None:
    """Raises a ConfigError if a label contains a delimiter, so that it could not be read back.

    Args:
      name: of the setting, for the error.
      label: its value.
      notation: what the model's vocabulary writes.
    """
    inside = [c for c in dict.fromkeys(PUBLISHED.braces + notation.braces) if c in label]
    if inside:
        raise ConfigError(
            f"{name} = {label!r}: it contains {' '.join(inside)}, which the format of the targets "
            "has around a label; choose a label without."
        )


def choose_notation(writes: Callable[[str], bool]) -> Notation:
    """Returns the first notation that a vocabulary can write.

    Args:
      writes: whether a vocabulary gives back a text that it has encoded.
    """

    def first(kind: str, probe: str) -> str:
        texts = ((pair, probe.replace("{", pair[0]).replace("}", pair[1]))
                 for pair in CANDIDATES[kind])  # fmt: skip
        return next((pair for pair, text in texts if writes(text)), "")

    return Notation(first("braces", "{query: a b.} {pro: c.}"), first("tags", "{wizard} a b."))
