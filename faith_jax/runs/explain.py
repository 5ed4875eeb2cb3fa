"""The run `explain`: where the words of a response come from, as text, heat map or page."""

import dataclasses
import json
import logging
import math
import pathlib
from collections.abc import Sequence

from faith_jax.core.errors import ConfigError, InputError, did_you_mean
from faith_jax.core.outputs import check_endings, check_outputs, write_text
from faith_jax.core.rows import BadRows
from faith_jax.core.types import GroundedExample, Grounding
from faith_jax.datasets import npov, samples
from faith_jax.datasets.grounded_rows import Columns, file_examples
from faith_jax.report.salience import (
    THRESHOLD,
    SaliencePicture,
    salience_page,
    salience_picture,
)
from faith_jax.scoring.salience.inputs import generated_response
from faith_jax.scoring.salience.scorers import Salience, SalienceOptions, open_salience

logger = logging.getLogger("faith_jax")

SAMPLE = "sample"
MOST_EXAMPLES = 20
_MAX_RESPONSE = 256  # tokens of a response that the model writes


@dataclasses.dataclass(frozen=True)
class Explained:
    """What is explained.

    Attributes:
      pro: arguments for.
      con: arguments against.
      grounding: texts without sides, in place of them.
      history: earlier utterances, oldest first; or the query.
      response: the text to explain; None = the model writes it.
      knowledge: "sample", or a folder of topics, from which the query's arguments are taken.
      arguments: how many of them a side.
      seed: of which they are.
      file: rows as `faith-jax score` reads them, in place of all others.
      columns: of the file.
      ids: of the file's rows; empty = its first.
      most: how many rows of the file at most.
    """

    pro: tuple[str, ...] = ()
    con: tuple[str, ...] = ()
    grounding: tuple[str, ...] = ()
    history: tuple[str, ...] = ()
    response: str | None = None
    knowledge: str = ""
    arguments: int = 2
    seed: int = 0
    file: str = ""
    columns: Columns = dataclasses.field(default_factory=Columns)
    ids: tuple[str, ...] = ()
    most: int = MOST_EXAMPLES

    def examples(self) -> list[GroundedExample]:
        """Returns the examples.

        Raises:
          FaithJaxError: on texts that do not go together, a topic that is not in the knowledge, and
            a file that is bad or lacks an id.
        """
        texts = bool(self.pro or self.con or self.grounding)
        if texts + bool(self.knowledge) + bool(self.file) != 1:
            raise ConfigError(
                "Give what the response was written from, by one of: --pro and --con, --grounding, "
                "--knowledge, --input."
            )
        if self.file:
            if self.response is not None:
                raise ConfigError("--response: the rows of --input have theirs; leave one out.")
            return self._of_file()
        grounding = self._of_topic() if self.knowledge else self._of_texts()
        return [GroundedExample("response", grounding, self.history, self.response or "")]

    def _of_texts(self) -> Grounding:
        if self.grounding and (self.pro or self.con):
            raise ConfigError("--grounding: is for texts without sides; leave --pro and --con out.")
        if not self.grounding and not (self.pro and self.con):
            given, missing = ("--pro", "--con") if self.pro else ("--con", "--pro")
            raise InputError(
                f"The arguments are on one side only: {given} without {missing}. Give {missing} "
                "too, or texts without sides by --grounding."
            )
        for text in (*self.grounding, *self.pro, *self.con):
            if not text.strip():
                raise InputError("An argument is empty; leave it out or give its text.")
        if self.grounding:
            return Grounding(self.grounding)
        sides = ("pro",) * len(self.pro) + ("con",) * len(self.con)
        return Grounding((*self.pro, *self.con), sides)

    def _of_topic(self) -> Grounding:
        if not self.history:
            raise ConfigError("--knowledge: ask one of its questions by --query.")
        folder = (
            samples.sample_folder("procon_npov")
            if self.knowledge == SAMPLE
            else pathlib.Path(self.knowledge)
        )
        topic = npov.retrieve(npov.load_topics(folder), self.history[-1])
        pro, con = npov.choose_arguments(topic, self.arguments, self.seed)
        sides = ("pro",) * len(pro) + ("con",) * len(con)
        return Grounding(tuple(argument.text for argument in (*pro, *con)), sides)

    def _of_file(self) -> list[GroundedExample]:
        path = pathlib.Path(self.file)
        wanted = set(self.ids)
        found, seen = [], []
        for row in file_examples(path, "", self.columns, path.stem, BadRows()):
            seen.append(row.example.id)
            if not wanted or row.example.id in wanted:
                found.append(row.example)
            if not wanted and len(found) == self.most:
                break
        for missing in sorted(wanted - {example.id for example in found}):
            raise InputError(f"{path}: no row has the id {missing!r}.{did_you_mean(missing, seen)}")
        if not found:
            raise InputError(f"{path}: has no rows.")
        return found


