"""The commands that analyse responses and their scores, or decide about responses.

They are evaluate, report, explain, calibrate, accept and annotate.
"""

import os
import sys

from faith_jax.cli.shared import show
from faith_jax.runs.calibration.options import AcceptOptions, CalibrateOptions
from faith_jax.runs.options import (
    AgreementOptions,
    EvaluateFiles,
    ExplainOptions,
    RatingOptions,
    ReadSheets,
    ReportOptions,
    WriteSheets,
)


class Evaluate(EvaluateFiles):
    """Makes tables and pictures of scored files.

    Reads files of `score`. With labels, compares scorers; without, shows how systems compare on the
    same rows, and their worst answers. Files of one corpus are joined by row ids. A verdict says
    which system or scorer is better, and how certain that is.

    Examples:
      %(prog)s old_system.jsonl new_system.jsonl
      %(prog)s old_system.jsonl new_system.jsonl --cluster-field=question --undefined=0
      %(prog)s q2.jsonl qags_c.jsonl --baseline=token_f1 --markdown=table.md --json=figures.json
      %(prog)s begin_test.jsonl --protocol=begin --development=begin_dev.jsonl
      %(prog)s q2.jsonl --ensemble=both=summac_zs,nli_e_minus_c --baseline=summac_zs
      %(prog)s q2.jsonl begin_2021.jsonl --protocol=pronouns
      %(prog)s npov_scores.jsonl --protocol=npov
      %(prog)s critic_scores.jsonl --protocol=accuracy --scorers=faith_critic_call
      %(prog)s runs/verify/predictions.jsonl --protocol=dialfact --dataset=dialfact/official
      %(prog)s claim_scores.jsonl --protocol=dialfact --dataset=dialfact/retrieved
    """

    def run(self) -> str:
        from faith_jax.runs.scores.evaluate_scores import evaluate
        from faith_jax.scoring.user_scorers import load_scorer_modules

        load_scorer_modules(self.scorer_module)
        return evaluate(self)


class Report(ReportOptions):
    """Makes an HTML page of scored files.

    The page shows tables with intervals, ROC curves, histograms, and the examples to sort, filter
    and read; it needs no network. With --salience-model, heat maps show where the words of the
    responses come from, for the rows with the lowest scores of the first scorer.

    Examples:
      %(prog)s q2.jsonl qags_c.jsonl --output=report.html
      %(prog)s npov.jsonl --salience-model=runs/npov --salience-rows=3 --output=report.html
    """

    opens_checkpoints = True

    def run(self) -> str:
        from faith_jax.runs.scores.report import report
        from faith_jax.scoring.user_scorers import load_scorer_modules

        load_scorer_modules(self.scorer_module)
        return str(report(self))


class Explain(ExplainOptions):
    r"""Shows where the words of a response come from.

    Shows which words of the grounding the words of a response come from, by the gradients of a
    language model (Chang 2024, section 3.2): in the terminal, as a heat map, as a page.

    Words of the response with a low attribution are marked: no word of the grounding accounts for
    them. Words of the grounding with a low contribution are marked, too: they went into no word of
    the response. A star marks words of the response that are neither in the grounding nor in the
    query.

    Examples:
      %(prog)s --model=runs/npov --knowledge=sample --query="Should voting be compulsory?"
      %(prog)s --model=runs/npov --query="Is tea better than coffee?" --pro="Tea is calming." \
          --con="Coffee has more aroma." --html=tea.html --png=tea.png \
          --response="Supporters say that tea is calming. Critics prefer the aroma of coffee."
      %(prog)s --model=checkpoints/gpt2 --grounding="Tea is a leaf." --history="What is tea?" \
          --response="A green leaf."
      %(prog)s --model=runs/npov --input=responses.jsonl --id=voting-2 --html=voting.html
    """

    opens_checkpoints = True

    def run(self) -> list[str]:
        from faith_jax.report.salience import salience_text
        from faith_jax.runs.scores.explain import write_explanations

        pictures = write_explanations(self)
        coloured = self.color == "always"
        if self.color == "auto":
            coloured = sys.stdout.isatty() and not os.environ.get("NO_COLOR")
        text = "\n".join(salience_text(picture, coloured) for picture in pictures)
        show(text, keep="\x1b" if coloured else "")  # the escapes are ours, not the texts'
        return [*filter(None, (self.html, self.png, self.json))]


