"""The texts that a model sees, made by pure functions of strings (SeqIO tasks call them).

The NPOV tasks use the "curly braces format" of Chang 2024, appendix B: key-value pairs in the
input and in the target.

>>> npov_generate_inputs("Is tea better?", ["It is calming."], ["It is weak.", "It stains."])
'{query: Is tea better?} {pro: It is calming.} {con: It is weak. It stains.}'
>>> npov_generate_targets("Views differ.")
'{response: Views differ.}'
>>> npov_response("{response: Views differ.}")
'Views differ.'

The formats use `{key: value}` (Chang 2024) and `<tag>` (Dziri 2022). T5's published vocabulary has
neither `{` nor `<`: each would become an unknown token, and a model could not write
`{response: ...}` at all. So the delimiters are chosen when the vocabulary is known: the published
ones if the vocabulary can write them, otherwise the first ones of a short list that it can write.

Inside the package, texts have the published delimiters. `Notation.to_model_notation` replaces them
just before a text is encoded, and `Notation.to_published_notation` restores them in decoded text.
Both keep the length of the text, so offsets stay valid. A delimiter within a value is replaced by
another bracket, like a brace within a value in the published format.

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
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from faith_jax.core.errors import ConfigError

EOT = "[EOT]"  # separates the turns of a context
_BRACES = str.maketrans({"{": "(", "}": ")"})
_ANGLES = str.maketrans({"<": "(", ">": ")"})
_UNKNOWN = "\u2047"  # how SentencePiece shows an unknown token
_WHITE_SPACE = re.compile(r"\s+")

KEYS = (
    "query", "pro", "con", "response", "label", "knowledge", "message", "context", "claim",
    "evidence",
)  # fmt: skip
TAGS = ("knowledge", "wizard", "seeker")
CANDIDATES = {"braces": ("{}", "[]", "()", "<>"), "tags": ("<>", "[]", "{}", "()")}
# Replacements of delimiters within a value.
_IN_VALUES = {"{}": "()", "[]": "()", "<>": "()", "()": ",,"}
# Private characters around protected text while delimiters are replaced.
_OPEN, _CLOSE = "\ue010", "\ue011"
_EXTRA_ID = r"extra_id_[0-9]+"
_EOT_MARK = r"\[(EOT)\]"  # separates turns; never replaced
# The numbers of turns and evidence sentences that DialFact's classifiers see.
_CLAIM_TURNS, _MOST_EVIDENCE = 2, 5

# A pattern and its replacement.
Replacement = tuple[str, str]


def one_space(text: str) -> str:
    """Returns a text with each run of white space as one space, and without white space around."""
    return _WHITE_SPACE.sub(" ", text).strip()


def clean_value(text: str) -> str:
    """Returns a text with single spaces, and with parentheses instead of braces."""
    return one_space(text).translate(_BRACES)


def clean_tagged(text: str) -> str:
    """Returns a text with single spaces, and with parentheses instead of angle brackets."""
    return one_space(text).translate(_ANGLES)


def curly_braces(pairs: Iterable[tuple[str, str]]) -> str:
    """Formats pairs as `{key: value} {key: value}`, with clean values."""
    return " ".join(f"{{{key}: {clean_value(value)}}}" for key, value in pairs)


def npov_generate_inputs(
    query: str, pro_arguments: Sequence[str], con_arguments: Sequence[str]
) -> str:
    """Returns the generator's input: the query and the two perspectives.

    A perspective consists of its arguments, joined by spaces (Chang 2024, section 2.1).
    """
    pro, con = _join_values(pro_arguments), _join_values(con_arguments)
    return curly_braces([("query", query), ("pro", pro), ("con", con)])


def _join_values(texts: Iterable[str], separator: str = " ") -> str:
    return separator.join(map(clean_value, texts))


def npov_classifier_inputs(
    query: str, response: str, pro_arguments: Sequence[str], con_arguments: Sequence[str]
) -> str:
    """Returns an error classifier's input: the query, the response and the two perspectives.

    >>> npov_classifier_inputs("Is tea better?", "Views differ.", ["It is calming."], [])
    '{query: Is tea better?} {response: Views differ.} {pro: It is calming.} {con: }'
    """
    pro, con = _join_values(pro_arguments), _join_values(con_arguments)
    return curly_braces([("query", query), ("response", response), ("pro", pro), ("con", con)])


def npov_classifier_targets(label: str) -> str:
    """Returns an error classifier's target.

    >>> npov_classifier_targets("YES")
    '{label: YES}'
    """
    return curly_braces([("label", label)])


def npov_label(generated: str) -> str:
    """Returns the label in a classifier's output; see `npov_response`.

    >>> npov_label("{label: NO}")
    'NO'
    """
    return _extract_value(generated, "label")


def npov_generate_targets(response: str) -> str:
    """Returns the generator's target text for a written response."""
    return curly_braces([("response", response)])


