"""The commands of judges: certify and export-scorer."""

from typing import ClassVar

from faith_jax.cli.shared import show
from faith_jax.runs.judges.options import CertifyOptions, ExportScorerOptions


class Certify(CertifyOptions):
    r"""Checks that a judge's folder scores as certified on this machine.

    Scores 200 pairs of our own sentences. Compares the scores in float32 with references: those
    that the authors' code gives a tiny random model, or yours, by the authors' code with the
    published model; and the scores in another dtype with those in float32. Checks the family of the
    model and the ids of the tokens that the card names. Exits with status 1 if anything differs.

    Examples:
      %(prog)s minicheck_flan_t5_large
      %(prog)s minicheck_flan_t5_large checkpoints/minicheck_flan_t5_large --dtype=bfloat16
      %(prog)s minicheck_flan_t5_large --write-pairs=pairs.jsonl --write-model=tiny
      %(prog)s minicheck_flan_t5_large checkpoints/minicheck_flan_t5_large \
          --references=authors.jsonl --json=certified.json
    """

    opens_checkpoints: ClassVar = True

    def run(self) -> int:
        from faith_jax.runs.judges.certify import certify

        text, is_certified = certify(self)
        show(text)
        return 0 if is_certified else 1


class ExportScorer(ExportScorerOptions):
    r"""Writes a judge as a folder that scores without faith_jax.

    The folder holds the model as StableHLO for CPUs, GPUs and TPUs, its parameters, its tokenizer
    and score.py, which needs jax, numpy, safetensors, and tokenizers or sentencepiece; and nltk
    where the judge reads sentences.

    Examples:
      %(prog)s minicheck_flan_t5_large checkpoints/minicheck_flan_t5_large exported/minicheck
      %(prog)s my_judge.toml checkpoints/mine exported/mine --option=max_length=1024
    """

    opens_checkpoints: ClassVar = True

    def run(self) -> str:
        from faith_jax.runs.judges.export_scorer import export_scorer

        return str(export_scorer(self))
