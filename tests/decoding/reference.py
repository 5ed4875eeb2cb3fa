"""Reference searches of one example in plain Python, without caches, for the compiled searches."""

import math
from typing import NamedTuple

import numpy as np


class Hypothesis(NamedTuple):
    tokens: tuple[int, ...]
    score: float
    log_prob: float


def log_softmax(logits):
    shifted = np.asarray(logits, np.float64) - np.max(logits)
    return shifted - np.log(np.sum(np.exp(shifted)))


def nucleus(log_probs, p):
    """Returns the smallest set of tokens whose probability sums to at least p."""
    kept, total = set(), 0.0
    for token in sorted(range(len(log_probs)), key=lambda t: (-log_probs[t], t)):
        if total >= p:
            break
        kept.add(token)
        total += math.exp(log_probs[token])
    return kept


def pmi_scores(with_document, without_document, alpha, p):
    """Equation (9) of Nandwani 2023, term by term, for tokens with a non-zero probability."""
    scores = np.full(len(with_document), -np.inf)
    for v in range(len(with_document)) if p == 1 else nucleus(with_document, p):
        if with_document[v] == -np.inf:
            continue
        likelihood = with_document[v]
        pmi = with_document[v] - without_document[v]
        scores[v] = (1 - alpha) * likelihood + alpha * pmi
    return scores


def plain_model(log_probs):
    """Returns a model whose scores are its log-probabilities."""
    return lambda tokens: (log_probs(tokens), log_probs(tokens))


def pmi_model(with_document, without_document, pmi, banned=lambda tokens: ()):
    """Returns a model of PMI-Decode's scores and the log-probabilities with the document.

    Args:
      with_document: (tokens so far) -> log-probabilities of the next token.
      without_document: the same, without the document.
      pmi: the config of PMI-Decode.
      banned: (tokens so far) -> tokens that may not come next; the others' probabilities sum to 1.
    """

    def model(tokens):
        whole = [branch(tokens) for branch in (with_document, without_document)]
        keep = ~np.isin(np.arange(len(whole[0])), list(banned(tokens)))
        left = [log_softmax(np.where(keep, log_probs, -np.inf)) for log_probs in whole]
        return pmi_scores(*left, pmi.alpha, pmi.p), whole[0]

    return model


def penalised(score, length, penalty):
    return score / length**penalty


def greedy_search(model, config):
    """Returns the hypothesis of greedy search.

    Args:
      model: (tokens so far) -> scores and log-probabilities [vocab] of the next token.
      config: max_length, min_length, eos_id.
    """
    tokens, total, log_prob = (), 0.0, 0.0
    while len(tokens) < config.max_length and not (tokens and tokens[-1] in config.end_ids):
        scores, log_probs = suppressed(*model(tokens), len(tokens), config)
        best = int(np.argmax(scores))
        total, log_prob = total + scores[best], log_prob + log_probs[best]
        tokens += (best,)
    return Hypothesis(tokens, total, log_prob)


def suppressed(scores, log_probs, position, config):
    if position + 1 >= config.min_length:
        return scores, log_probs
    ends = np.isin(np.arange(len(scores)), config.end_ids)
    limited = np.where(ends, -np.inf, scores)
    if not np.any(limited > -np.inf):
        limited = np.where(ends, -np.inf, log_probs)
    return limited, log_probs


def beam_search(model, config):
    """Returns the finished hypotheses of beam search, best first, by the rules of `decoding.beam`.

    Args:
      model: as for `greedy_search`.
      config: the search; its score is length-penalised.
    """
    width, ends = config.num_beams, config.end_ids
    live, finished = [Hypothesis((), 0.0, 0.0)], []
    for position in range(config.max_length):
        candidates = []
        for beam in live:
            scores, log_probs = suppressed(*model(beam.tokens), position, config)
            for v in np.flatnonzero(scores > -np.inf):
                candidates.append(
                    Hypothesis(
                        (*beam.tokens, int(v)), beam.score + scores[v], beam.log_prob + log_probs[v]
                    )
                )
        candidates.sort(key=lambda h: -h.score)  # stable
        candidates = candidates[: max(2, 1 + len(ends)) * width]
        last = position + 1 == config.max_length
        ended = [last or h.tokens[-1] in ends for h in candidates]
        for hypothesis, end in list(zip(candidates, ended, strict=True))[:width]:
            if end:
                score = penalised(hypothesis.score, position + 1, config.length_penalty)
                finished.append(hypothesis._replace(score=score))
        finished = sorted(finished, key=lambda h: -h.score)[:width]
        live = [h for h, end in zip(candidates, ended, strict=True) if not end][:width]
        if not live or is_closed(live[0], finished, position + 1, config):
            break
    return finished


def is_closed(best, finished, length, config):
    if len(finished) < config.num_beams:
        return False
    if config.early_stopping is True:
        return True
    if config.early_stopping == "never" and config.length_penalty > 0:
        length = config.max_length
    return penalised(best.score, length, config.length_penalty) <= finished[-1].score