class Calibrate(CalibrateOptions):
    r"""Finds thresholds for accepting responses, with a guarantee, from labelled scores.

    Reads files of `score` with labels (1 = faithful), and writes a calibration: for each corpus,
    and for all together, a threshold from which on responses are accepted and one up to which they
    are rejected, so that few decisions are wrong, and a map from scores to the probability that a
    response is faithful. `accept` applies it to new rows.

    Examples:
      %(prog)s labelled.jsonl --scorer=groundedness --target=0.1 --output=calibration.json
      %(prog)s q2.jsonl qags_c.jsonl --scorer=nli_e_minus_c --target=0.05 --confidence=0.9 \
          --output=calibration.json --figure=accepted.png
      %(prog)s labelled.jsonl --guarantee=conformal_risk_control --target=0.02 \
          --output=calibration.json
    """

    def run(self) -> str:
        from faith_jax.runs.calibration.calibrate import calibrate

        return str(calibrate(self))


class Accept(AcceptOptions):
    r"""Accepts or rejects responses by a calibration, or abstains, with the reason.

    Reads files of `score` with new responses, and writes the rows with a decision. Warns if their
    scores do not look like the scores of the calibration, for which alone the guarantee holds.

    Examples:
      %(prog)s new.jsonl --calibration=calibration.json --corpus=labelled --output=decided.jsonl
      %(prog)s q2.jsonl qags_c.jsonl --calibration=calibration.json --pooled --output=decided.jsonl
    """

    def run(self) -> str:
        from faith_jax.runs.calibration.accept import accept

        return str(accept(self))


class Write(WriteSheets):
    r"""Writes a sheet to fill in.

    The sheet has the query, the numbered arguments, the response, and empty columns for marks.

    Examples:
      %(prog)s --input=runs/responses/predictions.jsonl --output=sheet.csv
      %(prog)s --input=responses.jsonl --output='sheet_{annotator}.csv' --annotators=ada,ben \
          --sample=100 --seed=1
      %(prog)s --questions=faithdial --input=runs/faithdial/scores/faithdial/knowledge.jsonl \
          --sample=200 --annotators=ada,ben,eve --output='judged_{annotator}.csv'
    """

    def run(self) -> list[str]:
        from faith_jax.runs.data.annotate import write_sheets

        return write_sheets(self)


class Read(ReadSheets):
    r"""Reads filled sheets back as marks and labels.

    Checks them and writes one row for each response and annotator, and one for each response with
    the label of the majority.

    Examples:
      %(prog)s sheet_ada.csv sheet_ben.csv --output=marks.jsonl --input=responses.jsonl
      %(prog)s sheet_*.csv --output=marks.jsonl --labels=labels.jsonl --slices=slices --ties=drop

    then, for example:
      faith-jax score --scorers=npov_rouge1_hallucination,npov_rouge1_coverage \
          --input=slices/full_organic.jsonl --output=scores.jsonl
      faith-jax evaluate scores.jsonl --protocol=npov
    """

    def run(self) -> list[str]:
        from faith_jax.runs.data.annotate import read_sheets

        return read_sheets(self)


class Agreement(AgreementOptions):
    """Measures how far annotators agree.

    Prints for each mark the share of yes, how often annotators agree, Krippendorff's alpha and
    Fleiss' kappa, and for spans and arguments the F1 between annotators.

    Examples:
      %(prog)s sheet_ada.csv sheet_ben.csv
      %(prog)s sheets.jsonl --json=agreement.json --resamples=10000
    """

    def run(self) -> str:
        from faith_jax.runs.data.annotate import agreement

        return agreement(self)


class Ratings(RatingOptions):
    r"""Makes a paper's table of responses judged by people.

    Reads sheets of write --questions. Prints shares and means by system with intervals, published
    figures below, and the paper's coefficient of agreement (Krippendorff's alpha, Fleiss' kappa).

    Examples:
      %(prog)s judged_*.csv --questions=faithdial \
          --input=runs/faithdial/scores/faithdial/knowledge.jsonl --baseline=wow/t5
      %(prog)s judged.csv --questions=pmi_decode --json=figures.json \
          --input=runs/pmi/scores/multidoc2dial/knowledge.jsonl \
          --input=runs/pmi/scores/topical_chat/knowledge.jsonl
    """

    def run(self) -> str:
        from faith_jax.runs.data.annotate import ratings

        return ratings(self)


class Annotate:
    """Makes and reads sheets on which people mark errors in responses.

    Lets people mark errors in generated responses (Chang 2024, section 4.1): writes a sheet to fill
    in, reads it back as labels, and measures how far annotators agree. `ratings` judges systems by
    the questions of Dziri 2022 and Nandwani 2023. docs/annotation.md describes the cells of a
    sheet, and has instructions for annotators.

    Examples:
      %(prog)s write --input=runs/responses/predictions.jsonl --output=sheet.csv
      %(prog)s read sheet.csv --output=marks.jsonl
      %(prog)s agreement sheet.csv
    """

    parts = (Write, Read, Agreement, Ratings)