def explain(
    given: Explained,
    model: str,
    options: SalienceOptions,
    threshold: float = THRESHOLD,
    html: str = "",
    png: str = "",
    json_file: str = "",
) -> list[SaliencePicture]:
    """Computes the maps and writes what was asked for.

    Args:
      given: what is explained.
      model: the language model whose gradients they are; the one that wrote the responses tells
        most.
      options: of the maps.
      threshold: in [0, 1], below which words are marked.
      html: a page to write; "" = none.
      png: a heat map to write; further examples' are NAME-2.png and so on.
      json_file: words and values to write, one line an example.

    Returns:
      The pictures, in order.

    Raises:
      FaithJaxError: on wrong settings or input, on a response without content words; nothing is
        written then.
    """
    if not 0 <= threshold <= 1:
        raise ConfigError(f"--threshold: expected a share from 0 to 1, got {threshold!r}.")
    inputs = [given.file] if given.file else []
    check_outputs(inputs, {"--html": html, "--png": png, "--json": json_file})
    check_endings({"--png": png}, ".png")
    check_endings({"--html": html}, ".html")
    examples = given.examples()
    salience = open_salience(model, **options)
    if not given.file and given.response is None:
        examples = [_with_response(salience, example) for example in examples]
    maps = salience(examples)
    pictures = []
    for example, found in zip(examples, maps, strict=True):
        for name, words in (
            ("response", found.response_words if found else ()),
            ("grounding", found.argument_words if found else ()),
        ):
            if not words:
                shown = (
                    example.response if name == "response" else " ".join(example.grounding.texts)
                )
                raise InputError(
                    f"{example.id}: the {name} has no content words to explain: {shown!r}."
                )
        assert found is not None  # a response with content words is not empty
        pictures.append(salience_picture(example, found, threshold))
    _write(pictures, html, png, json_file)
    return pictures


def _with_response(salience: Salience, example: GroundedExample) -> GroundedExample:
    """Returns the example with what the model writes, greedily."""
    encode, model = salience.encode, salience.engine.model
    length = min(_MAX_RESPONSE, encode.max_length // 2)
    tokens = model.generate([encode.input_ids(example, length)], max_length=length)
    text = encode.tokenizer.decode([int(token) for token in tokens[0]])
    response = generated_response(example, text)
    logger.info("The model's response: %s", response)
    return dataclasses.replace(example, response=response)


def _write(pictures: Sequence[SaliencePicture], html: str, png: str, json_file: str) -> None:
    if html:
        title = "Salience" if len(pictures) > 1 else f"Salience: {pictures[0].query}".rstrip(": ")
        write_text(html, salience_page(title, pictures))
    if png:
        from faith_jax.report.figures import save_heat_map

        for number, picture in enumerate(pictures, 1):
            path = pathlib.Path(png)
            if number > 1:
                path = path.with_name(f"{path.stem}-{number}{path.suffix}")
            save_heat_map(picture, path)
    if json_file:
        write_text(json_file, "".join(_json_line(picture) for picture in pictures))


def _json_line(picture: SaliencePicture) -> str:
    salience = picture.salience

    def word(found, value):
        return {
            "word": found.text,
            "start": found.start,
            "end": found.end,
            "text": found.number,
            "perspective": found.perspective,
            "value": round(float(value), 6),
        }

    scores = {
        "hallucination": picture.hallucination_score,
        "coverage": picture.coverage_error_score,
    }
    row = {
        "id": picture.title,
        "error_scores": {n: None if math.isnan(v) else round(v, 6) for n, v in scores.items()},
        "response": "".join(piece.text for piece in picture.response.pieces),
        "attributions": [
            word(w, v) for w, v in zip(salience.response_words, picture.attributions, strict=True)
        ],
        "contributions": [
            word(w, v) for w, v in zip(salience.argument_words, picture.contributions, strict=True)
        ],
        "map": [[round(float(v), 6) for v in line] for line in salience.values],
        "cut_tokens": salience.cut_tokens,
        "cut": dict(salience.cut),
    }
    return json.dumps(row, ensure_ascii=False) + "\n"
