"""The token ids that a language model sees of an example, with its document and without.

Both have the same history, the same response and, where something is too long, the same cuts, so
that they differ in the document alone.
"""

import dataclasses
from typing import NamedTuple

from faith_jax import templates
from faith_jax.errors import ConfigError
from faith_jax.scoring.base import joined
from faith_jax.scoring.likelihood import LikelihoodRow
from faith_jax.scoring.models import check_ids, check_text
from faith_jax.types import GroundedExample, Tokenizer


@dataclasses.dataclass(frozen=True)
class PromptFormat:
    """How the texts of an example become one text, with `{document}`, `{turn}`, `{response}`.

    Attributes:
      document: what stands first.
      turn: for each utterance of the history, oldest first.
      cue: what stands in front of the response.
      response: the scored text, behind the cue; see `Prompter.score_cue`.
      last_turns: how many utterances are shown at most; 0 = all.

    The defaults are those of the authors of PMI-Faith (Nandwani 2023), who give the whole history
    as one text, as here a single turn.
    """

    document: str = "Document: {document}\n\n"
    turn: str = "{turn}.\n"
    cue: str = "Agent:"
    response: str = " {response}."
    last_turns: int = 0

    def __post_init__(self):
        for name in ("document", "turn", "cue", "response"):
            check_text(f"{name}_prompt", getattr(self, name))
            if name != "cue" and f"{{{name}}}" not in getattr(self, name):
                raise ConfigError(
                    f"{name}_prompt: expected a text with {{{name}}}, got {getattr(self, name)!r}."
                )

    def history(self, turns: tuple[str, ...]) -> str:
        """Returns the text of a history."""
        shown = turns[-self.last_turns :] if self.last_turns else turns
        return "".join(self.turn.replace("{turn}", turn) for turn in shown)


class ScoredPrompt(NamedTuple):
    """What is scored of one example.

    Attributes:
      with_document: inputs and response.
      without_document: the same response, and the inputs without the document.
      offset: of the response's first character in the text whose tokens are scored.
      token_spans: for each response token the offsets of its first character and behind its last.
      cut_tokens: tokens of document, history and response that did not fit.
    """

    with_document: LikelihoodRow
    without_document: LikelihoodRow
    offset: int
    token_spans: tuple[tuple[int, int], ...]
    cut_tokens: int


@dataclasses.dataclass(frozen=True)
class Prompter:
    """Makes the prompts of one model.

    What does not fit is cut so: the response keeps up to half of the tokens and loses its end; the
    history keeps up to half of what is then left, and loses its beginning; the document gets the
    rest, and loses its end.

    Attributes:
      tokenizer: the model's.
      vocab_size: of the model.
      max_length: tokens of the inputs, and in a decoder-only model of inputs and response.
      causal: whether the model is decoder-only.
      prompt: the format; None = the dialogue format of an encoder-decoder's tasks.
      use_history: whether the history is shown.
      last_turns: utterances shown in the dialogue format.
      score_cue: whether the cue is scored with the response, as one text, or is read only.
    """

    tokenizer: Tokenizer
    vocab_size: int
    max_length: int
    causal: bool
    prompt: PromptFormat | None = dataclasses.field(default_factory=PromptFormat)
    use_history: bool = True
    last_turns: int = 3
    score_cue: bool = True

    def __call__(self, example: GroundedExample) -> ScoredPrompt | None:
        """Returns what is scored of an example; None where its response has no tokens."""
        if not example.response.strip():
            return None
        pattern = " {response}" if self.prompt is None else self.prompt.response
        if self.prompt is None and not self.causal:
            pattern = "{response}"
        scored_cue = self.prompt.cue if self.prompt is not None and self.score_cue else ""
        text = scored_cue + pattern.replace("{response}", example.response)
        ids, spans = self.tokenizer.encode_with_offsets(text)
        if not ids:
            return None
        kept = ids[: max(1, self.max_length // 2)]
        cut = len(ids) - len(kept)
        turns = example.history if self.use_history else ()
        document, history, cue = self._texts(joined(example.grounding), turns)
        with_document, without_document, more = self._inputs(document, history, cue, len(kept))
        return ScoredPrompt(
            LikelihoodRow(with_document, self._known(kept)),
            LikelihoodRow(without_document, self._known(kept)),
            len(scored_cue) + pattern.index("{response}"),
            tuple(spans[: len(kept)]),
            cut + more,
        )

    def _texts(self, document: str, turns: tuple[str, ...]) -> tuple[str, str, str]:
        if self.prompt is None:
            history = templates.dialogue_inputs("", turns, last=self.last_turns)
            return templates.dialogue_inputs(document, ()) + " ", history, ""
        form = self.prompt
        cue = "" if self.score_cue else form.cue
        return form.document.replace("{document}", document), form.history(turns), cue

    def _inputs(
        self, document: str, history: str, cue: str, response_tokens: int
    ) -> tuple[list[int], list[int], int]:
        """Returns the ids with and without the document, and how many tokens were cut."""
        encode = self.tokenizer.encode
        prefix, suffix = list(self.tokenizer.prefix_ids), list(self.tokenizer.suffix_ids)
        if self.causal:
            suffix = []
        cue_ids = encode(cue) if cue else []
        fixed = len(prefix) + len(suffix) + len(cue_ids)
        room = max(0, self.max_length - fixed - (response_tokens if self.causal else 0))
        document_ids, history_ids = encode(document), encode(history) if history else []
        history_room = max(room // 2, room - len(document_ids))
        kept_history = history_ids[max(0, len(history_ids) - history_room) :]
        kept_document = document_ids[: room - len(kept_history)]
        cut = len(history_ids) - len(kept_history) + len(document_ids) - len(kept_document)
        tail = [*kept_history, *cue_ids, *suffix]
        without = self._known([*prefix, *tail])
        if self.causal and not without:
            without = [self._start_id()]
        return self._known([*prefix, *kept_document, *tail]), without, cut

    def _known(self, ids: list[int]) -> list[int]:
        return check_ids(ids, self.vocab_size)

    def _start_id(self) -> int:
        """Returns what a decoder-only model reads where there is nothing else to read."""
        for found in (self.tokenizer.bos_id, self.tokenizer.eos_id):
            if found is not None:
                return found
        raise ConfigError(
            "the model has no token to begin with; give a cue_prompt that is not empty."
        )
