"""Responses of a generator to combinations of a topic's arguments, kept in a folder.

The folder has `settings.json`, which decides the responses, for each temperature what `infer`
wrote, and `responses.jsonl`: all responses, as `faith-jax annotate write` reads them.
"""

import dataclasses
import hashlib
import json
import logging
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any

from faith_jax.annotation.word_rule import ErrorFreeRule
from faith_jax.core.errors import ConfigError, InputError, counted, did_you_mean
from faith_jax.core.kept_settings import SETTINGS, check_same, checkpoint_state, read_settings_file
from faith_jax.core.outputs import write_text
from faith_jax.core.rows import read_jsonl
from faith_jax.datasets import npov
from faith_jax.datasets.augmentation.npov_errors import ErrorKind
from faith_jax.datasets.npov.choices import MOST_COMBINATIONS, TEMPERATURES, response_rows
from faith_jax.datasets.samples import sample_folder
from faith_jax.decoding.config import DecodingConfig
from faith_jax.reproduce.reproduce import NPOV_DETECTION as DETECTION
from faith_jax.runs.setup import check_language_model
from faith_jax.tokenizers.vocabularies import EMBEDDED, load_vocabulary

logger = logging.getLogger("faith_jax")

SAMPLE = "sample"
RESPONSES = "responses.jsonl"
ERRORS = ("hallucination", "coverage")
# Classifiers by what they are trained on (section 5.2 and appendix B.1).
TRAINED_ON = ("synth", "para", "dev", "org", "annotation_free")
# What the classifiers of table 1 are trained on.
MAIN = "dev"
# What `infer` calls its settings, and what this command does.
_OPTIONS = {
    "MAX_INPUT_LENGTH": "--max-input-length",
    "DECODE_LENGTH": "--max-length",
    "VOCABULARY": "--vocabulary",
    "CHECKPOINT_PATH": "--model",
}


@dataclasses.dataclass(frozen=True)
class DetectionOptions:
    """What the study is made of; numbers are the paper's where it has them.

    Attributes:
      model: the generator, any checkpoint of a language model.
      vocabulary: its tokenizer's folder or file, or an embedded name; "" = in the model's folder.
      hallucination_model: the classifier of table 1, a folder; "" = that of `classifiers["dev"]`.
      coverage_model: likewise.
      classifiers: for each of `TRAINED_ON` two folders, for hallucination and for coverage.
      salience_model: whose gradients are taken; "" = the generator's.
      marks: what `faith-jax annotate read` wrote of people's marks; "" = a rule stands in.
      knowledge: a folder of the raw NPOV format; "sample" = the sample in the package.
      splits: whose topics are responded to.
      combinations: of arguments, for each topic at most.
      rule: stands in for marks.
      errors_per_response: rows with a synthetic error to each error-free one, in (0, 3], drawn from
        those that can be made; None = all of these.
      max_length: tokens of a response at most.
      max_input_length: tokens of an input at most; the rest is cut at its end.
      batch_size: rows decoded at once.
      resamples: of the bootstrap.
      seed: of combinations, sampling, synthetic errors and the bootstrap.
    """

    model: str
    vocabulary: str = ""
    hallucination_model: str = ""
    coverage_model: str = ""
    classifiers: Mapping[str, tuple[str, str]] = dataclasses.field(default_factory=dict)
    salience_model: str = ""
    marks: str = ""
    knowledge: str = SAMPLE
    splits: tuple[str, ...] = npov.SPLITS
    combinations: int = MOST_COMBINATIONS
    rule: ErrorFreeRule = dataclasses.field(default_factory=ErrorFreeRule)
    errors_per_response: float | None = None
    max_length: int = 256
    max_input_length: int = 512
    batch_size: int = 16
    resamples: int = 1000
    seed: int = 0

    def __post_init__(self):
        if not self.model:
            raise ConfigError(f"{DETECTION} needs a generator: give --model=CHECKPOINT.")
        for option, names, known in (
            ("splits", self.splits, npov.SPLITS),
            ("classifiers", tuple(self.classifiers), TRAINED_ON),
        ):
            for name in names:
                if name not in known:
                    raise ConfigError(
                        f"--{option}: there is no {name!r}.{did_you_mean(name, known)} "
                        f"There are: {', '.join(known)}."
                    )
        if "test" not in self.splits:
            raise ConfigError("--splits: the tables are of test topics; name test too.")
        for option in ("combinations", "max_input_length", "batch_size"):
            if getattr(self, option) < 1:
                name = option.replace("_", "-")
                raise ConfigError(
                    f"--{name}: expected a positive number, got {getattr(self, option)}."
                )
        for name, value in dataclasses.asdict(self.rule).items():
            if not 0 <= value <= 1:
                raise ConfigError(f"--least-{name}: expected a share in [0, 1], got {value}.")
        errors = self.errors_per_response
        if errors is not None and not 0 < errors <= len(ErrorKind) - 1:
            raise ConfigError(
                "--errors-per-response: expected a number above 0 and at most "
                f"{len(ErrorKind) - 1}, the kinds of errors, got {errors}."
            )
        for temperature in TEMPERATURES:
            self.decoding(temperature)

    def decoding(self, temperature: float) -> DecodingConfig:
        """Returns the settings of the responses at a temperature."""
        return DecodingConfig(self.max_length, temperature=temperature)

    @property
    def sample(self) -> bool:
        """Whether the topics are those of the sample."""
        return self.knowledge == SAMPLE

    @property
    def folder(self) -> pathlib.Path:
        """Where the topics are."""
        return sample_folder("procon_npov") if self.sample else pathlib.Path(self.knowledge)

    @property
    def tokenizer(self) -> str:
        """Where the generator's tokenizer is."""
        there = pathlib.Path(self.model).expanduser().is_dir()
        return self.vocabulary or (self.model if there else EMBEDDED)

    def models_of(self, error: str) -> dict[str, str]:
        """Returns the folders of an error's classifiers by what they are trained on.

        The classifier of table 1 has the name "".
        """
        place = ERRORS.index(error)
        found = {name: pair[place] for name, pair in self.classifiers.items() if pair[place]}
        main = (self.hallucination_model, self.coverage_model)[place] or found.get(MAIN, "")
        return ({"": main} if main else {}) | found


