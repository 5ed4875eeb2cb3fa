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

import numpy as np

from faith_jax.core.cutting import by_name, check_policy
from faith_jax.core.errors import ConfigError
from faith_jax.core.types import GroundedExample, Score, WordScore
from faith_jax.inference.opening import (
    check_text,
    check_whole,
    input_limit,
    open_language_model,
    open_tokenizer,
    require_model,
    shown_ids,
)
from faith_jax.inference.row_likelihoods import LikelihoodEngine
from faith_jax.scoring.base import BaseScorer, SeenInput
from faith_jax.scoring.model_cards import PMI_FAITH
from faith_jax.scoring.prompts import Prompter, PromptFormat, ScoredPrompt


@dataclasses.dataclass(frozen=True)
class TokenPMI:
    """The PMI of each response token with the document, in nats, and what was scored."""

    prompt: ScoredPrompt
    values: np.ndarray


class PMIFaith:
    """Computes the PMI of response tokens with the document, and remembers the last examples'.

    Several scorers of one run share it, so that the model runs once for all of them.

    Args:
      engine: of the model.
      prompter: of the same model.
    """

    def __init__(self, engine: LikelihoodEngine, prompter: Prompter):
        self.engine, self.prompter = engine, prompter
        self._last: tuple[tuple[GroundedExample, ...], list[TokenPMI | None]] = ((), [])

    def __call__(self, examples: Sequence[GroundedExample]) -> list[TokenPMI | None]:
        """Returns the tokens' PMI of each example, None where the response has no tokens."""
        key = tuple(examples)
        if key != self._last[0]:
            self._last = (key, self._compute(examples))
        return self._last[1]

    def _compute(self, examples: Sequence[GroundedExample]) -> list[TokenPMI | None]:
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
        shown = {
            name: "".join(shown_ids(prompter.tokenizer, ids) for ids in (row.inputs, row.targets))
            for name, row in rows.items()
        }
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


@functools.lru_cache(maxsize=4)
def _shared(
    model: str,
    vocabulary: str | None,
    dtype: str | None,
    max_length: int | None,
    prompt: PromptFormat | None,
    last_turns: int,
    use_history: bool,
    cut_policy: str,
    tokens_per_batch: int | None,
    score_cue: bool,
) -> PMIFaith:
    opened = open_language_model(model, dtype)
    config = opened.config
    engine = LikelihoodEngine(opened, tokens_per_batch)
    prompter = Prompter(
        open_tokenizer(model, vocabulary, config),
        config.vocab_size,
        input_limit(config, max_length),
        config.is_decoder_only,
        prompt,
        use_history,
        last_turns or 3,
        cut_policy,
        score_cue,
    )
    return PMIFaith(engine, prompter)


def pmi_faith_scorer(
    name: str,
    model: str | None = None,
    vocabulary: str | None = None,
    max_length: int | None = None,
    document_prompt: str | None = None,
    turn_prompt: str | None = None,
    cue_prompt: str | None = None,
    response_prompt: str | None = None,
    last_turns: int = 0,
    cut_policy: str = "knowledge",
    dtype: str | None = None,
    tokens_per_batch: int | None = None,
    score_cue: bool = True,
) -> PMIFaithScorer:
    """Returns a PMI-Faith scorer.

    Args:
      name: "pmi_faith_sum", "pmi_faith_mean" or an unconditional form.
      model: a checkpoint of any language model, with its tokenizer.
      vocabulary: where the tokenizer is, if not with the model.
      max_length: tokens that the model sees at most; default: 1,024, or fewer where its positions
        end before.
      document_prompt: with {document}; default for decoder-only models: the authors' (see
        `PromptFormat`). An encoder-decoder sees the dialogue format of its tasks unless one of
        the prompts is given.
      turn_prompt: with {turn}.
      cue_prompt: in front of the response.
      response_prompt: with {response}.
      last_turns: how many utterances of the history are shown at most; 0 = all, or three in the
        dialogue format.
      cut_policy: what is cut of a longer input, see `core.cutting`.
      dtype: of activations.
      tokens_per_batch: see `LikelihoodEngine`.
      score_cue: whether the cue's tokens are scored with the response's, as in the authors' code;
        else the model reads the cue in both terms and only the response's count. Word scores are
        of the response in both. The dialogue format has no cue.

    Raises:
      ConfigError: without a model, and for a wrong option.
    """
    path = require_model(model)
    check_whole("last_turns", last_turns, 0)
    check_whole("max_length", max_length, 8)
    check_whole("tokens_per_batch", tokens_per_batch, 1)
    check_text("vocabulary", vocabulary)
    check_text("dtype", dtype)
    check_policy(cut_policy, "cut_policy")
    if not isinstance(score_cue, bool):
        raise ConfigError(f"score_cue: expected True or False, got {score_cue!r}.")
    given = {
        "document": document_prompt,
        "turn": turn_prompt,
        "cue": cue_prompt,
        "response": response_prompt,
    }
    given = {part: text for part, text in given.items() if text is not None}
    prompt: PromptFormat | None = PromptFormat(**given, last_turns=last_turns)  # type: ignore[arg-type]
    if not given and not open_language_model(path, dtype).config.is_decoder_only:
        prompt = None  # the dialogue tasks' own format
    use_history = "unconditional" not in name
    shared = _shared(
        path,
        vocabulary,
        dtype,
        max_length,
        prompt,
        last_turns,
        use_history,
        cut_policy,
        tokens_per_batch,
        score_cue,
    )
    return PMIFaithScorer(name, shared, name.endswith("_mean"))
