"""The options of Gupta 2022's data and tables, for the command line and for the runs.

`faith_jax.cli.parser` says how a field becomes an option. Nothing slow is imported here.
"""

import dataclasses
from typing import ClassVar

from faith_jax.core.settings import Positive, PositiveNumber, PositiveShare
from faith_jax.papers.options import Folder, GeneratorOptions, Workflow
from faith_jax.runs.options import Names


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


@dataclasses.dataclass(frozen=True)
class MutateClaimsOptions(GeneratorOptions):
    """Settings of the making of claims.

    Attributes:
      folder (FOLDER): of Wizard of Wikipedia's train.json; or sample
      output (FOLDER): a new folder, of the files and the data set
      model (FOLDER): responds to other sentences; trained on Wizard of Wikipedia (without: no claim
        is generated)
      infiller (FOLDER): a T5 that fills masked words in, trained on wizard_of_wikipedia_infill as
        the paper's or only pre-trained (without: none)
      masker (FOLDER): an NLI classifier: the fewest words are masked without which it finds too
        little said (without: the first three words that the sentence has too)
      language_model (FOLDER): such as GPT-2: drops claims with more than 1.1 times the mean
        perplexity of a turn's claims (without: drops none)
      verifiers (FOLDERS): NLI classifiers: of a turn's claims the hardest ones are kept (without:
        the first ones)
      most (N): claims of a turn at most, beside its own
      unbalanced: keep all, also where a label has more claims than another
      validation_share: of the dialogues, in (0, 1]
      antonyms: of adjectives: wordnet, which NLTK has; wordnet:FOLDER; or list, which is short
      senses: find texts of a similar sense: list, which is short; wordnet or wordnet:FOLDER;
        vectors:PATH, a file in word2vec's text format or a folder of sense2vec; spacy:PIPELINE, one
        with vectors; or none
      temperature: of the generators, the paper's
    """

    folder: str
    _: dataclasses.KW_ONLY
    output: str
    model: str = ""
    infiller: str = ""
    masker: str = ""
    language_model: str = ""
    verifiers: Names = ()
    most: Positive = 4
    unbalanced: bool = False
    validation_share: PositiveShare = 0.02
    antonyms: str = "wordnet"
    senses: str = "list"
    temperature: PositiveNumber = 1.5
