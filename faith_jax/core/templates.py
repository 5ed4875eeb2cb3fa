"""The text a model sees, as pure functions of strings (SeqIO preprocessors agree with them).

The NPOV tasks use the "curly braces format" of Chang 2024, appendix B: key-value pairs in the
input and in the target.

>>> npov_generate_inputs("Is tea better?", ["It is calming."], ["It is weak.", "It stains."])
'{query: Is tea better?} {pro: It is calming.} {con: It is weak. It stains.}'
>>> npov_generate_targets("Views differ.")
'{response: Views differ.}'
>>> npov_response("{response: Views differ.}")
'Views differ.'
"""

import re
from collections.abc import Iterable, Sequence

from faith_jax.core.notation import CANDIDATES

EOT = "[EOT]"  # stands between the turns of a context
_BRACES = str.maketrans({"{": "(", "}": ")"})
_ANGLES = str.maketrans({"<": "(", ">": ")"})
_UNKNOWN = "\u2047"  # how SentencePiece shows an unknown token
_WHITE_SPACE = re.compile(r"\s+")


def one_space(text: str) -> str:
    """Returns a text with each run of white space as one space, and none around it."""
    return _WHITE_SPACE.sub(" ", text).strip()


def clean_value(text: str) -> str:
    """Returns a text with single spaces, and parentheses for the braces of the format."""
    return one_space(text).translate(_BRACES)


def clean_tagged(text: str) -> str:
    """Returns a text with single spaces, and parentheses for the angle brackets of tags."""
    return one_space(text).translate(_ANGLES)


def curly_braces(pairs: Iterable[tuple[str, str]]) -> str:
    """Returns the pairs as `{key: value} {key: value}`, with clean values."""
    return " ".join(f"{{{key}: {clean_value(value)}}}" for key, value in pairs)


def npov_generate_inputs(
    query: str, pro_arguments: Sequence[str], con_arguments: Sequence[str]
) -> str:
    """Returns the generator's input: the query and the two perspectives.

    A perspective is its arguments, joined by spaces (Chang 2024, section 2.1).
    """
    pro, con = _join_values(pro_arguments), _join_values(con_arguments)
    return curly_braces([("query", query), ("pro", pro), ("con", con)])


def _join_values(texts: Iterable[str], separator: str = " ") -> str:
    return separator.join(map(clean_value, texts))


def npov_classifier_inputs(
    query: str, response: str, pro_arguments: Sequence[str], con_arguments: Sequence[str]
) -> str:
    """Returns an error classifier's input: the query, the response, the two perspectives.

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
    """Returns the label in a classifier's output, see `npov_response`.

    >>> npov_label("{label: NO}")
    'NO'
    """
    return _extract_value(generated, "label")


def npov_generate_targets(response: str) -> str:
    """Returns the generator's target text for a written response."""
    return curly_braces([("response", response)])


def npov_response(generated: str) -> str:
    """Returns the response in a generated text; a text without the format as it stands.

    Text before `{response:` and behind the closing brace is dropped. The brace may be missing,
    in a text that was cut at the length limit. Other delimiters of `core.notation` are read too,
    and the mark of unknown tokens, as T5 writes braces that it was trained with.

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
    """Returns a dialogue generator's input: the knowledge, then the last utterances.

    Tags mark the speakers, as in FaithDial's published code; the last utterance is the seeker's.

    Args:
      knowledge: what the response may say; empty = none.
      history: earlier utterances, oldest first.
      last: how many of them the model sees at most (Dziri 2022: 3).

    >>> dialogue_inputs("Tea is a leaf.", ["Hi!", "Hello.", "What is tea?"], last=2)
    '<knowledge> Tea is a leaf. <wizard> Hello. <seeker> What is tea?'
    """
    parts = [f"<knowledge> {clean_tagged(knowledge)}"] if knowledge.strip() else []
    shown = history[-last:] if last else []
    for place, utterance in enumerate(shown):
        speaker = "seeker" if (len(shown) - place) % 2 else "wizard"
        parts.append(f"<{speaker}> {clean_tagged(utterance)}")
    return " ".join(parts)


def controlled_dialogue_inputs(
    control_tokens: Sequence[str], knowledge: str, history: Sequence[str], last: int = 3
) -> str:
    """Returns `dialogue_inputs` behind control tokens (Rashkin 2021).

    >>> controlled_dialogue_inputs(["<entailed>"], "Tea is a leaf.", ["What is tea?"])
    '<entailed> <knowledge> Tea is a leaf. <seeker> What is tea?'
    """
    return " ".join([*control_tokens, dialogue_inputs(knowledge, history, last)]).strip()


def knowledge_response_inputs(knowledge: str, response: str) -> str:
    """Returns the input of a critic of knowledge and response.

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
    """Returns the input of an entailment model, as TRUE's T5 models have it.

    >>> nli_inputs("Tea is  a leaf.", "Tea grows.")
    'premise: Tea is a leaf. hypothesis: Tea grows.'
    """
    return f"premise: {one_space(premise)} hypothesis: {one_space(hypothesis)}"


