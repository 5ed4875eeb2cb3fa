"""PMI-Faith: how much more probable the document makes the response (Nandwani 2023, section 4.1).

    PMI-Faith(r, d, h) = log P(r | d, h) - log P(r | h)

The paper sums over the response's tokens, the authors' code takes their mean; both are available.
Both terms score the same tokens: by default all of "Agent: {response}.", cue and full stop too, as
in the authors' code; with `score_cue=False` and `response_prompt=" {response}"` only the response.
The unconditional form leaves the history out of both terms: log P(r | d) - log P(r).
"""

import dataclasses
import math
import re
from collections.abc import Sequence
from typing import Any, NamedTuple, Unpack, cast

import numpy as np

from faith_jax.checkpoints.embedded import warn_of_other_texts
from faith_jax.core import templates
from faith_jax.core.cutting import CutTokens, Kind, Part, parse
from faith_jax.core.errors import ConfigError
from faith_jax.core.types import GroundedExample, WordScore
from faith_jax.inference.opening import ModelOptions, check_options, keep_opened
from faith_jax.inference.row_likelihoods import LikelihoodEngine, LikelihoodRow
from faith_jax.inference.texts.text_reader import PartedText, TextReader, open_text_reader
from faith_jax.scoring.base import Judgement, ModelScorer, join_texts, remembers_last
from faith_jax.scoring.model_cards import CARDS


@dataclasses.dataclass(frozen=True)
class PromptFormat:
    """How the texts of an example become one text, with `{document}`, `{turn}`, `{response}`.

    The defaults are those of the authors of PMI-Faith (Nandwani 2023), who pass the whole history
    as one text, like a single turn here.

    Attributes:
      document: the pattern at the beginning.
      turn: the pattern for each utterance of the history, oldest first.
      cue: the text in front of the response.
      response: the pattern of the scored text, after the cue; see `Prompter.score_cue`.
      last_turns: the most utterances that are shown; 0 = all.
    """

    document: str = "Document: {document}\n\n"
    turn: str = "{turn}.\n"
    cue: str = "Agent:"
    response: str = " {response}."
    last_turns: int = 0

    def __post_init__(self):
        for name in ("document", "turn", "cue", "response"):
            text, place = getattr(self, name), "" if name == "cue" else f"{{{name}}}"
            if place not in text:
                raise ConfigError(f"{name}_prompt: expected a text with {place}, got {text!r}.")

    def history_text(self, turns: tuple[str, ...]) -> tuple[str, list[Part]]:
        """Returns the text of a history, with a part (in characters) for each utterance."""
        text, parts = "", []
        for turn in turns[-self.last_turns :] if self.last_turns else turns:
            start = len(text)
            text += self.turn.replace("{turn}", turn)
            parts.append(Part(Kind.HISTORY, start, start, len(text), len(text)))
        return text, parts


def _fill_pattern(
    name: str, pattern: str, text: str, kind: Kind, before: str = ""
) -> tuple[str, Part]:
    place = f"{{{name}}}"
    filled = before + pattern.replace(place, text)
    suffix_length = len(pattern) - pattern.rindex(place) - len(place)
    start = len(before) + pattern.index(place)
    return filled, Part(kind, 0, start, len(filled) - suffix_length, len(filled))


class _ScoredPrompt(NamedTuple):
    """The two prompts of an example, with the response whose tokens are scored.

    Attributes:
      with_document: the inputs with the document, and the response.
      without_document: the inputs without the document, and the same response.
      offset: the offset of the response's first character in the text whose tokens are scored.
      token_spans: for each response token, the offsets of its first character and after its last.
      cut: the numbers of tokens of document, history and response that did not fit, by kind.
    """

    with_document: LikelihoodRow
    without_document: LikelihoodRow
    offset: int
    token_spans: tuple[tuple[int, int], ...]
    cut: CutTokens


@dataclasses.dataclass(frozen=True)
class Prompter:
    """Makes the prompts of one model, with the document and without, and computes their PMI.

    Both prompts have the same history and the same response, token for token, so that they differ
    only in the document.

    Attributes:
      prompt: the format; None = the dialogue format of an encoder-decoder's tasks.
      use_history: whether the history is shown.
      last_turns: the number of utterances shown in the dialogue format.
      score_cue: whether the cue is scored with the response, as one text, or only read.
      engine: computes the model's likelihoods.
    """

    reader: TextReader
    prompt: PromptFormat | None = dataclasses.field(default_factory=PromptFormat)
    use_history: bool = True
    last_turns: int = 3
    score_cue: bool = True
    engine: Any = None

    def __call__(self, example: GroundedExample) -> _ScoredPrompt | None:
        """Returns the prompts of an example; None if its response has no tokens.

        Raises:
          InputError: the example is too long, and the policy does not allow cutting it.
        """
        pattern, cue = "{response}", ""
        if self.prompt is not None:
            pattern, cue = self.prompt.response, self.prompt.cue if self.score_cue else ""
        elif self.reader.causal:
            pattern = " {response}"
        text, part = _fill_pattern("response", pattern, example.response, Kind.RESPONSE, cue)
        if not self.reader.tokenizer.encode(text):
            return None
        document, name = join_texts(example.grounding), f"example {example.id!r}"
        turns = example.history if self.use_history else ()
        inputs: list[PartedText]  # the texts before the response, with parts in characters
        if self.prompt is None:
            front = templates.dialogue_inputs(document, ()) + " "
            history = templates.dialogue_inputs("", turns, last=self.last_turns)
            document_parts = parse(front) or [Part(Kind.KNOWLEDGE, 0, 0, 0, len(front))]
            inputs = [(front, document_parts), (history, parse(history))]
        else:
            front, document_part = _fill_pattern(
                "document", self.prompt.document, document, Kind.KNOWLEDGE
            )
            unscored_cue = "" if self.score_cue else self.prompt.cue
            inputs = [(front, [document_part]), self.prompt.history_text(turns), (unscored_cue, [])]
        read = self.reader.read_response(inputs, (text, [part]), name, second_branch=True)
        pairs = zip(read.response_spans, read.response_places, strict=True)
        return _ScoredPrompt(
            LikelihoodRow(read.inputs, read.response, self.reader.response_start),
            LikelihoodRow(read.without_knowledge, read.response, self.reader.response_start),
            part.text_start,
            tuple(span for span, place in pairs if place is not None),
            read.cut,
        )

    @remembers_last
    def pmi(self, prompts: Sequence[_ScoredPrompt]) -> list[np.ndarray]:
        """Returns, for each prompt, the PMI of each response token with the document, in nats."""
        rows = [row for p in prompts for row in (p.with_document, p.without_document)]
        log_probs = self.engine.log_probs(rows)
        pairs = zip(log_probs[::2], log_probs[1::2], strict=True)
        return [with_document - without_document for with_document, without_document in pairs]