def read_topics(options: DetectionOptions) -> tuple[npov.Topic, ...]:
    """Returns the topics of the chosen splits.

    Raises:
      InputError: for a split without topics, and what `npov.load_topics` raises.
    """
    topics = npov.load_topics(options.folder)
    for split in options.splits:
        if not any(topic.split == split for topic in topics):
            there = ", ".join(dict.fromkeys(topic.split for topic in topics))
            raise InputError(
                f"{options.folder / npov.TOPICS_FILE}: no topic has the split {split!r}, only "
                f"{there}; give one of them that split, or choose with --splits."
            )
    return tuple(topic for topic in topics if topic.split in options.splits)


def check_models(options: DetectionOptions) -> None:
    """Finds what is wrong with a model before anything is decoded.

    Raises:
      ConfigError: naming the option.
    """
    given = {"--model": options.model, "--salience-model": options.salience_model}
    given |= {"--hallucination-model": options.hallucination_model}
    given |= {"--coverage-model": options.coverage_model}
    for name, pair in options.classifiers.items():
        given |= {f"--classifiers {name}, {e}": p for e, p in zip(ERRORS, pair, strict=True)}
    for option, path in given.items():
        if path:
            check_language_model(option, path)
    try:
        load_vocabulary(options.tokenizer)
    except ConfigError as error:
        raise ConfigError(f"--vocabulary: {error}") from None


def checked_settings(folder: pathlib.Path, options: DetectionOptions) -> dict[str, Any]:
    """Returns what decides the responses, and refuses a folder with others."""
    topics = (options.folder / npov.TOPICS_FILE).read_bytes()
    settings: dict[str, Any] = {
        "model": str(pathlib.Path(options.model).expanduser().absolute()),
        "state of the model's files": checkpoint_state(options.model),
        "vocabulary": options.tokenizer,
        "knowledge": options.knowledge,
        "state of the topics": hashlib.sha256(topics).hexdigest()[:16],
        "splits": sorted(set(options.splits), key=npov.SPLITS.index),
    }
    for name in ("combinations", "max_length", "max_input_length", "seed"):
        settings[name.replace("_", "-")] = getattr(options, name)
    path = folder / SETTINGS
    if not (folder / RESPONSES).exists() and not any(folder.glob("t*/predictions.jsonl")):
        return settings
    check_same(folder, read_settings_file(path), settings, "responses")
    return settings


def responses_of(
    folder: pathlib.Path, topics: Sequence[npov.Topic], options: DetectionOptions
) -> list[dict[str, Any]]:
    """Returns all responses, from the folder or from the generator.

    Args:
      folder: where they are kept.
      topics: what they are on.
      options: see there.

    Raises:
      FaithJaxError: for topics with too few arguments, and wrong settings.
    """
    path = folder / RESPONSES
    if path.exists():
        logger.info("%s is kept", path)
        return [dict(row) for _, row in read_jsonl(str(path))]
    rows = [
        row for topic in topics for row in response_rows(topic, options.combinations, options.seed)
    ]
    made: dict[str, Mapping[str, Any]] = {}
    for temperature in TEMPERATURES:
        part = [row for row in rows if row["temperature"] == temperature]
        made |= _generated(folder / f"t{temperature:.1f}", part, temperature, options)
    found: list[dict[str, Any]] = [
        {
            **row,
            "response": made[row["id"]]["prediction"],
            "log_prob": made[row["id"]]["log_prob"],
            "inputs_cut_tokens": made[row["id"]]["inputs_cut_tokens"],
        }
        for row in rows
    ]
    write_text(path, "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in found))
    return found


def _generated(
    folder: pathlib.Path,
    rows: Sequence[Mapping[str, Any]],
    temperature: float,
    options: DetectionOptions,
) -> dict[str, Mapping[str, Any]]:
    """Returns what `infer` wrote of rows at a temperature, by id; runs it where it has not."""
    from faith_jax.runs.infer import infer

    if not (folder / "predictions.jsonl").exists():
        inputs = folder.with_name(f"{folder.name}_inputs.jsonl")
        write_text(inputs, "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows))
        logger.info("%s at temperature %.1f", counted(len(rows), "response"), temperature)
        try:
            infer(
                options.model,
                str(folder),
                input_file=str(inputs),
                max_input_length=options.max_input_length,
                batch_size=options.batch_size,
                decoding=options.decoding(temperature),
                seed=options.seed,
                formats=("jsonl",),
                vocabulary=options.tokenizer,
            )
        except ConfigError as error:
            told = str(error)
            for macro, option in _OPTIONS.items():
                told = told.replace(macro, option)
            raise ConfigError(told) from None
    return {row["id"]: row for _, row in read_jsonl(str(folder / "predictions.jsonl"))}