def dialfact_inputs(
    context: Sequence[str],
    claim: str,
    titles: Sequence[str] = (),
    sentences: Sequence[str] = (),
    last: int = 2,
    most_evidence: int = 5,
) -> str:
    """Returns the input of DialFact's classifiers (Gupta 2022, section 5.3).

    As in the authors' code, [EOT] stands between turns of the context, and each sentence of
    evidence follows the title of its article. Empty sentences are left out.

    Args:
      context: earlier utterances, oldest first.
      claim: the response to judge.
      titles: of the evidence's articles.
      sentences: the evidence, as many.
      last: how many utterances the model sees at most.
      most_evidence: how many sentences it sees at most.

    >>> dialfact_inputs(["Hi.", "Tea?"], "It is hot.", ["Tea"], ["Tea is hot."])
    '{context: Hi. [EOT] Tea?} {claim: It is hot.} {evidence: title: Tea content: Tea is hot.}'
    """
    evidence = _join_evidence(titles, sentences, most_evidence)
    return curly_braces([*_claim_pairs(context, claim, last), ("evidence", evidence)])


def dialfact_pair(
    context: Sequence[str],
    claim: str,
    titles: Sequence[str] = (),
    sentences: Sequence[str] = (),
    last: int = 2,
    most_evidence: int = 5,
) -> tuple[str, str]:
    """Returns the two texts that encoders read: the evidence, and the claim behind its context.

    >>> dialfact_pair(["Hi.", "Tea?"], "It is hot.", ["Tea"], ["Tea is hot."])
    ('title: Tea content: Tea is hot.', 'Hi. [EOT] Tea? [EOT] It is hot.')
    """
    shown = dialfact_claim(context, claim, last)
    return _join_evidence(titles, sentences, most_evidence), shown


def dialfact_claim(context: Sequence[str], claim: str, last: int = 2) -> str:
    """Returns a claim behind its context, as encoders read it.

    >>> dialfact_claim(["Hi.", "Tea?"], "It is hot.")
    'Hi. [EOT] Tea? [EOT] It is hot.'
    """
    return _join_values([*(context[-last:] if last else ()), claim], f" {EOT} ")


def dense_query(context: Sequence[str], claim: str) -> str:
    """Returns the query of DPR's encoder: the turns and the claim, as in DialFact's code.

    >>> dense_query(["Hi.", "Tea?"], "It is hot.")
    'Hi. [eot] Tea? [SEP] It is hot.'
    >>> dense_query([], "It is hot.")
    'It is hot.'
    """
    return " [SEP] ".join([*filter(None, [" [eot] ".join(context)]), claim])


def _join_evidence(titles: Sequence[str], sentences: Sequence[str], most: int) -> str:
    pairs = [(t, s) for t, s in zip(titles, sentences, strict=True) if s][:most]
    return " ".join(evidence_text(clean_value(t), clean_value(s)) for t, s in pairs)


def evidence_text(title: str, sentence: str) -> str:
    """Returns a sentence of an article as DialFact's models read it."""
    return f"title: {title} content: {sentence}"


def dialfact_claim_inputs(context: Sequence[str], claim: str, last: int = 2) -> str:
    """Returns the input of DialFact's classifiers without evidence.

    >>> dialfact_claim_inputs(["Hi."], "It is a leaf.")
    '{context: Hi.} {claim: It is a leaf.}'
    """
    return curly_braces(_claim_pairs(context, claim, last))


def _claim_pairs(context: Sequence[str], claim: str, last: int) -> list[tuple[str, str]]:
    shown = context[-last:] if last else []
    return [("context", _join_values(shown, f" {EOT} ")), ("claim", claim)]
