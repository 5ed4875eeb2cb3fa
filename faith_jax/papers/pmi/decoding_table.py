"""Nandwani 2023's table 3: a model's responses with and without PMI-Decode.

The decodings are plain beam search, PMI-Decode, PMI-Decode without its mask (p = 1), and PMI-Decode
with equal weights (alpha = 0.5).
"""

import itertools
from collections.abc import Mapping
from typing import Any, ClassVar

from faith_jax.core.errors import ConfigError
from faith_jax.papers.judges import JudgedTable, Scored, check_scorers
from faith_jax.papers.options import check_names
from faith_jax.papers.pmi.options import PmiDecode
from faith_jax.papers.workflow import CountRows, GinRun

# Data sets whose responses use another task than training.
_TASKS = {"multidoc2dial": "multidoc2dial_generate_short_history"}
# The split of each data set's task that the paper tests on, in the paper's order.
CORPORA = {"multidoc2dial": "test", "topical_chat": "test_rare", "faithdial": "test"}
BASELINE = "likelihood"
DECODINGS = (BASELINE, "pmi", "pmi_no_mask", "pmi_equal")
# The range of PMI-Faith on BEGIN's development set (section 5.2).
LOWEST_PMI, HIGHEST_PMI = -2.1, 6.4


def check(options: PmiDecode) -> None:
    """Checks names, and opens the models; a ConfigError names the option."""
    from faith_jax.runs.setup import check_language_model

    if not options.model:
        raise ConfigError("pmi_decode needs a model that responds: give --model=CHECKPOINT.")
    check_names("corpus", options.corpus, CORPORA)
    check_names("decodings", options.decodings, DECODINGS)
    check_scorers(options)
    check_language_model("--model", options.model)


class Table(JudgedTable):
    """The workflow: a model responds to each data set with each decoding."""

    title = "Decodings with and without PMI (Nandwani 2023, table 3)"
    nothing = "--corpus: there is no data to respond to"
    judged_by = (
        Scored("pmi_faith_mean", "a model (--scorer-model)"),
        Scored("bertscore", "a model (--bertscore-model)"),
        Scored("q2_nli", "models (--q2-model, --q2-nli-model)"),
        Scored("q2_baseline_token_f1"),
        Scored("token_f1"),
        Scored("rougeL_f1_stemmed", against="target"),
    )
    columns: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        "PMI-Faith": {"scorer": "pmi_faith_mean", "low": LOWEST_PMI, "high": HIGHEST_PMI},
        "F1-U": {"scorer": "q2_baseline_token_f1"},
        "TRUE F1": {"scorer": "token_f1"},
        "BERTScore": {"scorer": "bertscore"},
        "Q\u00b2 NLI": {"scorer": "q2_nli"},
        "BLEU-4": {"reference": "target", "digits": 2},
        "ROUGE-L": {"scorer": "rougeL_f1_stemmed"},
    }

    def __init__(self, options: PmiDecode, rows: CountRows):
        super().__init__(options, rows)
        self.corpora += self.keep_available(
            {c: (self._choose_task(c), CORPORA[c]) for c in options.corpus or CORPORA}
        )
        self.decodings = list(dict.fromkeys(options.decodings or DECODINGS))
        lengths = {"inputs": options.max_input_length, "targets": options.max_input_length}
        for corpus, decoding in itertools.product(self.corpora, self.decodings):
            bindings: dict[str, Any] = {
                "CHECKPOINT_PATH": options.model,
                "SYSTEM": decoding,
                "MIXTURE_OR_TASK_NAME": self._choose_task(corpus),
                "SPLIT": CORPORA[corpus],
                "TASK_FEATURE_LENGTHS": lengths,
                "NUM_BEAMS": options.beams,
                "EARLY_STOPPING": options.beams > 1,
                "NO_REPEAT_NGRAM": options.no_repeat_ngram,
                "MIN_DECODE_LENGTH": min(2, options.max_length),
                "DECODE_LENGTH": options.max_length,
                "BATCH_SIZE": options.batch_size,
                "LIMIT": options.limit,
                "FORMATS": ("jsonl",),
            }
            if decoding != BASELINE:
                bindings["PMI_ALPHA"] = 0.5 if decoding == "pmi_equal" else options.alpha
                bindings["PMI_P"] = 1.0 if decoding == "pmi_no_mask" else options.p
            if options.vocabulary:
                bindings["VOCABULARY"] = options.vocabulary
            search = "decoding" if decoding == BASELINE else "pmi"
            files = ("runs/infer.gin", f"decoding/{search}.gin")
            self.responses[f"{corpus}/{decoding}"] = GinRun(files, bindings)
        self.add_scores()

    def _choose_task(self, corpus: str) -> str:
        task = _TASKS.get(corpus, f"{corpus}_generate")
        return f"{task}{'_sample' if self.options.sample else ''}"

    def comparisons(self) -> list[tuple[str, str]]:
        """Pairs each other decoding with plain beam search."""
        if BASELINE not in self.decodings:
            return []
        return [(name, BASELINE) for name in self.decodings if name != BASELINE]

    def notes(self) -> list[str]:
        """Returns notes on model, decoding and metrics."""
        options = self.options
        search = f"{options.beams} beams" if options.beams > 1 else "greedy search"
        notes = [
            f"Model: {options.model}, {search} without repeated n-grams of "
            f"{options.no_repeat_ngram} tokens, {options.max_length} tokens at most. PMI-Decode: "
            f"alpha = {options.alpha:g} and p = {options.p:g}; pmi_no_mask has p = 1, pmi_equal "
            "alpha = 0.5.",
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
        return notes + self.left_out_notes()
