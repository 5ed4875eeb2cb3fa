"""PMI-Faith: how much more probable the document makes the response (Nandwani 2023, section 4.1).

    PMI-Faith(r, d, h) = log P(r | d, h) - log P(r | h)

It is a sum over the response's tokens in the paper, and their mean in the authors' code; both are
here, over the same tokens in both terms. In the authors' code these are the tokens of
"Agent: {response}.", cue and full stop included, which is the default here; with `score_cue=False`
and `response_prompt=" {response}"` they are the response's alone. The unconditional form leaves the
history out of both: log P(r | d) - log P(r).
"""

import dataclasses
import functools
import math
import re
from collections.abc import Sequence
from typing import NamedTuple, Unpack

import numpy as np

from faith_jax.core import templates
from faith_jax.core.cutting import CutTokens, Kind, Part, by_name, parse
from faith_jax.core.errors import ConfigError
from faith_jax.core.types import GroundedExample, Score, WordScore
from faith_jax.inference.opening import ModelOptions, check_options
from faith_jax.inference.row_likelihoods import LikelihoodEngine, LikelihoodRow
from faith_jax.inference.text_reader import PartedText, TextReader, open_text_reader
from faith_jax.scoring.base import BaseScorer, SeenInput, joined, remembers_last
from faith_jax.scoring.model_cards import PMI_FAITH


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
            text, place = getattr(self, name), "" if name == "cue" else f"{{{name}}}"
            if place not in text:
                raise ConfigError(f"{name}_prompt: expected a text with {place}, got {text!r}.")

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
    """Makes the prompts of one model, with the document and without.

    Both have the same history and the same response, token for token, so that they differ in the
    document alone.

    Attributes:
      reader: of the model.
      prompt: the format; None = the dialogue format of an encoder-decoder's tasks.
      use_history: whether the history is shown.
      last_turns: utterances shown in the dialogue format.
      score_cue: whether the cue is scored with the response, as one text, or is read only.
    """

    reader: TextReader
    prompt: PromptFormat | None = dataclasses.field(default_factory=PromptFormat)
    use_history: bool = True
    last_turns: int = 3
    score_cue: bool = True

    def __call__(self, example: GroundedExample) -> ScoredPrompt | None:
        """Returns what is scored of an example; None where its response has no tokens.

        Raises:
          InputError: where it is too long, and cannot be cut by the policy.
        """
        if not example.response.strip():
            return None
        pattern, cue = "{response}", ""
        if self.prompt is not None:
            pattern, cue = self.prompt.response, self.prompt.cue if self.score_cue else ""
        elif self.reader.causal:
            pattern = " {response}"
        text, part = _filled("response", pattern, example.response, Kind.RESPONSE, cue)
        if not self.reader.tokenizer.encode(text):
            return None
        inputs, name = self._inputs(example), f"example {example.id!r}"
        read = self.reader.read_response(inputs, (text, [part]), name, second_branch=True)
        pairs = zip(read.response_spans, read.response_places, strict=True)
        return ScoredPrompt(
            LikelihoodRow(read.inputs, read.response),
            LikelihoodRow(read.without_knowledge, read.response),
            part.text_start,
            tuple(span for span, place in pairs if place is not None),
            read.cut,
        )

    def _inputs(self, example: GroundedExample) -> list[PartedText]:
        """Returns the texts in front of the response, with their parts in characters."""
        document = joined(example.grounding)
        turns = example.history if self.use_history else ()
        if self.prompt is None:
            first = templates.dialogue_inputs(document, ()) + " "
            history = templates.dialogue_inputs("", turns, last=self.last_turns)
            known = parse(first) or [Part(Kind.KNOWLEDGE, 0, 0, 0, len(first))]
            return [(first, known), (history, parse(history))]
        text, part = self.prompt.document_text(document)
        cue = "" if self.score_cue else self.prompt.cue
        return [(text, [part]), self.prompt.history_text(turns), (cue, [])]


@dataclasses.dataclass(frozen=True)
class TokenPMI:
    """The PMI of each response token with the document, in nats, and what was scored."""

    prompt: ScoredPrompt
    values: np.ndarray


class PMIFaith:
    """Computes the PMI of response tokens with the document, and remembers the last examples'.

    Args:
      engine: of the model.
      prompter: of the same model.
    """

    def __init__(self, engine: LikelihoodEngine, prompter: Prompter):
        self.engine, self.prompter = engine, prompter

    @remembers_last
    def __call__(self, examples: Sequence[GroundedExample]) -> list[TokenPMI | None]:
        """Returns the tokens' PMI of each example, None where the response has no tokens."""
        prompts = [self.prompter(example) for example in examples]
        scored = [prompt for prompt in prompts if prompt is not None]
        rows = [row for p in scored for row in (p.with_document, p.without_document)]
        log_probs = self.engine.log_probs(rows)
        pairs = zip(log_probs[::2], log_probs[1::2], strict=True)
        values = iter([given - without for given, without in pairs])
        return [None if p is None else TokenPMI(p, next(values)) for p in prompts]


