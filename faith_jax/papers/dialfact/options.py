"""The options of Gupta 2022's data and tables, for the command line and for the runs.

`faith_jax.cli.parser` says how a field becomes an option. Nothing slow is imported here.
"""

import dataclasses
from typing import ClassVar

from faith_jax.core.settings import Positive
from faith_jax.papers.options import Folder, Workflow


@dataclasses.dataclass(frozen=True, kw_only=True)
class Dialfact(Workflow):
    """Gupta 2022, tables 2 to 8, 10 to 12, figure 2: fact-checking in dialogue.

    Which claims are verifiable, which evidence is found, and what verifiers say of claims with the
    annotators' evidence and with a retriever's (docs/dialfact.md).

    Attributes:
      verifiers (NAME=FOLDER): an NLI classifier, or a model that was trained on dialfact_verify_…
        (repeatable); mini_nli stands beside them
      variants (NAME=FOLDER): further ones, for table 7, beside the verifier whose name theirs
        begins with, such as Aug-WoW-noctx (repeatable)
      scorer_option (NAME.OPTION=VALUE): of a verifier, such as ours.form=dialfact (repeatable)
      neutral_model (FOLDER): an NLI classifier, for table 3; the paper: one of Dialogue NLI
      knowledge_base (FOLDER): of faith-jax index, for tables 4 and 5, and for found evidence
      claims (FILE): test_split.jsonl, whose evidence is looked for in it
      validation_claims (FILE): valid_split.jsonl, likewise, for table 10 and thresholds
      vectors (FOLDER): of faith-jax embed, for dense retrieval
      question_model (FOLDER): its encoder of claims (without: that of the passages)
      evidence_model (FOLDER): ranks sentences (without: BM25)
      documents (N): of each claim by names and BM25; the paper: 3 for each name
      dense_documents (N): of each claim by vectors; the paper: 100
      tagger (TAGGER): finds names: rules, or spacy:PIPELINE as the paper's
    """

    name: ClassVar = "dialfact"
    module: ClassVar = "faith_jax.papers.dialfact.tables"
    verifiers: dict[str, Folder] = dataclasses.field(default_factory=dict)
    variants: dict[str, Folder] = dataclasses.field(default_factory=dict)
    scorer_option: tuple[str, ...] = ()
    neutral_model: Folder = "mini_nli"
    knowledge_base: Folder = ""
    claims: Folder = ""
    validation_claims: Folder = ""
    vectors: Folder = ""
    question_model: Folder = ""
    evidence_model: Folder = ""
    documents: Positive = 10
    dense_documents: Positive = 100
    tagger: str = "rules"
