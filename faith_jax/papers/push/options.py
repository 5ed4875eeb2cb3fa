"""The options of Steen 2023's tables, for the command line and for the runs.

`faith_jax.cli.parser` says how a field becomes an option. Nothing slow is imported here.
"""

import dataclasses
from typing import Annotated, ClassVar

import msgspec

from faith_jax.core.settings import Positive, PositiveNumber
from faith_jax.papers.options import Folder, Length, Workflow
from faith_jax.runs.options import Names, Resamples

_Phrases = Annotated[int, msgspec.Meta(ge=1, le=10, description="1 to 10, the paper's")]


@dataclasses.dataclass(frozen=True, kw_only=True)
class NliModels(Workflow):
    """The models of both tables.

    Attributes:
      model (CHECKPOINT): the NLI classifier
      augmented_model (FOLDER): the same classifier, trained on augmented ANLI
      corpora (NAMES): of TRUE, separated by commas (without: the nine of the average)
      dropout_passes (K): of Monte-Carlo dropout
      scorer_option (MODEL.NAME=VALUE): an option of the scorers of base, augmented, t5_anli,
        summac_zs or q2 (repeatable)
    """

    model: Folder = ""
    augmented_model: Folder = ""
    corpora: Names = ()
    dropout_passes: Positive = 15
    scorer_option: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True, kw_only=True)
class Nli(NliModels):
    """Steen 2023, tables 1, 2, 4, figure 1: an NLI classifier with a little push.

    Faithfulness on TRUE by an NLI classifier: unchanged, with e-c, Monte-Carlo dropout and training
    on ANLI with dialogue phrases; compared with other models, with costs (docs/nli.md).

    Attributes:
      t5_model (FOLDER): a T5 that was trained on ANLI
      summac_model (FOLDER): an NLI classifier for SummaC-ZS
      q2_model (FOLDER): asks questions about a response, for Q²
      q2_answer_model (FOLDER): answers them (without: the same)
      q2_nli_model (FOLDER): compares answers, and judges responses without questions (without:
        --model)
      methods (NAMES): separated by commas (without: all methods with models)
      resamples (N): of intervals and tests
    """

    name: ClassVar = "nli"
    module: ClassVar = "faith_jax.papers.push.tables_1_2_4"
    t5_model: Folder = ""
    summac_model: Folder = ""
    q2_model: Folder = ""
    q2_answer_model: Folder = ""
    q2_nli_model: Folder = ""
    methods: Names = ()
    resamples: Resamples = 1000


@dataclasses.dataclass(frozen=True, kw_only=True)
class NliPhrases(NliModels):
    """Steen 2023, table 5: trainings with five of the ten dialogue phrases each.

    Draws phrases, trains the classifier on ANLI with them, and scores TRUE (docs/nli.md).

    Attributes:
      batch_size (N): rows of a training step
      max_input_length (N): tokens of a training row
      draws (N): number of draws of phrases
      phrases (N): phrases in a draw
      train_task (NAME): nli_anli_augmented or a mixture with it (without: nli_anli_augmented, with
        --sample nli_anli_augmented_sample)
      train_steps (N): for each draw
      learning_rate (RATE): the peak learning rate
    """

    name: ClassVar = "nli_phrases"
    module: ClassVar = "faith_jax.papers.push.table5_phrase_draws"
    batch_size: Positive = 64
    max_input_length: Length = 512
    draws: Positive = 10
    phrases: _Phrases = 5
    train_task: str = ""
    train_steps: Positive = 2000
    learning_rate: PositiveNumber = 5e-6