def npov_response(generated: str) -> str:
    """Returns the response in a generated text; a text without the format is returned unchanged.

    Text before `{response:` and after the closing brace, which may be missing, is dropped. Other
    delimiters of `CANDIDATES` are read too, and the mark of unknown tokens, which T5 writes if it
    was trained with braces.

    >>> npov_response("[response: Views differ.]"), npov_response("⁇ response: Views differ. ⁇")
    ('Views differ.', 'Views differ.')
    """
    return _extract_value(generated, "response")


def _extract_value(generated: str, key: str) -> str:
    for pair in (*CANDIDATES["braces"], 2 * _UNKNOWN):
        if start := re.search(rf"{re.escape(pair[0])}\s*{key}:", generated):
            return generated[start.end() :].partition(pair[1])[0].strip()
    return generated


def dialogue_inputs(knowledge: str, history: Sequence[str], last: int = 3) -> str:
    """Returns a dialogue generator's input: the knowledge, if any, then the `last` utterances.

    Tags mark the speakers, as in FaithDial's published code; the last utterance is the seeker's.
    The model of Dziri 2022 sees 3.

    >>> dialogue_inputs("Tea is a leaf.", ["Hi!", "Hello.", "What is tea?"], last=2)
    '<knowledge> Tea is a leaf. <wizard> Hello. <seeker> What is tea?'
    """
    parts = [f"<knowledge> {clean_tagged(knowledge)}"] if knowledge.strip() else []
    last_utterances = history[-last:] if last else []
    for place, utterance in enumerate(last_utterances):
        speaker = "seeker" if (len(last_utterances) - place) % 2 else "wizard"
        parts.append(f"<{speaker}> {clean_tagged(utterance)}")
    return " ".join(parts)


def controlled_dialogue_inputs(
    control_tokens: Sequence[str], knowledge: str, history: Sequence[str], last: int = 3
) -> str:
    """Returns `dialogue_inputs` preceded by control tokens (Rashkin 2021).

    >>> controlled_dialogue_inputs(["<entailed>"], "Tea is a leaf.", ["What is tea?"])
    '<entailed> <knowledge> Tea is a leaf. <seeker> What is tea?'
    """
    return " ".join([*control_tokens, dialogue_inputs(knowledge, history, last)]).strip()


def knowledge_response_inputs(knowledge: str, response: str) -> str:
    """Returns the input of a critic that sees knowledge and response.

    >>> knowledge_response_inputs("Tea is a leaf.", "It is a root.")
    '{knowledge: Tea is a leaf.} {response: It is a root.}'
    """
    return curly_braces([("knowledge", knowledge), ("response", response)])


def attribution_inputs(knowledge: str, message: str, response: str) -> str:
    """Returns the input of a classifier that also sees the turn before the response (BEGIN).

    >>> attribution_inputs("Tea is a leaf.", "What is tea?", "A leaf.")
    '{knowledge: Tea is a leaf.} {message: What is tea?} {response: A leaf.}'
    """
    return curly_braces([("knowledge", knowledge), ("message", message), ("response", response)])


def nli_inputs(premise: str, hypothesis: str) -> str:
    """Returns the input of an entailment model, in the format of TRUE's T5 models.

    >>> nli_inputs("Tea is  a leaf.", "Tea grows.")
    'premise: Tea is a leaf. hypothesis: Tea grows.'
    """
    return f"premise: {one_space(premise)} hypothesis: {one_space(hypothesis)}"


