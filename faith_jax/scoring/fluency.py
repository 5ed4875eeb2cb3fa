"""The probability of a response alone by a language model: its fluency, not its faithfulness."""

from collections.abc import Sequence
from typing import Unpack

from faith_jax.core.cutting import Kind, Part
from faith_jax.core.types import GroundedExample
from faith_jax.inference.opening import ModelOptions
from faith_jax.inference.row_likelihoods import LikelihoodEngine, LikelihoodRow
from faith_jax.inference.texts.text_reader import ReadResponse, open_text_reader
from faith_jax.scoring.base import Judgement, ModelScorer
from faith_jax.scoring.model_cards import CARDS


class FluencyScorer(ModelScorer[ReadResponse]):
    """The mean log-probability of a response's tokens, without grounding and history, in nats.

    Perplexity (Gupta 2022, section 4.1.1) is the exponential of its negative. For a decoder-only
    model, the response is preceded by the token that begins or ends texts.

    Args:
      model: a checkpoint of any language model, such as GPT-2, with its tokenizer.
      **options: see `ModelOptions`.

    Raises:
      ConfigError: without a model, or for a wrong option.
    """

    card = CARDS["fluency"]

    def __init__(self, model: str | None = None, **options: Unpack[ModelOptions]):
        opened, self._reader = open_text_reader(model, options)
        self._engine = LikelihoodEngine(opened, options.get("tokens_per_batch"))

    def read(self, example: GroundedExample) -> ReadResponse | None:
        text, name = example.response, f"example {example.id!r}"
        part = Part(Kind.RESPONSE, 0, 0, len(text), len(text))
        if not self._reader.tokenizer.encode(text):
            return None
        return self._reader.read_response([], (text, [part]), name)

    def choose_shapes(self, rows: Sequence[ReadResponse], window: int, total: int) -> None:
        limit = self._reader.longest_inputs([row.response for row in rows])
        self._engine.choose_shapes(self._likelihood_rows(rows), limit, window, total)

    def texts(self, row: ReadResponse) -> dict[str, str]:
        return {"response": self._reader.to_readable(row.response)}

    def judge_rows(
        self, examples: Sequence[GroundedExample], rows: Sequence[ReadResponse]
    ) -> list[Judgement]:
        all_log_probs = self._engine.log_probs(self._likelihood_rows(rows))
        return [Judgement(float(log_probs.mean())) for log_probs in all_log_probs]

    def _likelihood_rows(self, rows: Sequence[ReadResponse]) -> list[LikelihoodRow]:
        start = self._reader.response_start
        return [LikelihoodRow(row.inputs, row.response, start) for row in rows]
