"""The options of the tables, once: as the command line has them, and as the tables take them.

`faith_jax.cli.parser` says how a field becomes an option. Nothing slow is imported here.
"""

import dataclasses
import os
from collections.abc import Iterable, Mapping
from typing import Annotated, ClassVar

import msgspec

from faith_jax.core.errors import ConfigError, did_you_mean
from faith_jax.core.settings import NotNegative, Positive, PositiveNumber, Share
from faith_jax.runs.data.options import NpovCombinations, NpovErrors, NpovTopics
from faith_jax.runs.options import Names, Numbers, Resamples


def absolute(path: str) -> str:
    """Returns a path as a workflow finds it, which runs in its own folder; names stay names."""
    full_path = os.path.abspath(os.path.expanduser(path))
    return full_path if path and os.path.exists(full_path) else path


def _topics(path: str) -> str:
    return path if path == NpovTopics.knowledge else absolute(path)


def _parse_two_folders(text: str) -> tuple[str, ...]:
    folders = tuple(absolute(part.strip()) for part in text.split(","))
    if len(folders) != 2 or not any(folders):
        raise ValueError(f"expected two folders with a comma, got {text!r}")
    return folders


Folder = Annotated[str, absolute]
_Length = Annotated[int, msgspec.Meta(ge=8, description="a whole number, at least 8")]
_Phrases = Annotated[int, msgspec.Meta(ge=1, le=10, description="1 to 10, the paper's")]


def check_names(option: str, names: Iterable[str], choices: Iterable[str]) -> None:
    """Checks names that an option was given.

    Raises:
      ConfigError: for an unknown one.
    """
    for name in names:
        if name not in choices:
            raise ConfigError(
                f"--{option}: there is no {name!r}.{did_you_mean(name, choices)} There are: "
                f"{', '.join(choices)}."
            )


@dataclasses.dataclass(frozen=True, kw_only=True)
class Output:
    """Where a table goes.

    Attributes:
      output (FOLDER): all that is made
      sample: use the samples in the package
    """

    name: ClassVar[str]
    output: str
    sample: bool = False


@dataclasses.dataclass(frozen=True, kw_only=True)
class ScorerTable(Output):
    """A table of scorers.

    Attributes:
      scorers (NAMES): separated by commas (without: those that need no model)
      scorer_option (SCORER.NAME=VALUE): of one of the scorers, such as
        pmi_faith_mean.model=FOLDER (repeatable)
    """

    scorers: Names = ()
    scorer_option: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True, kw_only=True)
class Workflow(Output):
    """How a workflow runs.

    Attributes:
      cores (N): that steps share; 0 = all
      dry_run: only show the commands
      snakemake (ARGUMENT): for Snakemake, such as --snakemake=--profile=slurm (repeatable)
      seed: of all that is drawn
    """

    cores: NotNegative = 0
    dry_run: bool = False
    snakemake: tuple[str, ...] = ()
    seed: NotNegative = 0


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Evaluated(Workflow):
    """The options that most workflows have.

    Attributes:
      vocabulary (PATH): the tokenizer of models that carry none
      batch_size (N): rows decoded at once
      resamples (N): of intervals and tests
    """

    vocabulary: Folder = ""
    batch_size: Positive = 16
    resamples: Resamples = 1000


@dataclasses.dataclass(frozen=True, kw_only=True)
class Judged(_Evaluated):
    """Models that judge responses.

    Attributes:
      bertscore_model (FOLDER): an encoder; usually roberta-large
      q2_model (FOLDER): asks questions about a response, for Q²
      q2_answer_model (FOLDER): answers them (without: the same)
      q2_nli_model (FOLDER): compares answers, and judges responses without questions
      scorer_option (SCORER.NAME=VALUE): of a scorer with a model, such as bertscore.baseline=FILE,
        which rescales as the papers do (repeatable)
      limit (N): only the first rows of each data set; 0 = all
    """

    # By scorer the option with its model.
    judges: ClassVar[Mapping[str, str]] = {}
    bertscore_model: Folder = ""
    q2_model: Folder = ""
    q2_answer_model: Folder = ""
    q2_nli_model: Folder = ""
    scorer_option: tuple[str, ...] = ()
    limit: NotNegative = 0


