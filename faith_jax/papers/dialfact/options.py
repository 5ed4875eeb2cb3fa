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

    Shows which claims are verifiable, which evidence is found, and how verifiers classify claims
    with the annotators' evidence and with a retriever's (docs/dialfact.md).

    Attributes:
      verifiers (NAME=FOLDER): an NLI classifier, or a model that was trained on dialfact_verify_…
        (repeatable); mini_nli is always added
      variants (NAME=FOLDER): a variant of a verifier, for table 7; its name starts with the
        verifier's, such as Aug-WoW-noctx (repeatable)
      scorer_option (NAME.OPTION=VALUE): of a verifier, such as ours.form=dialfact (repeatable)
      neutral_model (FOLDER): an NLI classifier, for table 3; the paper: trained on Dialogue NLI
      knowledge_base (FOLDER): from faith-jax index, for tables 4 and 5, and for found evidence
      claims (FILE): test_split.jsonl; evidence for its claims is searched in the knowledge base
      validation_claims (FILE): valid_split.jsonl, searched too, for table 10 and thresholds
      vectors (FOLDER): from faith-jax embed, for dense retrieval
      question_model (FOLDER): the encoder of claims (without: the encoder of the passages)
      evidence_model (FOLDER): ranks sentences (without: BM25)
      documents (N): for each claim, by names and BM25; the paper: 3 for each name
      dense_documents (N): for each claim, by vectors; the paper: 100
      tagger (TAGGER): finds names: rules, or spacy:PIPELINE as in the paper
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