def dialfact_inputs(
    context: Sequence[str],
    claim: str,
    titles: Sequence[str] = (),
    sentences: Sequence[str] = (),
) -> str:
    """Returns the input of DialFact's classifiers (Gupta 2022, section 5.3).

    As in the authors' code, [EOT] separates turns of the context, and each evidence sentence
    follows the title of its article. Empty sentences are left out. The model sees at most the last
    two turns, and five sentences.

    >>> dialfact_inputs(["Hi.", "Tea?"], "It is hot.", ["Tea"], ["Tea is hot."])
    '{context: Hi. [EOT] Tea?} {claim: It is hot.} {evidence: title: Tea content: Tea is hot.}'
    """
    evidence = _join_evidence(titles, sentences)
    return curly_braces([*_claim_pairs(context, claim), ("evidence", evidence)])


def dialfact_pair(
    context: Sequence[str],
    claim: str,
    titles: Sequence[str] = (),
    sentences: Sequence[str] = (),
) -> tuple[str, str]:
    """Returns the two texts that encoders read: the evidence, and the claim after its context.

    >>> dialfact_pair(["Hi.", "Tea?"], "It is hot.", ["Tea"], ["Tea is hot."])
    ('title: Tea content: Tea is hot.', 'Hi. [EOT] Tea? [EOT] It is hot.')
    """
    return _join_evidence(titles, sentences), dialfact_claim(context, claim)


def dialfact_claim(context: Sequence[str], claim: str) -> str:
    """Returns a claim after its context, as encoders read it.

    >>> dialfact_claim(["Hi.", "Tea?"], "It is hot.")
    'Hi. [EOT] Tea? [EOT] It is hot.'
    """
    return _join_values([*context[-_CLAIM_TURNS:], claim], f" {EOT} ")


def dense_query(context: Sequence[str], claim: str) -> str:
    """Returns the query for DPR's encoder: the turns and the claim, as in DialFact's code.

    >>> dense_query(["Hi.", "Tea?"], "It is hot.")
    'Hi. [eot] Tea? [SEP] It is hot.'
    >>> dense_query([], "It is hot.")
    'It is hot.'
    """
    return " [SEP] ".join([*filter(None, [" [eot] ".join(context)]), claim])


def _join_evidence(titles: Sequence[str], sentences: Sequence[str]) -> str:
    pairs = [(t, s) for t, s in zip(titles, sentences, strict=True) if s][:_MOST_EVIDENCE]
    return " ".join(evidence_text(clean_value(t), clean_value(s)) for t, s in pairs)


def evidence_text(title: str, sentence: str) -> str:
    """Returns a sentence of an article in the format of DialFact's models."""
    return f"title: {title} content: {sentence}"


def dialfact_claim_inputs(context: Sequence[str], claim: str) -> str:
    """Returns the input of DialFact's classifiers without evidence.

    >>> dialfact_claim_inputs(["Hi."], "It is a leaf.")
    '{context: Hi.} {claim: It is a leaf.}'
    """
    return curly_braces(_claim_pairs(context, claim))


def _claim_pairs(context: Sequence[str], claim: str) -> list[tuple[str, str]]:
    return [("context", _join_values(context[-_CLAIM_TURNS:], f" {EOT} ")), ("claim", claim)]


class Notation(NamedTuple):
    """The opening and closing delimiters of each kind; "" = the vocabulary can write none.

    Attributes:
      braces: delimiters around a key and its value.
      tags: delimiters around the name of a part.
    """

    braces: str = CANDIDATES["braces"][0]
    tags: str = CANDIDATES["tags"][0]

    def to_model_notation(self, text: str) -> str:
        """Returns a text with the model's delimiters; texts of unknown formats are unchanged.

        Raises:
          ConfigError: if the text needs delimiters, and the vocabulary can write none.
        """
        for form in self.forms:
            if re.match(form.start, text):
                return form.apply_replacements(text, form.writing)
        return text

    def to_published_notation(self, text: str) -> str:
        """Returns a text with the published delimiters; texts of unknown formats are unchanged.

        A generated text may have other text before its first `key:`.
        """
        for form in self.forms:
            if re.search(form.written_start, text):
                return form.apply_replacements(text, form.reading)
        return text

    @property
    def forms(self) -> "tuple[TextFormat, ...]":
        """The formats whose delimiters differ from the published ones."""
        return _build_forms(self)


