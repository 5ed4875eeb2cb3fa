"""The command that makes claims to train DialFact's verifiers on: mutate-claims."""

import dataclasses
from typing import ClassVar

from faith_jax.core.heavy_imports import quiet_tensorflow
from faith_jax.core.settings import Positive, PositiveNumber, PositiveShare
from faith_jax.papers.options import GeneratorOptions
from faith_jax.runs.options import Names


@dataclasses.dataclass(frozen=True)
class MutateClaims(GeneratorOptions):
    r"""Makes claims to train verifiers on, from Wizard of Wikipedia.

    The weak supervision of DialFact (Gupta 2022, Aug-WoW): negates claims, replaces their entities
    and adjectives, lets models respond to other sentences and fill in masked words, and gives
    claims other evidence. A run that was stopped resumes.

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

    def run(self) -> list[str]:
        quiet_tensorflow()
        from faith_jax.papers.dialfact.mutated_claims import mutate_claims

        return mutate_claims(self)
