"""The command explain."""

import dataclasses
import os
import sys
from typing import Any, ClassVar, Literal


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Source:
    """What the response was written from.

    Attributes:
      query (TEXT): the question
      pro (TEXT): an argument for (repeatable)
      con (TEXT): an argument against (repeatable)
      grounding (TEXT): a text without a side (repeatable)
      history (TEXT): an earlier utterance, oldest first (repeatable)
      knowledge (FOLDER): take the arguments of the query's topic from here; 'sample' = the embedded
        sample
      arguments (N): of each side
      seed: of which arguments
      input (FILE): or rows, as score reads them
      id: of a row (repeatable)
      grounding_column (NAME): as of score; likewise the next
      response_column (NAME): of the response
      history_column (NAME): of earlier utterances
    """

    group: ClassVar = "what the response was written from"
    query: str = ""
    pro: tuple[str, ...] = ()
    con: tuple[str, ...] = ()
    grounding: tuple[str, ...] = ()
    history: tuple[str, ...] = ()
    knowledge: str = ""
    arguments: int = 2
    seed: int = 0
    input: str = ""
    id: tuple[str, ...] = ()
    grounding_column: str = ""
    response_column: str = ""
    history_column: str = ""


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Output:
    """What is written.

    Attributes:
      html (FILE): a page with the heat map
      png (FILE): the heat map
      json (FILE): words and values
      color: of the text; auto: in a terminal, unless NO_COLOR is set
      threshold (SHARE): below which words are marked
    """

    group: ClassVar = "output"
    html: str = ""
    png: str = ""
    json: str = ""
    color: Literal["auto", "always", "never"] = "auto"
    threshold: float | None = None


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Map:
    """How the map is made.

    Attributes:
      method: gradient_x_input or gradient_l2
      vocabulary (FOLDER): of the tokenizer, if not the model's
      max_length (N): tokens that the model reads
      max_bytes (N): of activations; a larger map is computed in parts
    """

    group: ClassVar = "the map"
    method: str = "gradient_x_input"
    vocabulary: str | None = None
    max_length: int | None = None
    max_bytes: int | None = None


@dataclasses.dataclass(frozen=True, kw_only=True)
class Explain(_Map, _Output, _Source):
    r"""Shows where the words of a response come from.

    Shows which words of the grounding the words of a response come from, by the gradients of a
    language model (Chang 2024, section 3.2): in the terminal, as a heat map, as a page.

    Words of the response that no word of the grounding accounts for are marked as unsupported,
    words of the grounding that went into no word of the response as not covered.

    Attributes:
      model (FOLDER): of the language model, best the writer's
      response (TEXT): the text (default: the model writes it)

    Examples:
      %(prog)s --model=runs/npov --knowledge=sample --query="Should voting be compulsory?"
      %(prog)s --model=runs/npov --query="Is tea better than coffee?" --pro="Tea is calming." \
          --con="Coffee has more aroma." --html=tea.html --png=tea.png \
          --response="Supporters say that tea is calming. Critics prefer the aroma of coffee."
      %(prog)s --model=checkpoints/gpt2 --grounding="Tea is a leaf." --history="What is tea?" \
          --response="A green leaf."
      %(prog)s --model=runs/npov --input=responses.jsonl --id=voting-2 --html=voting.html
    """

    model: str
    response: str | None = None

    def run(self) -> None:
        from faith_jax.datasets.grounded_rows import Columns
        from faith_jax.report.salience import THRESHOLD, salience_text
        from faith_jax.runs.explain import Explained, explain

        given = Explained(
            pro=self.pro,
            con=self.con,
            grounding=self.grounding,
            history=(*self.history, *filter(None, [self.query])),
            response=self.response,
            knowledge=self.knowledge,
            arguments=self.arguments,
            seed=self.seed,
            file=self.input,
            columns=Columns(self.grounding_column, self.response_column, self.history_column),
            ids=self.id,
        )
        settings: Any = {
            field.name: getattr(self, field.name) for field in dataclasses.fields(_Map)
        }
        threshold = THRESHOLD if self.threshold is None else self.threshold
        files = self.html, self.png, self.json
        pictures = explain(given, self.model, settings, threshold, *files)
        coloured = self.color == "always"
        if self.color == "auto":
            coloured = sys.stdout.isatty() and not os.environ.get("NO_COLOR")
        print("\n".join(salience_text(picture, coloured) for picture in pictures), end="")
        for path in filter(None, files):
            print(path)