class PMIFaithScorer(BaseScorer):
    """PMI-Faith of a response; a word's score is the sum over its tokens.

    Args:
      name: of the scorer.
      compute: shared by the scorers of a model.
      mean: mean over the tokens instead of the sum.
    """

    def __init__(self, name: str, compute: PMIFaith, mean: bool):
        self.card = PMI_FAITH[name]
        self._compute, self._mean = compute, mean

    @property
    def num_compilations(self) -> int:
        """How many shapes the model was compiled for."""
        return self._compute.engine.num_compilations

    def score_examples(self, examples: Sequence[GroundedExample]) -> list[Score]:
        """Returns one score for each example, NaN where the response has no tokens."""
        found = []
        for example, pmi in zip(examples, self._compute(examples), strict=True):
            if pmi is None:
                found.append(Score(math.nan))
                continue
            value = pmi.values.mean() if self._mean else pmi.values.sum()
            words = word_scores(example.response, pmi)
            found.append(Score(float(value), words, by_name(pmi.prompt.cut)))
        return found

    def seen(self, example: GroundedExample) -> SeenInput | None:
        """Returns both branches, each with the response."""
        prompter = self._compute.prompter
        prompt = prompter(example)
        if prompt is None:
            return None
        rows = {"with document": prompt.with_document, "without": prompt.without_document}
        show = prompter.reader.shown
        shown = {name: show(row.inputs) + show(row.targets) for name, row in rows.items()}
        return SeenInput(shown, prompt.cut)


def word_scores(response: str, pmi: TokenPMI) -> tuple[WordScore, ...]:
    """Returns the sum of the PMI of each word's tokens; a token belongs to the word it ends in.

    Args:
      response: the response.
      pmi: of its tokens; words that were cut off have no score.
    """
    spans = [m.span() for m in re.finditer(r"\S+", response)]
    sums = np.zeros(len(spans))
    seen = np.zeros(len(spans), bool)
    starts = np.array([start for start, _ in spans])
    for (_, end), value in zip(pmi.prompt.token_spans, pmi.values, strict=True):
        last = end - pmi.prompt.offset - 1
        word = int(np.searchsorted(starts, last, side="right")) - 1
        if 0 <= word < len(spans) and last < spans[word][1]:
            sums[word] += value
            seen[word] = True
    return tuple(
        WordScore(response[start:end], start, end, float(value))
        for (start, end), value, known in zip(spans, sums, seen, strict=True)
        if known and math.isfinite(value)
    )


class PMIOptions(ModelOptions, total=False):
    """The options of PMI-Faith.

    Attributes:
      document_prompt: with {document}; default for decoder-only models: the authors' (see
        `PromptFormat`). An encoder-decoder sees the dialogue format of its tasks unless one of
        the prompts is given.
      turn_prompt: with {turn}.
      cue_prompt: in front of the response.
      response_prompt: with {response}.
      last_turns: how many utterances of the history are shown at most; 0 = all, or three in the
        dialogue format.
      score_cue: whether the cue's tokens are scored with the response's, as in the authors' code
        and by default; else the model reads the cue in both terms and only the response's count.
        Word scores are of the response in both. The dialogue format has no cue.
    """

    document_prompt: str | None
    turn_prompt: str | None
    cue_prompt: str | None
    response_prompt: str | None
    last_turns: int
    score_cue: bool


def pmi_faith_scorer(
    name: str, model: str | None = None, **options: Unpack[PMIOptions]
) -> PMIFaithScorer:
    """Returns a PMI-Faith scorer.

    Args:
      name: "pmi_faith_sum", "pmi_faith_mean" or an unconditional form.
      model: a checkpoint of any language model, with its tokenizer.
      **options: see `PMIOptions`.

    Raises:
      ConfigError: without a model, and for a wrong option.
    """
    check_options(options)
    given = tuple(sorted(item for item in options.items() if item[1] is not None))
    return PMIFaithScorer(name, _shared(model, "unconditional" not in name, given), "mean" in name)


@functools.lru_cache(maxsize=4)
def _shared(
    model: str | None, use_history: bool, given: tuple[tuple[str, object], ...]
) -> PMIFaith:
    options: PMIOptions = dict(given)  # type: ignore[assignment]
    opened, reader = open_text_reader(model, options)
    parts = ("document", "turn", "cue", "response")
    texts = {p: options[f"{p}_prompt"] for p in parts if f"{p}_prompt" in options}  # type: ignore[literal-required]
    last_turns = options.get("last_turns", 0)
    prompt = PromptFormat(**texts, last_turns=last_turns) if texts or reader.causal else None
    score_cue = options.get("score_cue", True)
    prompter = Prompter(reader, prompt, use_history, last_turns or 3, score_cue)
    return PMIFaith(LikelihoodEngine(opened, options.get("tokens_per_batch")), prompter)
