"""What Nandwani 2023's table 3 is made of: a model's responses with and without PMI-Decode.

`pmi_decode.smk` runs it. The decodings are plain beam search, PMI-Decode, the same without its mask
(p = 1), and with equal weights (alpha = 0.5).
"""

import dataclasses
import logging
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from faith_jax.core.errors import ConfigError, InputError
from faith_jax.reproduce.faithdial import check_names
from faith_jax.reproduce.scorers import Scored, as_published, by_grounding, layout

logger = logging.getLogger("faith_jax")

# The split of each data set's task that the paper tests on, in the paper's order.
CORPORA = {"multidoc2dial": "test", "topical_chat": "test_rare", "faithdial": "test"}
BASELINE = "likelihood"
DECODINGS = (BASELINE, "pmi", "pmi_no_mask", "pmi_equal")
# The range of PMI-Faith on BEGIN's development set (section 5.2).
LOWEST_PMI, HIGHEST_PMI = -2.1, 6.4
SCORERS = (
    Scored("pmi_faith_mean", "a model (--scorer-model)"),
    Scored("bertscore", "a model (--bertscore-model)"),
    Scored("q2_nli", "models (--q2-model, --q2-nli-model)"),
    Scored("q2_baseline_token_f1"),
    Scored("token_f1"),
    Scored("rougeL_f1_stemmed", against="target"),
)
COLUMNS: Mapping[str, Mapping[str, Any]] = {
    "PMI-Faith": {"scorer": "pmi_faith_mean", "low": LOWEST_PMI, "high": HIGHEST_PMI},
    "F1-U": {"scorer": "q2_baseline_token_f1"},
    "TRUE F1": {"scorer": "token_f1"},
    "BERTScore": {"scorer": "bertscore"},
    "Q\u00b2 NLI": {"scorer": "q2_nli"},
    "BLEU-4": {"reference": "target", "digits": 2},
    "ROUGE-L": {"scorer": "rougeL_f1_stemmed"},
}


@dataclasses.dataclass(frozen=True)
class Options:
    """The table's options; the decoding's numbers are the paper's where it has them.

    Attributes:
      model: the generator, any checkpoint of a language model.
      vocabulary: its tokenizer's folder or file, or an embedded name; "" = in the model's folder.
      scorers: options of those scorers that need a model.
      corpora: of `CORPORA`.
      decodings: of `DECODINGS`.
      sample: respond to the samples in the package.
      limit: only the first rows of each data set; 0 = all.
      num_beams: width of the searches; 1 = greedy.
      alpha: weight of the PMI.
      p: of the mask.
      max_length: tokens of a response.
      max_input_length: tokens of an input.
      batch_size: rows decoded at once.
      resamples: of the bootstrap, and rounds of the test.
      seed: of both.
    """

    model: str = ""
    vocabulary: str = ""
    scorers: Mapping[str, Mapping[str, Any]] = dataclasses.field(default_factory=dict)
    corpora: Sequence[str] = tuple(CORPORA)
    decodings: Sequence[str] = DECODINGS
    sample: bool = False
    limit: int = 0
    num_beams: int = 4
    alpha: float = 0.25
    p: float = 0.6
    max_length: int = 128
    max_input_length: int = 512
    batch_size: int = 16
    resamples: int = 1000
    seed: int = 0

    def check(self) -> None:
        """Checks names and numbers.

        Raises:
          ConfigError: naming the option and what there is.
        """
        if not self.model:
            raise ConfigError("pmi_decode needs a model that responds: give --model=CHECKPOINT.")
        check_names("corpus", self.corpora, CORPORA)
        check_names("decodings", self.decodings, DECODINGS)
        for name, value, least in (
            ("alpha", self.alpha, 0.0),
            ("p", self.p, 0.0),
            ("beams", self.num_beams, 1),
            ("max-length", self.max_length, 1),
            ("max-input-length", self.max_input_length, 1),
            ("batch-size", self.batch_size, 1),
            ("limit", self.limit, 0),
        ):
            most = 1.0 if name in ("alpha", "p") else float("inf")
            if not least <= value <= most:
                until = f" and at most {most:g}" if most == 1.0 else ""
                raise ConfigError(f"--{name}: expected at least {least:g}{until}, got {value:g}.")


