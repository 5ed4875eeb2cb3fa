"""Where the words of a response come from: a picture of texts that are given."""

import dataclasses
import logging
from collections.abc import Sequence
from typing import Unpack

from faith_jax.checkpoints.embedded import warn_of_other_texts
from faith_jax.core.errors import ConfigError, InputError
from faith_jax.core.types import GroundedExample, Grounding
from faith_jax.inference.base import BaseModel
from faith_jax.report.salience import THRESHOLD, SaliencePicture, salience_picture
from faith_jax.scoring.salience.inputs import generated_response
from faith_jax.scoring.salience.scorers import Salience, SalienceOptions, open_salience

logger = logging.getLogger("faith_jax")

_MAX_RESPONSE = 256  # tokens of a response that the model writes


def explain(
    model: str | BaseModel,
    response: str | None = None,
    *,
    query: str = "",
    pro: str | Sequence[str] = (),
    con: str | Sequence[str] = (),
    knowledge: str | Sequence[str] = (),
    history: str | Sequence[str] = (),
    threshold: float = THRESHOLD,
    **options: Unpack[SalienceOptions],
) -> SaliencePicture:
    """Returns where the words of a response come from, as a picture that shows itself.

    In a notebook it is a heat map; `str` and `print` give its text, in which words with a small
    value stand in [brackets].

    Args:
      model: a language model, best the one that wrote the response: from `load_model`, or its path
        or name.
      response: the text; None = the model writes it.
      query: what was asked, the last turn.
      pro: arguments for: a text or several.
      con: arguments against.
      knowledge: in place of these, a text or several without sides.
      history: turns before the query, oldest first.
      threshold: in [0, 1], below which words are marked.
      **options: method, vocabulary, max_length …, see `SalienceOptions`.

    Raises:
      InputError: where a text is missing, or has no content words.
      ConfigError: on a model that cannot be explained, and on wrong options.
    """
    sides = {"pro": _as_tuple(pro), "con": _as_tuple(con)}
    texts = _as_tuple(knowledge)
    if bool(texts) == any(sides.values()) or len({bool(side) for side in sides.values()}) > 1:
        raise InputError("explain: give both pro and con, or knowledge.")
    if not texts:
        named = [(side, text) for side, texts_of_side in sides.items() for text in texts_of_side]
        source = Grounding(tuple(t for _, t in named), tuple(side for side, _ in named))
    else:
        source = Grounding(texts)
    if not all(text.strip() for text in source.texts):
        raise InputError("explain: an argument or a text of the knowledge is empty; leave it out.")
    if not 0 <= threshold <= 1:
        raise ConfigError(f"threshold: expected a share in [0, 1], got {threshold!r}.")
    turns = _as_tuple(history) + _as_tuple(query)
    example = GroundedExample("response", source, turns, response or "")
    (picture,) = pictures(
        open_salience(model, **options), [example], threshold, writes=response is None
    )
    return picture


def _as_tuple(texts: str | Sequence[str]) -> tuple[str, ...]:
    return tuple(filter(None, (texts,))) if isinstance(texts, str) else tuple(texts)


def pictures(
    salience: Salience, examples: Sequence[GroundedExample], threshold: float, writes: bool
) -> list[SaliencePicture]:
    """Returns the pictures of examples in order; `writes`: the model writes the responses.

    Raises:
      InputError: for an example without content words.
    """
    warn_of_other_texts(salience.engine.model.path, (e.grounding for e in examples))
    if writes:
        encode, model = salience.encode, salience.engine.model
        length = min(_MAX_RESPONSE, encode.reader.max_length // 2)
        completed = []
        for example in examples:
            # Greedy search.
            tokens = model.generate([encode.input_ids(example, length)], max_length=length)
            text = encode.reader.tokenizer.decode([int(token) for token in tokens[0]])
            response = generated_response(example, text)
            logger.info("The model's response: %s", response)
            completed.append(dataclasses.replace(example, response=response))
        examples = completed
    shown_pictures = []
    for example, of_words in zip(examples, salience(examples), strict=True):
        texts = {"response": example.response, "grounding": " ".join(example.grounding.texts)}
        without = "response"
        if of_words and of_words.response_words:
            without = "" if of_words.argument_words else "grounding"
        if of_words is None or without:
            blank = texts[without]
            raise InputError(
                f"{example.id}: the {without} has no content words to explain: {blank!r}."
            )
        shown_pictures.append(salience_picture(example, of_words, threshold))
    return shown_pictures
