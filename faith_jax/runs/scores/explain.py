"""Where the words of a response come from: the run `explain`, and `faith_jax.explain`."""

import dataclasses
import logging
import math
from collections.abc import Sequence
from typing import Any, Unpack, cast

from faith_jax.checkpoints.embedded import warn_of_other_texts
from faith_jax.core.errors import ConfigError, InputError, did_you_mean
from faith_jax.core.files import reserve_outputs, write_jsonl, write_text
from faith_jax.core.files.stores import path_of
from faith_jax.core.rows import BadRows
from faith_jax.core.types import GroundedExample, Grounding
from faith_jax.datasets import npov
from faith_jax.datasets.grounded_rows import Columns, file_examples
from faith_jax.inference.base import BaseModel
from faith_jax.report.salience import THRESHOLD, SaliencePicture, salience_page, salience_picture
from faith_jax.runs.options import ExplainOptions, SalienceMap
from faith_jax.scoring.salience.inputs import generated_response
from faith_jax.scoring.salience.scorers import Salience, SalienceOptions, open_salience

logger = logging.getLogger("faith_jax")

_MOST_EXAMPLES = 20
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

    A notebook shows the picture as a heat map; `str` and `print` give its text, with words of a
    small value in [brackets].

    Args:
      model: a language model from `load_model`, or its path or name; preferably the model that
        wrote the response.
      response: the text; None = the model writes it.
      query: the question, which is the last turn.
      pro: one or several arguments for.
      con: one or several arguments against.
      knowledge: one or several texts without sides, instead of `pro` and `con`.
      history: turns before the query, oldest first.
      threshold: in [0, 1]; words below it are marked.
      **options: method, vocabulary, max_length …, see `SalienceOptions`.

    Raises:
      InputError: a text is missing, or has no content words.
      ConfigError: the model cannot be explained, or an option is wrong.
    """
    pros, cons, texts = _as_tuple(pro), _as_tuple(con), _as_tuple(knowledge)
    if bool(pros) != bool(cons) or bool(texts) == bool(pros):
        raise InputError("explain: give both pro and con, or knowledge.")
    source = Grounding(texts) if texts else Grounding.two_sided(pros, cons)
    if not all(text.strip() for text in source.texts):
        raise InputError("explain: an argument or a text of the knowledge is empty; leave it out.")
    if not 0 <= threshold <= 1:
        raise ConfigError(f"threshold: expected a share in [0, 1], got {threshold!r}.")
    turns = _as_tuple(history) + _as_tuple(query)
    example = GroundedExample("response", source, turns, response or "")
    salience = open_salience(model, **options)
    return _draw_pictures(salience, [example], threshold, writes=response is None)[0]


def _as_tuple(texts: str | Sequence[str]) -> tuple[str, ...]:
    return tuple(filter(None, (texts,))) if isinstance(texts, str) else tuple(texts)


def _draw_pictures(
    salience: Salience, examples: Sequence[GroundedExample], threshold: float, writes: bool
) -> list[SaliencePicture]:
    """Returns the pictures of examples in order; with `writes`, the model writes the responses.

    Examples without content words are left out with a warning.

    Raises:
      InputError: no example has content words.
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
    shown_pictures, problems = [], []
    for example, of_words in zip(examples, salience(examples), strict=True):
        texts = {"response": example.response, "grounding": " ".join(example.grounding.texts)}
        without = "response"
        if of_words and of_words.response_words:
            without = "" if of_words.argument_words else "grounding"
        if of_words is None or without:
            blank = texts[without]
            problems.append(
                f"{example.id}: the {without} has no content words to explain: {blank!r}."
            )
        else:
            shown_pictures.append(salience_picture(example, of_words, threshold))
    if not shown_pictures:
        raise InputError(problems[0])
    for problem in problems:
        logger.warning("%s It is left out.", problem)
    return shown_pictures


def _inputs_and_outputs(options: ExplainOptions) -> tuple[list[str], dict[str, str]]:
    outputs = {"--html": options.html, "--png": options.png, "--json": options.json}
    return [options.input or ""], outputs


