"""The commands for scoring and for judges: score, scorers, certify and export-scorer."""

import dataclasses
from collections.abc import Iterable
from typing import ClassVar

from faith_jax.cli.shared import OneOfSeveral, show
from faith_jax.core.errors import pluralize
from faith_jax.input.score_input import ScoreInput
from faith_jax.runs.judges.options import CertifyOptions, ExportScorerOptions
from faith_jax.runs.options import ScoreOptions, scorer_options, split_scorer_name, split_scorers


@dataclasses.dataclass(frozen=True, kw_only=True)
class Score(ScoreInput, ScoreOptions, OneOfSeveral):
    r"""Scores responses by any number of scorers.

    Scores every row of a file, a SeqIO task or a TFDS data set in one pass. A run that was stopped
    resumes when the same command is given again.

    Attributes:
      scorers (NAMES): separated by commas; see the command scorers (default: groundedness).
        NAME=SCORER names a scorer NAME, so that it can be used several times with different
        options. FILE.toml is a judge by your own card, called FILE
      scorer_option (SCORER.NAME=VALUE): an option of a scorer; VALUE is a Python literal or a text,
        which in prompts may hold \n (a line break), \t and \\ (repeatable)
      scorer_module (MODULE): defines your own scorers, my_scorers.py or my_package.scorers
        (repeatable)
      skip_bad_rows: skip bad rows, count and list them
      dry_run: show what the scorers would see and how much they would cut, and stop

    Examples:
      %(prog)s --input=answers.csv --output=scores.jsonl
      %(prog)s --scorers=token_f1,rouge1_precision --input=rows.jsonl --output=scores.jsonl
      %(prog)s --scorers=token_f1 --scorer-option=token_f1.normalization=squad \
          --input=answers.csv --grounding-column=passages --response-column=answer \
          --output=scores.parquet
      %(prog)s --scorers=rouge1_precision --input=ragas.csv --output=scores.jsonl --worst=worst.csv
      %(prog)s --scorers=rouge1_precision --input=export.csv --separator=';' --encoding=cp1252 \
          --split-grounding='\n\n' --output=scores.jsonl
      %(prog)s --scorers=npov_rouge1_hallucination,npov_rouge1_coverage \
          --tfds=npov_errors/sample --split=test --label-column=has_hallucination \
          --labels-are-errors --output=npov_scores.jsonl
      %(prog)s --scorers=token_f1 --tfds=true_benchmark/q2 --tfds=true_benchmark/frank \
          --split=test --costs=costs.json --output=true.jsonl
      %(prog)s --scorers=pmi_faith_mean --scorer-option=pmi_faith_mean.model=checkpoints/gpt2 \
          --scorer-option='pmi_faith_mean.document_prompt=Text: {document}\n' \
          --input=rows.jsonl --output=pmi.jsonl
      %(prog)s --scorers=small=pmi_faith_mean,large=pmi_faith_mean \
          --scorer-option=small.model=checkpoints/gpt2 \
          --scorer-option=large.model=checkpoints/gpt2-xl --input=rows.jsonl --output=both.jsonl
      %(prog)s --scorer-module=my_scorers.py --scorers=my_scorer --input=rows.jsonl \
          --output=mine.jsonl
      %(prog)s --scorers=minicheck_flan_t5_large,my_judge.toml \
          --scorer-option=minicheck_flan_t5_large.model=checkpoints/minicheck \
          --scorer-option=my_judge.model=checkpoints/mine --input=rows.jsonl --output=judged.jsonl
    """

    opens_checkpoints: ClassVar = True
    scorers: str = "groundedness"
    scorer_option: tuple[str, ...] = ()
    scorer_module: tuple[str, ...] = ()
    skip_bad_rows: bool = False
    dry_run: bool = False

    @property
    def kept(self) -> str:
        """Says how many rows a stopped run has kept."""
        from faith_jax.core.files import count_kept_rows
        from faith_jax.core.files.stores import path_of

        count = count_kept_rows(path_of(self.output))
        if not count:
            return "nothing was scored yet."
        return f"{pluralize(count, 'scored row')} are kept; the same command resumes there."

    def run(self) -> list[str]:
        self.join_processes()
        from faith_jax.core.rows import BadRows
        from faith_jax.runs.scores import score

        digests = {}  # of the code of the user's own scorers and cards
        if self.scorer_module:
            from faith_jax.scoring.user_scorers import load_scorer_modules

            digests = load_scorer_modules(self.scorer_module)
        names = split_scorers(self.scorers)
        options = scorer_options(names, self.scorer_option)
        if files := [split_scorer_name(n)[1] for n in names if n.endswith(".toml")]:
            from faith_jax.scoring.judges.card import card_digest

            digests |= {file: card_digest(file) for file in files}
        bad_rows = BadRows(skip=self.skip_bad_rows)
        lines: Iterable[str] = ()
        if self.dry_run:
            score.preflight(self, options, self, bad_rows)
        else:
            lines = score.score(self, options, self, bad_rows, digests).lines()
        return [*lines, *bad_rows.describe_skipped()]


