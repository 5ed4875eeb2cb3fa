"""What FaithDial's tables 5 and 8 are made of, and what its folder keeps."""

import dataclasses
import pathlib
from collections.abc import Mapping
from typing import Any

from faith_jax.decoding.config import DecodingConfig
from faith_jax.errors import ConfigError
from faith_jax.reproduce.faithdial_systems import (
    CROSS_ENTROPY,
    DOHA,
    FAITHDIAL_WOW,
    IN_DOMAIN,
    RECIPES,
    TRAINED_ON,
    System,
    Training,
    check_names,
)
from faith_jax.reproduce.scorers import as_published, is_missing
from faith_jax.runs.kept_settings import (
    SETTINGS,
    as_json,
    check_same,
    checkpoint_state,
    read_settings_file,
    write_settings,
)
from faith_jax.tokenizers.vocabularies import EMBEDDED

FAITHDIAL = "faithdial"

# The task and split of what is responded to; others than the first are table 8's.
TESTED_ON = {
    "faithdial": ("faithdial_generate", "test"),
    "wow": ("wizard_of_wikipedia_generate", "test_unseen"),
    "topical_chat": ("topical_chat_generate", "test_rare"),
    "cmu_dog": ("cmu_dog_generate", "test"),
}
# The scorer of each column, and what it compares responses with; BLEU is of a whole corpus.
COLUMNS = {
    "Critic": ("faith_critic", "knowledge"),
    "Q\u00b2 F1": ("q2_f1", "knowledge"),
    "Q\u00b2 NLI": ("q2_nli", "knowledge"),
    "BERTScore": ("bertscore", "knowledge"),
    "F1": ("q2_baseline_token_f1", "knowledge"),
    "TRUE F1": ("token_f1", "knowledge"),
    "BLEU": ("", "gold"),
    "ROUGE": ("rougeL_f1_stemmed", "gold"),
}
# What fills the columns that need models.
MODEL_SCORERS = {
    "faith_critic": "a model (--critic-model)",
    "q2_f1": "models (--q2-model, --q2-nli-model)",
    "q2_nli": "models (--q2-model, --q2-nli-model)",
    "bertscore": "a model (--bertscore-model)",
}
_ALL_DATA = (*TRAINED_ON, *IN_DOMAIN, FAITHDIAL_WOW)
_P = 0.6