@dataclasses.dataclass(frozen=True, kw_only=True)
class PmiDecode(Judged):
    """Nandwani 2023, table 3: a model's responses with and without PMI-Decode.

    Responses of a model (the paper: a BART-large) by plain beam search (likelihood) and by
    PMI-Decode (pmi; pmi_no_mask, p = 1; pmi_equal, alpha = 0.5), and their scores.

    Attributes:
      model (CHECKPOINT): that responds: any language model
      scorer_model (CHECKPOINT): for PMI-Faith; the paper: BLOOM-560m
      corpus (NAME): multidoc2dial, topical_chat or faithdial (repeatable; without: all)
      decodings (NAMES): some of them (without: all four)
      beams (N): width of the searches; 1 = greedy
      alpha: the weight of the PMI, in [0, 1]
      p: of the mask, in (0, 1]
      no_repeat_ngram (N): no n-gram of this many tokens is repeated; 0 = no limit
      max_length (N): tokens of a response at most
      max_input_length (N): tokens of an input at most
    """

    name: ClassVar = "pmi_decode"
    judges: ClassVar = {
        "pmi_faith_mean": "scorer_model",
        "bertscore": "bertscore_model",
        "q2_nli": "q2_model",
    }
    model: Folder = ""
    scorer_model: Folder = ""
    corpus: tuple[str, ...] = ()
    decodings: Names = ()
    beams: Positive = 4
    alpha: Share = 0.25
    p: Share = 0.6
    no_repeat_ngram: NotNegative = 3
    max_length: Positive = 100
    max_input_length: Positive = 512


@dataclasses.dataclass(frozen=True, kw_only=True)
class NpovDetection(NpovErrors, NpovCombinations, NpovTopics, _Evaluated):
    """Chang 2024, tables 1, 2, 3, 5 and 6: errors in a model's responses, and who finds them.

    Responses of a generator, with errors, and how well ROUGE, salience and classifiers detect these
    (docs/detection.md).

    Attributes:
      knowledge (FOLDER): of topics.jsonl; or sample, the topics in the package
      marks (FILE): people's marks of these responses, from `faith-jax annotate read --output`
        (without: a rule of words says which responses are free of errors)
      model (CHECKPOINT): that responds: any language model
      hallucination_model (FOLDER): table 1's classifier (without: dev's)
      coverage_model (FOLDER): likewise
      classifiers (NAME=HALL_FOLDER,COV_FOLDER): by what they are trained on: synth, para, dev, org
        or annotation_free; one of the folders may be left out (repeatable)
      salience_model (CHECKPOINT): whose gradients are taken (without: the generator's)
      max_length (N): tokens of a response at most
      max_input_length (N): tokens of an input at most; the rest is cut at its end
    """

    name: ClassVar = "npov_detection"
    knowledge: Annotated[str, _topics] = NpovTopics.knowledge
    marks: Folder = ""
    model: Folder = ""
    hallucination_model: Folder = ""
    coverage_model: Folder = ""
    classifiers: dict[str, Annotated[tuple[str, ...], _parse_two_folders]] = dataclasses.field(
        default_factory=dict
    )
    salience_model: Folder = ""
    max_length: Positive = 256
    max_input_length: Positive = 512