@dataclasses.dataclass(frozen=True)
class Scorers:
    r"""Lists the scorers with what they measure, their range and their source; and the judges.

    `score` takes their names and options. Scorers that need a model have the option `model`. Judges
    are published models, each with its licence.

    Attributes:
      names (SCORER): only these (default: all)
      scorer_module (MODULE): defines your own scorers, my_scorers.py or my_package.scorers
        (repeatable)

    Examples:
      %(prog)s
      %(prog)s groundedness minicheck_flan_t5_large
      %(prog)s --scorer-module=my_scorers.py
      faith-jax score --scorers=token_f1,rouge1_precision --input=rows.jsonl --output=scores.jsonl
      faith-jax score --scorers=nli_e_minus_c --scorer-option=nli_e_minus_c.model=checkpoints/nli \
          --input=rows.jsonl --output=scores.jsonl
    """

    names: tuple[str, ...] = ()
    _: dataclasses.KW_ONLY
    scorer_module: tuple[str, ...] = ()

    def run(self) -> str:
        import tabulate

        from faith_jax.scoring import registry
        from faith_jax.scoring.judges.card import read_card
        from faith_jax.scoring.user_scorers import load_scorer_modules

        load_scorer_modules(self.scorer_module)
        rows, judges = [], []
        for name in self.names or registry.scorer_names():
            card = registry.scorer_card(name)
            range_ = f"{card.low:g} to {card.high:g}"
            if registry.is_judge(name):
                judge = read_card(name)
                threshold = "" if judge.threshold is None else f"{judge.threshold:g}"
                families = ", ".join(judge.architectures)
                judges.append((name, families, range_, threshold, judge.licence, judge.source))
                continue
            default = registry.default_model(name)
            needs = "" if not card.needs_model else f"model ({default})" if default else "model"
            options = ", ".join(o for o in registry.scorer_options(name) if o != "model")
            rows.append((name, range_, card.description, card.source, needs, options))
        parts = []
        if rows:
            columns = ("scorer", "range", "what it measures", "source", "needs", "options")
            widths = [None, None, 46, 20, None, 30]
            parts.append(tabulate.tabulate(rows, columns, maxcolwidths=widths))
        if judges:
            options = ", ".join(registry.scorer_options(judges[0][0]))
            parts.append(f"Judges are published models; their options: {options}")
            columns = ("judge", "family", "range", "threshold", "licence of the model", "source")
            parts.append(tabulate.tabulate(judges, columns, disable_numparse=True))
        return "\n\n".join(parts)


class Certify(CertifyOptions):
    r"""Checks that a judge's folder scores as certified on this machine.

    Scores 200 pairs of our own sentences. Compares float32 scores with references: scores of the
    authors' code with a tiny random model, or your references from the authors' code with the
    published model. Compares scores in another dtype with float32 scores. Checks the family of the
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
    and score.py, which needs jax, numpy, safetensors, and tokenizers or sentencepiece; and nltk if
    the judge reads sentences.

    Examples:
      %(prog)s minicheck_flan_t5_large checkpoints/minicheck_flan_t5_large exported/minicheck
      %(prog)s my_judge.toml checkpoints/mine exported/mine --option=max_length=1024
    """

    opens_checkpoints: ClassVar = True

    def run(self) -> str:
        from faith_jax.runs.judges.export_scorer import export_scorer

        return str(export_scorer(self))