@dataclasses.dataclass(frozen=True)
class FaithDialOptions:
    """What is trained, what it responds to, and what judges the responses.

    Attributes:
      models: checkpoints by the names that the table gives them; a BART named `doha` becomes one.
      methods: of `RECIPES`; each model is trained by each, `doha` by cross-entropy alone.
      trained_on: of `TRAINED_ON`, `IN_DOMAIN` and `FAITHDIAL_WOW`; those of the second are trained
        where `tested_on` has them.
      tested_on: of `TESTED_ON`.
      seeds: of training and sampling; figures are means over them.
      trained: checkpoints that are trained already, by "SYSTEM/TRAINED_ON", where a system is a
        model with its method ("t5_infonce", or "t5" of cross-entropy); of all seeds.
      training: how the others are trained.
      scorers: options of the scorers that need a model, of `MODEL_SCORERS`; the columns of those
        that are missing are left out. See `as_published` for defaults.
      max_length: tokens of a response at most.
      batch_size: rows decoded at once.
      limit: respond to the first rows of each data set only; 0 = to all.
      resamples: of the bootstrap, and rounds of the test.
      seed: of both.
    """

    models: Mapping[str, str]
    methods: tuple[str, ...] = tuple(RECIPES)
    trained_on: tuple[str, ...] = (*TRAINED_ON, *IN_DOMAIN)
    tested_on: tuple[str, ...] = tuple(TESTED_ON)
    seeds: tuple[int, ...] = (0,)
    trained: Mapping[str, str] = dataclasses.field(default_factory=dict)
    training: Training = dataclasses.field(default_factory=Training)
    scorers: Mapping[str, Mapping[str, Any]] = dataclasses.field(default_factory=dict)
    max_length: int = 128
    batch_size: int = 16
    limit: int = 0
    resamples: int = 1000
    seed: int = 0

    def __post_init__(self):
        object.__setattr__(self, "scorers", as_published(self.scorers))
        if not self.models:
            raise ConfigError("faithdial needs models to train: give --models=NAME=CHECKPOINT.")
        check_names("methods", self.methods, RECIPES)
        check_names("trained-on", self.trained_on, _ALL_DATA)
        check_names("tested-on", self.tested_on, TESTED_ON)
        for name in self.models:
            if not name.replace("-", "").replace("_", "").isalnum():
                raise ConfigError(
                    f"--models: expected a name of letters, digits, - and _, got {name!r}."
                )
        if DOHA in self.models and CROSS_ENTROPY not in self.methods:
            raise ConfigError(
                f"--methods: {DOHA} is trained by {CROSS_ENTROPY} alone; add it, or leave out "
                f"--models={DOHA}."
            )
        if len(set(self.seeds)) != len(self.seeds) or not self.seeds or min(self.seeds) < 0:
            raise ConfigError(
                f"--seeds: expected different whole numbers of at least 0, got {self.seeds}."
            )
        if self.trained:
            everything = dataclasses.replace(
                self,
                trained={},
                methods=tuple(RECIPES),
                trained_on=_ALL_DATA,
                tested_on=tuple(TESTED_ON),
            )
            known = [f"{system.name}/{system.trained_on}" for system in everything.systems()]
            check_names("trained", tuple(self.trained), tuple(dict.fromkeys(known)))

    def systems(self) -> list[System]:
        """Returns all that there is data for, in the table's order."""
        systems = [
            System(model, method, data, seed)
            for data in dict.fromkeys(self.trained_on)
            for model in self.models
            for method in dict.fromkeys(self.methods)
            for seed in self.seeds
        ]
        return [s for s in systems if s.is_possible and any(map(s.is_tested_on, self.tested_on))]

    @property
    def sample(self) -> bool:
        """Whether all data are the samples in the package."""
        return self.training.sample

    @property
    def decoding(self) -> DecodingConfig:
        """The paper's: nucleus sampling with p = 0.6."""
        return DecodingConfig(self.max_length, temperature=1.0, top_p=_P)

    def task(self, tested_on: str) -> tuple[str, str]:
        """Returns the task and the split of what is responded to."""
        task, split = TESTED_ON[tested_on]
        return f"{task}{'_sample' if self.sample else ''}", split

    def vocabulary(self, model: str) -> str:
        """Returns where the tokenizer of a model is."""
        there = pathlib.Path(self.models[model]).expanduser().is_dir()
        return self.training.vocabulary or (self.models[model] if there else EMBEDDED)

    def columns(self, tested_on: str) -> dict[str, tuple[str, str]]:
        """Returns the columns whose scorers have what they need.

        Responses to other data than FaithDial are not compared with gold ones (Dziri 2022, section
        5.2.4).
        """
        lacking = set(MODEL_SCORERS) - set(self.scorers)
        gold = ("gold",) if tested_on != "faithdial" else ()
        return {
            name: how
            for name, how in COLUMNS.items()
            if how[0] not in lacking and how[1] not in gold and not is_missing(how[0])
        }


def keep_settings(folder: pathlib.Path, options: FaithDialOptions) -> None:
    """Writes what decides responses and scores, and refuses a folder with others.

    Models, methods, data and scorers may be added; what each training is decided by stands in its
    own folder.

    Raises:
      ConfigError: naming the setting.
    """
    told: dict[str, Any] = {
        "table": FAITHDIAL,
        "sample": options.sample,
        "limit": options.limit,
        "max-length": options.max_length,
        "input-length": options.training.input_length,
    }
    for name, model in {**options.models, **options.trained}.items():
        told[f"model {name}"] = [model, checkpoint_state(model)]
    for name, given in options.scorers.items():
        told[f"scorer-option of {name}"] = dict(given)
    settings = as_json(told)
    path = folder / SETTINGS
    before = read_settings_file(path) if path.exists() else {}
    asked = {name: value for name, value in settings.items() if name in before}
    check_same(folder, before, asked, "responses or scores")
    write_settings(folder, {**before, **settings})
