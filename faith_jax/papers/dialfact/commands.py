"""The command that makes claims to train DialFact's verifiers on: mutate-claims."""

import dataclasses
from typing import ClassVar

from faith_jax.core.heavy_imports import quiet_tensorflow
from faith_jax.core.settings import OutputPath, Positive, PositiveNumber, PositiveShare
from faith_jax.papers.options import GeneratorOptions
from faith_jax.runs.options import Names


@dataclasses.dataclass(frozen=True)
class MutateClaims(GeneratorOptions):
    r"""Makes claims to train verifiers on, from Wizard of Wikipedia.

    The weak supervision of DialFact (Gupta 2022, Aug-WoW): negates claims, replaces their entities
    and adjectives, lets models respond to other sentences and fill in masked words, and gives
    claims other evidence. A stopped run resumes.

    Attributes:
      folder (FOLDER): with Wizard of Wikipedia's train.json; or sample
      output (FOLDER): a new folder for the files and the data set
      model (FOLDER): responds to other sentences; trained on Wizard of Wikipedia (without: no claim
        is generated)
      infiller (FOLDER): a T5 that fills in masked words, trained on wizard_of_wikipedia_infill like
        the paper's, or only pre-trained (without: no words are masked)
      masker (FOLDER): an NLI classifier; masks the fewest words whose removal makes it call the
        claim neutral (without: masks the first three words that are in the sentence too)
      language_model (FOLDER): such as GPT-2: drops claims with more than 1.1 times the mean
        perplexity of a turn's claims (without: drops none)
      verifiers (FOLDERS): NLI classifiers, for which the hardest claims of a turn are kept
        (without: the first claims)
      most (N): new claims of a turn at most
      unbalanced: keep all claims, even if a label has more than another
      validation_share: of the dialogues, in (0, 1]
      antonyms: of adjectives: wordnet, from NLTK; wordnet:FOLDER; or list, a short list
      senses: source of texts of similar sense: list, a short list; wordnet or wordnet:FOLDER;
        vectors:PATH, a file in word2vec's text format or a folder of sense2vec; spacy:PIPELINE, a
        pipeline with vectors; or none
      temperature: of the generators, as in the paper

    Examples:
      %(prog)s sample --tagger=rules --antonyms=list --output=runs/claims
      %(prog)s downloads/wizard_of_wikipedia --model=runs/bart_wow --infiller=checkpoints/t5_base \
          --language-model=checkpoints/gpt2 --verifiers=checkpoints/dnli,checkpoints/vitaminc \
          --output=aug_wow

    then:
      FAITH_JAX_DATA_DIR=aug_wow/tfds t5x train --gin_file=dialfact_verify_finetune.gin …
    """

    opens_checkpoints: ClassVar = True
    folder: str
    _: dataclasses.KW_ONLY
    output: OutputPath
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

    def run(self) -> list[str]:
        quiet_tensorflow()
        from faith_jax.papers.dialfact.mutated_claims import mutate_claims

        return mutate_claims(self)