class PMIOptions(ModelOptions, total=False):
    """The options of PMI-Faith.

    Attributes:
      document_prompt: a pattern with {document}; the default of this and the other prompts is the
        authors' for decoder-only models (see `PromptFormat`). An encoder-decoder sees the dialogue
        format of its tasks unless one of the prompts is given.
      turn_prompt: a pattern with {turn}.
      cue_prompt: the text in front of the response.
      response_prompt: a pattern with {response}.
      last_turns: the most utterances of the history that are shown; 0 = all, or three in the
        dialogue format.
      score_cue: score the cue's tokens with the response's, as in the authors' code and by default;
        otherwise the model reads the cue in both terms and only the response's tokens count. Word
        scores are for the response alone in either case. The dialogue format has no cue.
    """

    document_prompt: str | None
    turn_prompt: str | None
    cue_prompt: str | None
    response_prompt: str | None
    last_turns: int
    score_cue: bool


class PMIFaithScorer(ModelScorer[_ScoredPrompt]):
    """PMI-Faith of a response; a word's score is the sum over its tokens.

    Args:
      name: "pmi_faith_sum", "pmi_faith_mean", "pmi_faith_unconditional_sum" or
        "pmi_faith_unconditional_mean".
      model: a checkpoint of any language model, with its tokenizer.
      **options: see `PMIOptions`.

    Raises:
      ConfigError: without a model, or for a wrong option.
    """

    def __init__(self, name: str, model: str | None = None, **options: Unpack[PMIOptions]):
        check_options(options)
        # None means that an option is not given.
        given = {name: value for name, value in options.items() if value is not None}
        self.card, self._mean = CARDS[name], "mean" in name
        self._prompter = _open_prompter(
            model, "unconditional" not in name, **cast(PMIOptions, given)
        )

    def read(self, example: GroundedExample) -> _ScoredPrompt | None:
        return self._prompter(example)

    def choose_shapes(self, rows: Sequence[_ScoredPrompt], window: int, total: int) -> None:
        engine, reader = self._prompter.engine, self._prompter.reader
        pairs = [branch for row in rows for branch in (row.with_document, row.without_document)]
        limit = reader.longest_inputs([branch.targets for branch in pairs])
        engine.choose_shapes(pairs, limit, 2 * window, 2 * total)

    def texts(self, row: _ScoredPrompt) -> dict[str, str]:
        """Returns both prompts, each with the response."""
        rows = {"with document": row.with_document, "without": row.without_document}
        show = self._prompter.reader.to_readable
        return {name: show(branch.inputs) + show(branch.targets) for name, branch in rows.items()}

    def judge_rows(
        self, examples: Sequence[GroundedExample], rows: Sequence[_ScoredPrompt]
    ) -> list[Judgement]:
        warn_of_other_texts(self._prompter.engine.model.path, (e.grounding for e in examples))
        judgements = []
        for example, row, pmi in zip(examples, rows, self._prompter.pmi(rows), strict=True):
            value = float(pmi.mean() if self._mean else pmi.sum())
            spans = [m.span() for m in re.finditer(r"\S+", example.response)]
            sums = np.zeros(len(spans))
            seen = np.zeros(len(spans), bool)  # words that were cut off have no score
            starts = np.array([start for start, _ in spans])
            for (_, end), token_pmi in zip(row.token_spans, pmi, strict=True):
                # A token belongs to the word in which it ends.
                last = end - row.offset - 1
                word = int(np.searchsorted(starts, last, side="right")) - 1
                if 0 <= word < len(spans) and last < spans[word][1]:
                    sums[word] += token_pmi
                    seen[word] = True
            words = (
                WordScore(example.response[start:end], start, end, float(word_pmi))
                for (start, end), word_pmi, is_seen in zip(spans, sums, seen, strict=True)
                if is_seen and math.isfinite(word_pmi)
            )
            judgements.append(Judgement(value, tuple(words)))
        return judgements


@keep_opened(maxsize=4)
def _open_prompter(model: str | None, use_history: bool, **options: Unpack[PMIOptions]) -> Prompter:
    opened, reader = open_text_reader(model, options)
    parts = ("document", "turn", "cue", "response")
    texts = {p: options[f"{p}_prompt"] for p in parts if f"{p}_prompt" in options}  # type: ignore[literal-required]
    last_turns = options.get("last_turns", 0)
    prompt = PromptFormat(**texts, last_turns=last_turns) if texts or reader.causal else None
    score_cue = options.get("score_cue", True)
    engine = LikelihoodEngine(opened, options.get("tokens_per_batch"))
    return Prompter(reader, prompt, use_history, last_turns or 3, score_cue, engine)