class Table:
    """What the workflow does, in names of its files.

    Args:
      options: of the table.
      rows: how many rows the tasks have that are at hand.
    """

    def __init__(self, options: Options, rows: Mapping[str, int]):
        self.options, self.scorers = options, as_published(options.scorers)
        wanted = list(dict.fromkeys(options.corpora))
        self.corpora = [name for name in wanted if f"{self._task(name)}:{CORPORA[name]}" in rows]
        self.left_out = [f"{name} (no data)" for name in wanted if name not in self.corpora]

    @classmethod
    def tasks(cls, options: Options) -> Iterator[tuple[str, str]]:
        """Yields the tasks and splits that the table may read."""
        for name in options.corpora:
            yield cls(options, {})._task(name), CORPORA[name]

    def _task(self, corpus: str) -> str:
        return f"{corpus}_generate{'_sample' if self.options.sample else ''}"

    def check_data(self) -> None:
        """Checks that there is something to respond to; warns of what is left out.

        Raises:
          InputError: where no data is at hand.
        """
        for told in self.left_out:
            logger.warning("left out: %s", told)
        if not self.corpora:
            raise InputError(
                f"--corpus: there is no data to respond to: {'; '.join(self.left_out)}. See "
                "`faith-jax prepare`."
            )

    def decoding_bindings(self, corpus: str, decoding: str) -> dict[str, Any]:
        """Returns the gin macros with which the model responds to a data set."""
        options = self.options
        lengths = {"inputs": options.max_input_length, "targets": options.max_input_length}
        found: dict[str, Any] = {
            "CHECKPOINT_PATH": options.model,
            "SYSTEM": decoding,
            "MIXTURE_OR_TASK_NAME": self._task(corpus),
            "SPLIT": CORPORA[corpus],
            "TASK_FEATURE_LENGTHS": lengths,
            "NUM_BEAMS": options.num_beams,
            "DECODE_LENGTH": options.max_length,
            "BATCH_SIZE": options.batch_size,
            "LIMIT": options.limit,
            "FORMATS": ("jsonl",),
        }
        if decoding != BASELINE:
            found["PMI_ALPHA"] = 0.5 if decoding == "pmi_equal" else options.alpha
            found["PMI_P"] = 1.0 if decoding == "pmi_no_mask" else options.p
        if options.vocabulary:
            found["VOCABULARY"] = options.vocabulary
        return found

    def responses_to(self, corpus: str) -> list[str]:
        """Returns the folders of responses to a data set."""
        return [f"{corpus}/{decoding}" for decoding in dict.fromkeys(self.options.decodings)]

    def scorers_of(self, corpus: str) -> dict[str, list[str]]:
        """Returns the scorers by what they compare responses with."""
        return by_grounding(SCORERS, self.scorers)

    def comparisons(self) -> list[tuple[str, str]]:
        """Returns each decoding with plain beam search."""
        if BASELINE not in self.options.decodings:
            return []
        return [(name, BASELINE) for name in self.options.decodings if name != BASELINE]

    def layout(self) -> dict[str, Any]:
        """Returns columns, notes and published figures, as `faith-jax evaluate` reads them."""
        options = self.options
        search = f"{options.num_beams} beams" if options.num_beams > 1 else "greedy search"
        notes = [
            f"Model: {options.model}, {search}. PMI-Decode: alpha = {options.alpha:g} and p = "
            f"{options.p:g}; pmi_no_mask has p = 1, pmi_equal alpha = 0.5.",
            "PMI-Faith, F1-U (the paper's: spaCy's tokens without stop words and punctuation), "
            "TRUE F1 (TRUE's token F1), BERTScore and Q\u00b2: against the document; BLEU-4 (of "
            "the whole corpus in lower case, 0 to 100) and ROUGE-L (F1 of Porter stems): against "
            "the gold response.",
        ]
        if "pmi_faith_mean" in self.scorers:
            model = self.scorers["pmi_faith_mean"].get("model")
            notes.append(
                f"PMI-Faith: pmi_faith_mean by {model}, where {LOWEST_PMI} is 0 and {HIGHEST_PMI} "
                "is 1 (the paper's range, of its own scorer); not clipped."
            )
        if self.left_out:
            notes.append(f"Left out: {'; '.join(self.left_out)}.")
        title = "Decodings with and without PMI (Nandwani 2023, table 3)"
        given = (self.scorers, notes, options.sample, options.limit)
        return layout("pmi_decode", title, COLUMNS, SCORERS, *given)
