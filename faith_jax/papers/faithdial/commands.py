"""The commands that make FaithDial's training data: control-tokens and negatives."""

import dataclasses
from typing import ClassVar

from faith_jax.core.errors import ConfigError
from faith_jax.core.heavy_imports import quiet_tensorflow
from faith_jax.core.settings import OutputPath, Positive, PositiveShare
from faith_jax.papers.options import GeneratorOptions


@dataclasses.dataclass(frozen=True)
class ControlTokens:
    """Adds control tokens that describe responses to training data, for CTRL.

    Adds control tokens (Rashkin 2021) to the turns of FaithDial, or to the turns of Wizard of
    Wikipedia with knowledge: whether a response has a first-person pronoun, which third of its
    file's responses its lexical precision is in, and whether a natural language inference model
    finds it entailed by the knowledge. Writes FILE_control-tokens.json beside each file of training
    and validation. Give one of --model, --nli and --pairs. Needs spaCy (extra augmentation).

    Attributes:
      folder (FOLDER): with train.json and valid.json (FaithDial), or with train.json,
        valid_random_split.json and valid_topic_split.json (Wizard of Wikipedia); validation files
        may be missing
      model (FOLDER): the inference model
      nli (FILE): or its labels: JSON lines of id and label
      pairs (FILE): or only write the pairs to label
      labels: the model's classes in order, if its configuration does not have them
      max_length (TOKENS): of a pair; premises are cut

    Examples:
      %(prog)s downloads/faithdial --model=checkpoints/roberta-large-mnli
      %(prog)s downloads/wizard_of_wikipedia --pairs=pairs.jsonl
      %(prog)s downloads/faithdial --nli=labels_of_pairs.jsonl
    """

    opens_checkpoints: ClassVar = True
    folder: str
    _: dataclasses.KW_ONLY
    model: str = ""
    nli: str = ""
    pairs: OutputPath = ""
    labels: str | None = None
    max_length: int | None = None

    def run(self) -> str | list[str]:
        if sum(map(bool, (self.model, self.nli, self.pairs))) != 1:
            raise ConfigError("Give one of --model, --nli and --pairs.")
        from faith_jax.papers.faithdial import control_tokens

        if self.pairs:
            return str(control_tokens.write_pairs(self.folder, self.pairs))
        from faith_jax.statistics.texts.text_metrics import english_tokenizer

        english_tokenizer()  # before a model classifies for hours
        if self.nli:
            labels = control_tokens.read_labels(self.nli)
        else:
            labels = control_tokens.classify_turns(
                self.folder, self.model, self.labels, max_length=self.max_length
            )
        return control_tokens.add_control_tokens(self.folder, labels)


@dataclasses.dataclass(frozen=True)
class Negatives(GeneratorOptions):
    r"""Makes unfaithful responses to FaithDial's turns, for InfoNCE.

    Perturb and generate (Dziri 2022): replaces entities or verbs in each turn's knowledge, lets a
    model that was trained on Wizard of Wikipedia respond to it, and adds the response to the turn
    as an unfaithful one. A stopped run resumes.

    Attributes:
      folder (FOLDER): with FaithDial's train.json and, if they exist, valid.json and test.json; or
        sample
      output (FOLDER): a new folder for the files and the data set
      model (FOLDER): the generator, trained on Wizard of Wikipedia's responses
      perturbations (N): of each knowledge at most, alternately of entities and of verbs; with a
        hallucinated response of Wizard of Wikipedia, the default makes the paper's 8
      top_p: of nucleus sampling, as in the paper

    Examples:
      %(prog)s sample --model=mini --tagger=rules --output=runs/negatives
      %(prog)s downloads/faithdial --model=runs/t5_wow --output=faithdial_negatives

    then:
      FAITH_JAX_DATA_DIR=faithdial_negatives/tfds t5x train \
          --gin_file=faithdial_generate_infonce.gin …
    """

    opens_checkpoints: ClassVar = True
    folder: str
    _: dataclasses.KW_ONLY
    output: OutputPath
    model: str
    perturbations: Positive = 7
    top_p: PositiveShare = 0.6

    def run(self) -> list[str]:
        quiet_tensorflow()
        from faith_jax.papers.faithdial.negatives import negatives

        return negatives(self)
