"""The token ids that a language model sees of an example, with its document and without.

Both have the same history and the same response, token for token, so that they differ in the
document alone.
"""

import dataclasses
from typing import NamedTuple

from faith_jax.core import templates
from faith_jax.core.cutting import (
    CutTokens,
    Kind,
    Part,
    check_second_branch,
    concatenated,
    in_tokens,
    parse,
)
from faith_jax.core.errors import ConfigError
from faith_jax.core.types import GroundedExample
from faith_jax.inference.opening import check_ids, check_text
from faith_jax.inference.row_likelihoods import LikelihoodRow
from faith_jax.scoring.base import joined
from faith_jax.scoring.fitted_response import Limit, fit_response
from faith_jax.tokenizers.base import Tokenizer


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

    def document_text(self, document: str) -> tuple[str, Part]:
        """Returns the text of a document, which is one part, in characters."""
        return _filled("document", self.document, document, Kind.KNOWLEDGE)

    def history_text(self, turns: tuple[str, ...]) -> tuple[str, list[Part]]:
        """Returns the text of a history, of which each utterance is a part, in characters."""
        text, parts = "", []
        for turn in turns[-self.last_turns :] if self.last_turns else turns:
            start = len(text)
            text += self.turn.replace("{turn}", turn)
            parts.append(Part(Kind.HISTORY, start, start, len(text), len(text)))
        return text, parts


def _filled(name: str, pattern: str, text: str, kind: Kind, before: str = "") -> tuple[str, Part]:
    place = f"{{{name}}}"
    filled = before + pattern.replace(place, text)
    behind = len(pattern) - pattern.rindex(place) - len(place)
    start = len(before) + pattern.index(place)
    return filled, Part(kind, 0, start, len(filled) - behind, len(filled))


class ScoredPrompt(NamedTuple):
    """What is scored of one example.

    Attributes:
      with_document: inputs and response.
      without_document: the same response, and the inputs without the document.
      offset: of the response's first character in the text whose tokens are scored.
      token_spans: for each response token the offsets of its first character and behind its last.
      cut: tokens of document, history and response that did not fit, by kind.
    """

    with_document: LikelihoodRow
    without_document: LikelihoodRow
    offset: int
    token_spans: tuple[tuple[int, int], ...]
    cut: CutTokens


@dataclasses.dataclass(frozen=True)
class Prompter:
    """Makes the prompts of one model.

    What does not fit is cut as `core.cutting` says: by default the document loses its end, and
    history and response stay. An encoder-decoder's response has a limit of its own, as long.

    Attributes:
      tokenizer: the model's.
      vocab_size: of the model.
      max_length: tokens of the inputs, and in a decoder-only model of inputs and response.
      causal: whether the model is decoder-only.
      prompt: the format; None = the dialogue format of an encoder-decoder's tasks.
      use_history: whether the history is shown.
      last_turns: utterances shown in the dialogue format.
      cut_policy: see `core.cutting`.
      score_cue: whether the cue is scored with the response, as one text, or is read only.
    """

    tokenizer: Tokenizer
    vocab_size: int
    max_length: int
    causal: bool
    prompt: PromptFormat | None = dataclasses.field(default_factory=PromptFormat)
    use_history: bool = True
    last_turns: int = 3
    cut_policy: str = "knowledge"
    score_cue: bool = True

    def __call__(self, example: GroundedExample) -> ScoredPrompt | None:
        """Returns what is scored of an example; None where its response has no tokens.

        Raises:
          InputError: where it is too long, and cannot be cut by the policy.
        """
        if not example.response.strip():
            return None
        pattern = " {response}" if self.prompt is None else self.prompt.response
        if self.prompt is None and not self.causal:
            pattern = "{response}"
        cue = self.prompt.cue if self.prompt is not None and self.score_cue else ""
        text, part = _filled("response", pattern, example.response, Kind.RESPONSE, cue)
        ids, spans = self.tokenizer.encode_with_offsets(text)
        if not ids:
            return None
        turns = example.history if self.use_history else ()
        where = f"example {example.id!r}"
        fitted = fit_response(
            self.tokenizer,
            concatenated(self._encoded(*piece) for piece in self._texts(example, turns)),
            (ids, in_tokens([part], text, ids, self.tokenizer)),
            Limit(self.max_length, self.causal, self.cut_policy),
            where,
        )
        special = len(self.tokenizer.prefix_ids)
        special += 0 if self.causal else len(self.tokenizer.suffix_ids)
        rest = len(fitted.without_knowledge) - special
        check_second_branch(
            rest, fitted.cut, self.cut_policy, f"{where}: max_length = {self.max_length}"
        )
        response = self._known(fitted.response)
        return ScoredPrompt(
            LikelihoodRow(self._inputs(fitted.inputs), response),
            LikelihoodRow(self._inputs(fitted.without_knowledge), response),
            part.text_start,
            tuple(span for span, stays in zip(spans, fitted.keep_response, strict=True) if stays),
            fitted.cut,
        )

    def _texts(
        self, example: GroundedExample, turns: tuple[str, ...]
    ) -> list[tuple[str, list[Part]]]:
        """Returns the texts in front of the response, with their parts in characters."""
        document = joined(example.grounding)
        if self.prompt is None:
            first = templates.dialogue_inputs(document, ()) + " "
            history = templates.dialogue_inputs("", turns, last=self.last_turns)
            known = parse(first) or [Part(Kind.KNOWLEDGE, 0, 0, 0, len(first))]
            return [(first, known), (history, parse(history))]
        text, part = self.prompt.document_text(document)
        cue = "" if self.score_cue else self.prompt.cue
        return [(text, [part]), self.prompt.history_text(turns), (cue, [])]

    def _encoded(self, text: str, parts: list[Part]) -> tuple[list[int], list[Part]]:
        ids = list(self.tokenizer.encode(text)) if text else []
        return ids, in_tokens(parts, text, ids, self.tokenizer)

    def _inputs(self, ids: list[int]) -> list[int]:
        """Returns inputs with special tokens, at least one that a decoder-only model can read."""
        return self._known(ids or ([self._start_id()] if self.causal else []))

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