@dataclasses.dataclass(frozen=True, kw_only=True)
class Faithdial(Judged):
    """Dziri 2022, tables 5 and 8: generators by training data and method.

    Models are trained by each method on each data, respond to FaithDial's test turns and,
    zero-shot, to other dialogues', and are judged (docs/faithdial.md). Columns that need a model
    are left out without one.

    Attributes:
      models (NAME=CHECKPOINT): to train, such as t5=checkpoints/t5_base; doha=… makes a BART a DoHA
        (repeatable)
      methods (NAMES): of cross_entropy, ctrl, loss_truncation, infonce (without: all)
      trained_on (NAMES): of wow, faithdial, wow_then_faithdial, topical_chat and cmu_dog, of which
        the last two are tested on themselves alone (without: these), and faithdial_wow: FaithDial's
        dialogues with Wizard of Wikipedia's responses
      tested_on (NAMES): of faithdial, wow, topical_chat, cmu_dog (without: all that are at hand)
      seeds (NUMBERS): of trainings; figures are means over them
      trained (SYSTEM/DATA=FOLDER): a model that is trained already, such as
        t5_infonce/faithdial=runs/infonce; it stands for all seeds (repeatable)
      train_steps (N): of each training (without: 10 epochs, of doha 25; of samples 20)
      train_batch_size (N): rows (without: 32; of samples 8)
      learning_rate (RATE): its peak (without: 6.25e-5; doha 2e-5)
      max_input_length (N): tokens of an input at most (without: 512; of samples 160)
      target_length (N): tokens that are trained on (without: 256; of samples 64)
      max_length (N): tokens of a response at most (without: 100; of samples 32)
      critic_model (FOLDER): FaithDial's critic
    """

    name: ClassVar = "faithdial"
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
class FaithCritic(_Evaluated):
    """Dziri 2022, table 4: the transfer of critics.

    Critics trained on DECODE, DNLI, MNLI and FaithCritic, tested on MNLI, BEGIN and FaithCritic.
    Missing ones are trained from --model (the paper: a RoBERTa-large) by faith_critic_finetune.gin.

    Attributes:
      model (CHECKPOINT): from which critics are trained
      critics (NAME=FOLDER): a classifier that is trained already: DECODE, DNLI, MNLI or FaithCritic
        (repeatable)
      sets (NAME): published: those of the authors' code; own: BEGIN's second release, and
        FaithCritic with edited responses in test too
      train_steps (N): of each critic; 0 = ten epochs of its data
      batch_size (N): rows of a step
      max_length (N): tokens of a pair at most; premises are cut
    """

    name: ClassVar = "faith_critic"
    model: Folder = ""
    critics: dict[str, Folder] = dataclasses.field(default_factory=dict)
    sets: str = "published"
    train_steps: NotNegative = 0
    batch_size: Positive = 32
    max_length: _Length = 256


@dataclasses.dataclass(frozen=True, kw_only=True)
class NliModels(Workflow):
    """The models of both tables.

    Attributes:
      model (CHECKPOINT): the NLI classifier
      augmented_model (FOLDER): the same classifier, trained on augmented ANLI
      corpora (NAMES): of TRUE, separated by commas (without: its nine)
      dropout_passes (K): of Monte-Carlo dropout
      scorer_option (MODEL.NAME=VALUE): of base, augmented, t5_anli, summac_zs or q2 (repeatable)
    """

    model: Folder = ""
    augmented_model: Folder = ""
    corpora: Names = ()
    dropout_passes: Positive = 15
    scorer_option: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True, kw_only=True)
class Nli(NliModels):
    """Steen 2023, tables 1, 2, 4, figure 1: an NLI classifier with a little push.

    Faithfulness on TRUE by an NLI classifier, as it is, with e-c, Monte-Carlo dropout and training
    on ANLI with dialogue phrases; beside others, with their costs (docs/nli.md).

    Attributes:
      t5_model (FOLDER): a T5 that was trained on ANLI
      summac_model (FOLDER): an NLI classifier for SummaC-ZS
      q2_model (FOLDER): asks questions about a response, for Q²
      q2_answer_model (FOLDER): answers them (without: the same)
      q2_nli_model (FOLDER): compares answers, and judges responses without questions (without:
        --model)
      methods (NAMES): separated by commas (without: all that there are models for)
      resamples (N): of intervals and tests
    """

    name: ClassVar = "nli"
    t5_model: Folder = ""
    summac_model: Folder = ""
    q2_model: Folder = ""
    q2_answer_model: Folder = ""
    q2_nli_model: Folder = ""
    methods: Names = ()
    resamples: Resamples = 1000


@dataclasses.dataclass(frozen=True, kw_only=True)
class NliPhrases(NliModels):
    """Steen 2023, table 5: that training again, with five of the ten phrases each time.

    Draws phrases, trains the classifier on ANLI with them, and scores TRUE (docs/nli.md).

    Attributes:
      batch_size (N): rows of a training step
      max_input_length (N): tokens of a row of training
      draws (N): of phrases
      phrases (N): in a draw
      train_task (NAME): nli_anli_augmented or a mixture with it (without: this, with --sample
        nli_anli_augmented_sample)
      train_steps (N): of each draw
      learning_rate (RATE): its peak
    """

    name: ClassVar = "nli_phrases"
    batch_size: Positive = 64
    max_input_length: _Length = 512
    draws: Positive = 10
    phrases: _Phrases = 5
    train_task: str = ""
    train_steps: Positive = 2000
    learning_rate: PositiveNumber = 5e-6


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


WORKFLOWS = (PmiDecode, NpovDetection, Faithdial, FaithCritic, Nli, NliPhrases, Dialfact)
