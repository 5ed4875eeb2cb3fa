"""The options of Nandwani 2023's table, for the command line and for the runs.

`faith_jax.cli.parser` says how a field becomes an option. Nothing slow is imported here.
"""

import dataclasses
from typing import ClassVar

from faith_jax.core.settings import NotNegative, Positive, PositiveShare, Share
from faith_jax.papers.options import Folder, Judged
from faith_jax.runs.options import Names


@dataclasses.dataclass(frozen=True, kw_only=True)
class PmiDecode(Judged):
    """Nandwani 2023, table 3: a model's responses with and without PMI-Decode.

    Responses of a model (the paper: a BART-large) by plain beam search (likelihood) and by
    PMI-Decode (pmi; pmi_no_mask, p = 1; pmi_equal, alpha = 0.5), and their scores.

    Attributes:
      model (CHECKPOINT): the model that responds: any language model
      scorer_model (CHECKPOINT): for PMI-Faith; the paper: BLOOM-560m
      corpus (NAME): multidoc2dial, topical_chat or faithdial (repeatable; without: all)
      decodings (NAMES): some of them (without: all four)
      beams (N): width of the searches; 1 = greedy
      alpha: the weight of the PMI, in [0, 1]
      p: the share of probability that the mask keeps, in (0, 1]
      no_repeat_ngram (N): no n-gram of this many tokens is repeated; 0 = no limit
      max_length (N): tokens of a response at most
      max_input_length (N): tokens of an input at most
    """

    name: ClassVar = "pmi_decode"
    module: ClassVar = "faith_jax.papers.pmi.decoding_table"
    judges: ClassVar = {
        "pmi_faith_mean": "scorer_model",
        "bertscore": "bertscore_model",
        "q2_nli": "q2_model",
    }
    model: Folder = ""
    scorer_model: Folder = ""
    corpus: tuple[str, ...] = ()
    decodings: Names = ()
    beams: Positive = 4
    alpha: Share = 0.25
    p: PositiveShare = 0.6
    no_repeat_ngram: NotNegative = 3
    max_length: Positive = 100
    max_input_length: Positive = 512