@reserve_outputs(_inputs_and_outputs)
def write_explanations(options: ExplainOptions) -> list[SaliencePicture]:
    """Computes the maps, writes the outputs, and returns the pictures in order."""
    examples = _read_examples(options)
    settings = {
        field.name: getattr(options, field.name) for field in dataclasses.fields(SalienceMap)
    }
    salience = open_salience(options.model, **cast(SalienceOptions, settings))
    writes = not options.input and options.response is None
    drawn = _draw_pictures(salience, examples, options.threshold, writes)
    if options.html:
        title = "Salience" if len(drawn) > 1 else f"Salience: {drawn[0].query}".rstrip(": ")
        write_text(options.html, salience_page(title, drawn))
    if options.png:
        from faith_jax.report.figures import numbered_paths, save_heat_map

        paths = numbered_paths(path_of(options.png), len(drawn))
        for picture, path in zip(drawn, paths, strict=True):
            save_heat_map(picture, path)
    if options.json:
        write_jsonl(options.json, map(_json_row, drawn))
    return drawn


def _json_row(picture: SaliencePicture) -> dict[str, Any]:
    salience = picture.salience

    def word(salience_word, value):
        return {
            "word": salience_word.text,
            "start": salience_word.start,
            "end": salience_word.end,
            "text": salience_word.number,
            "perspective": salience_word.perspective,
            "value": round(float(value), 6),
        }

    scores = picture.scores.items()
    return {
        "id": picture.title,
        "scores": {name: None if math.isnan(v) else round(v, 6) for name, v in scores},
        "response": "".join(piece.text for piece in picture.response.pieces),
        "attributions": [
            word(w, v) | {"in_grounding_or_query": not is_foreign}
            for w, v, is_foreign in zip(
                salience.response_words, picture.attributions, picture.foreign, strict=True
            )
        ],
        "contributions": [
            word(w, v) for w, v in zip(salience.argument_words, picture.contributions, strict=True)
        ],
        "map": [[round(float(v), 6) for v in line] for line in salience.values],
        "cut_tokens": salience.cut_tokens,
        "cut": dict(salience.cut),
    }


def _read_examples(options: ExplainOptions) -> list[GroundedExample]:
    sided, history = options.pro or options.con, options.history
    if options.query:
        history = (*history, options.query)
    problem = ""
    if bool(sided or options.grounding) + bool(options.knowledge) + bool(options.input) != 1:
        problem = (
            "Give what the response was written from, by one of: --pro and --con, --grounding, "
            "--knowledge, --input."
        )
    elif options.input and options.response is not None:
        problem = "--response: the rows of --input have theirs; leave one out."
    elif options.grounding and sided:
        problem = "--grounding: is for texts without sides; leave --pro and --con out."
    elif sided and not (options.pro and options.con):
        present, missing = ("--pro", "--con") if options.pro else ("--con", "--pro")
        problem = (
            f"The arguments are on one side only: {present} without {missing}. Give {missing} "
            "too, or texts without sides by --grounding."
        )
    elif not all(text.strip() for text in (*options.grounding, *options.pro, *options.con)):
        problem = "An argument is empty; leave it out or give its text."
    elif options.knowledge and not history:
        problem = "--knowledge: ask one of its questions by --query."
    if problem:
        raise ConfigError(problem)
    if options.input:
        path, requested_ids = path_of(options.input), set(options.id)
        columns = Columns(
            grounding_column=options.grounding_column,
            response_column=options.response_column,
            history_column=options.history_column,
        )
        examples, seen = [], []
        for row in file_examples(path, "", columns, path.stem, BadRows()):
            seen.append(row.example.id)
            if not requested_ids or row.example.id in requested_ids:
                examples.append(row.example)
            if not requested_ids and len(examples) == _MOST_EXAMPLES:
                break
        for missing in sorted(requested_ids - {example.id for example in examples}):
            raise InputError(f"{path}: no row has the id {missing!r}.{did_you_mean(missing, seen)}")
        if not examples:
            raise InputError(f"{path}: has no rows.")
        return examples
    if options.knowledge:
        topics = npov.load_topics(options.knowledge)
        topic = npov.retrieve(topics, history[-1])
        pro, con = npov.choose_arguments(topic, options.arguments, options.seed)
        grounding = Grounding.two_sided(
            [argument.text for argument in pro], [argument.text for argument in con]
        )
    else:
        grounding = (
            Grounding.two_sided(options.pro, options.con) if sided else Grounding(options.grounding)
        )
    return [GroundedExample("response", grounding, history, options.response or "")]
