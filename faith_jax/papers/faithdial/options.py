"""The options of Dziri 2022's data and tables, for the command line and for the runs.

`faith_jax.cli.parser` says how a field becomes an option. Nothing slow is imported here.
"""

import dataclasses
from typing import ClassVar

from faith_jax.core.settings import NotNegative, Positive
from faith_jax.papers.options import Evaluated, Folder, Judged, Length
from faith_jax.runs.options import Names, Numbers


@dataclasses.dataclass(frozen=True, kw_only=True)
class Faithdial(Judged):
    """Dziri 2022, tables 5 and 8: generators by training data and method.

    Models are trained by each method on each data set, respond to FaithDial's test turns and,
    zero-shot, to those of other dialogues, and are judged (docs/faithdial.md). Columns whose model
    is not given are left out.

    Attributes:
      models (NAME=CHECKPOINT): to train, such as t5=checkpoints/t5_base; doha=… makes a BART a DoHA
        (repeatable)
      methods (NAMES): of cross_entropy, ctrl, loss_truncation, infonce (without: all)
      trained_on (NAMES): of wow, faithdial, wow_then_faithdial, topical_chat and cmu_dog, where the
        last two are only tested on themselves (without: all five), and faithdial_wow: FaithDial's
        dialogues with Wizard of Wikipedia's responses
      tested_on (NAMES): of faithdial, wow, topical_chat, cmu_dog (without: all available)
      seeds (NUMBERS): of trainings; figures are means over them
      trained (SYSTEM/DATA=FOLDER): an already trained model, such as
        t5_infonce/faithdial=runs/infonce; it is used for all seeds (repeatable)
      train_steps (N): of each training (without: 10 epochs, for doha 25; for samples 20 steps)
      train_batch_size (N): rows (without: 32; for samples 8)
      learning_rate (RATE): the peak (without: 6.25e-5; for doha 2e-5)
      max_input_length (N): tokens of an input at most (without: 512; for samples 160)
      target_length (N): tokens of a training target (without: 256; for samples 64)
      max_length (N): tokens of a response at most (without: 100; for samples 32)
      critic_model (FOLDER): FaithDial's critic
    """

    name: ClassVar = "faithdial"
    module: ClassVar = "faith_jax.papers.faithdial.generators"
    judges: ClassVar = {
        "faith_critic": "critic_model",
        "bertscore": "bertscore_model",
        "q2_f1": "q2_model",
        "q2_nli": "q2_model",
    }
    models: dict[str, Folder] = dataclasses.field(default_factory=dict)
    methods: Names = ()
    trained_on: Names = ()
    tested_on: Names = ()
    seeds: Numbers = (0,)
    trained: dict[str, Folder] = dataclasses.field(default_factory=dict)
    train_steps: int | None = None
    train_batch_size: int | None = None
    learning_rate: float | None = None
    max_input_length: int | None = None
    target_length: int | None = None
    max_length: int | None = None
    critic_model: Folder = ""


@dataclasses.dataclass(frozen=True, kw_only=True)
class FaithCritic(Evaluated):
    """Dziri 2022, table 4: the transfer of critics.

    Critics trained on DECODE, DNLI, MNLI and FaithCritic, tested on MNLI, BEGIN and FaithCritic.
    Missing ones are trained from --model (the paper: a RoBERTa-large) by faith_critic_finetune.gin.

    Attributes:
      model (CHECKPOINT): the model to train critics from
      critics (NAME=FOLDER): an already trained classifier: DECODE, DNLI, MNLI or FaithCritic
        (repeatable)
      sets (NAME): published: the sets of the authors' code; own: BEGIN's second release, and
        FaithCritic with edited responses in test too
      train_steps (N): of each critic; 0 = ten epochs of its data
      batch_size (N): rows of a training step
      max_length (N): tokens of a pair at most; premises are cut
    """

    name: ClassVar = "faith_critic"
    module: ClassVar = "faith_jax.papers.faithdial.critics"
    model: Folder = ""
    critics: dict[str, Folder] = dataclasses.field(default_factory=dict)
    sets: str = "published"
    train_steps: NotNegative = 0
    batch_size: Positive = 32
    max_length: Length = 256