PUBLISHED = Notation()


class TextFormat(NamedTuple):
    """A format, and the replacements between its published and its written form.

    Attributes:
      start: pattern that matches the beginning of texts in the published form.
      written_start: pattern that occurs in texts of the written form, for `re.search`.
      writing: replacements from the published to the written form; () = no delimiters possible.
      reading: replacements from the written to the published form.
    """

    start: str
    written_start: str
    writing: tuple[Replacement, ...]
    reading: tuple[Replacement, ...]

    def apply_replacements(self, text: str, replacements: Sequence[Replacement]) -> str:
        """Applies all replacements; raises a ConfigError if no delimiters can be written."""
        if not self.writing:
            raise ConfigError(
                "VOCABULARY: it can write none of the delimiters "
                f"{' '.join(dict.fromkeys((*CANDIDATES['braces'], *CANDIDATES['tags'])))}, each of "
                "which it reads as unknown or does not give back; choose a model whose vocabulary "
                "has one of these pairs, or a task of texts without delimiters."
            )
        for pattern, replacement in replacements:
            text = re.sub(pattern, replacement, text)
        return text


@functools.cache
def _build_forms(notation: Notation) -> tuple[TextFormat, ...]:
    keys, tags = "|".join(KEYS), "|".join(TAGS)
    forms = []
    if notation.braces != PUBLISHED.braces:
        opening = re.escape(notation.braces[:1])
        forms.append(
            TextFormat(
                r"\{[\w -]+: ",
                rf"{opening}({keys}):" if opening else r"(?!)",
                *_make_replacements(PUBLISHED.braces, notation.braces, _EOT_MARK),
            )
        )
    if notation.tags != PUBLISHED.tags:
        opening, closing = (re.escape(c) for c in (notation.tags[:1], notation.tags[1:]))
        control = rf"(<{_EXTRA_ID}> |{opening}[a-z-]+{closing} )*"
        forms.append(
            TextFormat(
                rf"(<[a-z0-9_-]+> )*<({tags})> ",
                rf"^{control}{opening}({tags}){closing} " if opening else r"(?!)",
                *_make_replacements(PUBLISHED.tags, notation.tags, f"<({_EXTRA_ID})>"),
            )
        )
    return tuple(forms)


def _make_replacements(
    published: str, marks: str, protected: str
) -> tuple[tuple[Replacement, ...], tuple[Replacement, ...]]:
    """Returns the replacements from the published delimiters to others, and back.

    Text that matches `protected` is not changed. Both are empty without delimiters.
    """
    if not marks:
        return (), ()
    first, last = protected.lstrip("\\")[0], protected[-1]

    def protect(*characters: tuple[str, str]) -> tuple[Replacement, ...]:
        replacements = ((re.escape(old), new) for old, new in characters)
        return (protected, rf"{_OPEN}\1{_CLOSE}"), *replacements, (_OPEN, first), (_CLOSE, last)

    values = zip(marks, _IN_VALUES[marks], strict=True)
    writing = protect(*values, *zip(published, marks, strict=True))
    return writing, protect(*zip(marks, published, strict=True))


def check_label(name: str, label: str, notation: Notation) -> None:
    """Raises a ConfigError if a label contains a delimiter, because it could not be read back."""
    inside = [c for c in dict.fromkeys(PUBLISHED.braces + notation.braces) if c in label]
    if inside:
        raise ConfigError(
            f"{name} = {label!r}: it contains {' '.join(inside)}, which the format of the targets "
            "has around a label; choose a label without."
        )


def choose_notation(writes: Callable[[str], bool]) -> Notation:
    """Returns the first notation whose texts a vocabulary `writes`, so decoding restores them."""

    def first(kind: str, probe: str) -> str:
        texts = ((pair, probe.replace("{", pair[0]).replace("}", pair[1]))
                 for pair in CANDIDATES[kind])  # fmt: skip
        return next((pair for pair, text in texts if writes(text)), "")

    return Notation(first("braces", "{query: a b.} {pro: c.}"), first("tags", "{wizard} a b."))
