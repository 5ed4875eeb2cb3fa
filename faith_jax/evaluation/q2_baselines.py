"""The word overlap that the authors of Q² compare it with, as their code computes it.

Dziri 2022's F1 and Nandwani 2023's F1-U and BLEU are of these functions, not of TRUE's token F1
(`text_metrics.token_f1`) nor of sacrebleu's sentence BLEU. Both take the response as it stands and
the knowledge in lower case. What has no word in common scores 0, empty texts too: unlike elsewhere,
nothing is NaN.

Reference: Honovich 2021 and its published code (q-squared, baselines.py).
"""

import collections
import functools
import importlib.util
from typing import Any

from faith_jax.errors import ConfigError


def has_spacy() -> bool:
    """Returns whether spaCy is installed."""
    return importlib.util.find_spec("spacy") is not None


@functools.cache
def english_tokenizer() -> Any:
    """Returns spaCy's English tokenizer, which needs no trained pipeline.

    Raises:
      ConfigError: where spaCy is not installed.
    """
    try:
        import spacy
    except ImportError:
        raise ConfigError(
            "spaCy, whose tokens and stop words this metric counts, is not installed; install the "
            "extra: pip install 'faith_jax[augmentation]', or '.[augmentation]' in a clone."
        ) from None
    # The authors load en_core_web_sm; its tokenizer and word lists are those of the language.
    return spacy.blank("en")


def content_tokens(text: str) -> list[str]:
    """Returns spaCy's tokens without stop words and punctuation, in lower case.

    A run of white space beyond a single space is a token too, as in the authors' code.

    Raises:
      ConfigError: see `english_tokenizer`.

    >>> content_tokens("In the Andes, it doesn't rain much.")
    ['andes', 'rain']
    """
    tokens = english_tokenizer()(text)
    return [token.text.lower() for token in tokens if not token.is_stop and not token.is_punct]


def q2_baseline_token_f1(response: str, knowledge: str) -> float:
    """Returns the F1 of `content_tokens` as multisets, in [0, 1]; higher = more in common.

    Raises:
      ConfigError: see `english_tokenizer`.

    >>> q2_baseline_token_f1("The Andes are high.", "Llamas live in the high Andes.")
    0.6666666666666666
    """
    first = collections.Counter(content_tokens(response))
    second = collections.Counter(content_tokens(knowledge.lower()))
    same = (first & second).total()
    return 2 * same / (first.total() + second.total()) if same else 0.0


def q2_baseline_bleu(response: str, knowledge: str) -> float:
    """Returns sacrebleu's corpus BLEU-4 of one response, from 0 to 100; higher = closer.

    All four orders of n-grams count, so that a response of fewer than four tokens has 0.

    >>> round(q2_baseline_bleu("a cat sat here", "A cat sat here"), 1)
    100.0
    """
    import sacrebleu

    return float(sacrebleu.corpus_bleu([response], [[knowledge.lower()]]).score)
