"""The run `explain`: where the words of a response come from, as text, heat map or page."""

import dataclasses
import math
from typing import Any, cast

from faith_jax.core.errors import ConfigError, InputError, did_you_mean
from faith_jax.core.files import reserve_outputs, write_jsonl, write_text
from faith_jax.core.files.stores import path_of
from faith_jax.core.rows import BadRows
from faith_jax.core.types import GroundedExample, Grounding
from faith_jax.datasets import npov
from faith_jax.datasets.grounded_rows import Columns, file_examples
from faith_jax.report.explain import pictures
from faith_jax.report.salience import SaliencePicture, salience_page
from faith_jax.runs.options import ExplainOptions, SalienceMap
from faith_jax.scoring.salience.scorers import SalienceOptions, open_salience

MOST_EXAMPLES = 20


def _inputs_and_outputs(options: ExplainOptions) -> tuple[list[str], dict[str, str]]:
    return [options.input or ""], {
        "--html": options.html,
        "--png": options.png,
        "--json": options.json,
    }


@reserve_outputs(_inputs_and_outputs)
def explain(options: ExplainOptions) -> list[SaliencePicture]:
    """Computes the maps, writes what was asked for, and returns the pictures in order."""
    examples = _read_examples(options)
    settings = {
        field.name: getattr(options, field.name) for field in dataclasses.fields(SalienceMap)
    }
    salience = open_salience(options.model, **cast(SalienceOptions, settings))
    writes = not options.input and options.response is None
    drawn = pictures(salience, examples, options.threshold, writes)
    if options.html:
        title = "Salience" if len(drawn) > 1 else f"Salience: {drawn[0].query}".rstrip(": ")
        write_text(options.html, salience_page(title, drawn))
    if options.png:
        from faith_jax.report.figures import save_heat_map

        for number, picture in enumerate(drawn, 1):
            path = path_of(options.png)
            if number > 1:
                path = path.with_name(f"{path.stem}-{number}{path.suffix}")
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
            if not requested_ids and len(examples) == MOST_EXAMPLES:
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
