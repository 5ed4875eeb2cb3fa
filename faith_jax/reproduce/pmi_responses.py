"""Responses of a model by several decodings, kept in a folder beside what they are judged by.

The folder has for each data set its `rows.jsonl`, for each decoding what `infer` wrote and a file
of the responses with documents and gold responses; and `settings.json`, which decides them.
"""

import dataclasses
import pathlib
from collections.abc import Mapping
from typing import Any

from faith_jax.decoding.config import DecodingConfig, PMIConfig
from faith_jax.errors import ConfigError, did_you_mean
from faith_jax.reproduce import response_files
from faith_jax.reproduce.reproduce import PMI_TABLE
from faith_jax.reproduce.scorers import as_published, is_missing
from faith_jax.runs.kept_settings import (
    SETTINGS,
    as_json,
    check_same,
    checkpoint_state,
    read_settings_file,
)
from faith_jax.tokenizers.vocabularies import EMBEDDED

# The split of each data set's task that the paper tests on, in the paper's order.
CORPORA = {"multidoc2dial": "test", "topical_chat": "test_rare", "faithdial": "test"}
BASELINE = "likelihood"
DECODINGS = (BASELINE, "pmi", "pmi_no_mask", "pmi_equal")
# The range of PMI-Faith on BEGIN's development set (section 5.2).
LOWEST_PMI, HIGHEST_PMI = -2.1, 6.4
# The scorer of each column and what it compares responses with; BLEU is of a whole corpus.
COLUMNS = {
    "PMI-Faith": ("pmi_faith_mean", "knowledge"),
    "F1-U": ("q2_baseline_token_f1", "knowledge"),
    "TRUE F1": ("token_f1", "knowledge"),
    "BERTScore": ("bertscore", "knowledge"),
    "Q\u00b2 NLI": ("q2_nli", "knowledge"),
    "BLEU-4": ("", "gold"),
    "ROUGE-L": ("rougeL_f1_stemmed", "gold"),
}
# What fills the columns that need models.
MODEL_SCORERS = {
    "pmi_faith_mean": "a model (--scorer-model)",
    "bertscore": "a model (--bertscore-model)",
    "q2_nli": "models (--q2-model, --q2-nli-model)",
}
ROWS = "rows.jsonl"


@dataclasses.dataclass(frozen=True)
class PMITableOptions:
    """What the table is made of; the decoding's numbers are the paper's where it has them.

    Attributes:
      model: the generator, any checkpoint of a language model.
      vocabulary: its tokenizer's folder or file, or an embedded name; "" = in the model's folder.
      scorers: options of the scorers that need a model, of `MODEL_SCORERS`; those that are missing
        are left out of the table. See `as_published` for defaults.
      corpora: of `CORPORA`.
      decodings: of `DECODINGS`: plain beam search, PMI-Decode, without its mask (p = 1), and with
        equal weights (alpha = 0.5).
      sample: respond to the samples in the package.
      limit: respond to the first rows of each data set only; 0 = to all.
      num_beams: width of the searches; 1 = greedy.
      alpha: weight of the PMI.
      p: of the mask.
      max_length: tokens of a response at most.
      max_input_length: tokens of an input at most; the rest is cut at its end.
      batch_size: rows decoded at once.
      resamples: of the bootstrap, and rounds of the test.
      seed: of both.
    """

    model: str
    vocabulary: str = ""
    scorers: Mapping[str, Mapping[str, Any]] = dataclasses.field(default_factory=dict)
    corpora: tuple[str, ...] = tuple(CORPORA)
    decodings: tuple[str, ...] = DECODINGS
    sample: bool = False
    limit: int = 0
    num_beams: int = 4
    alpha: float = 0.25
    p: float = 0.6
    max_length: int = 128
    max_input_length: int = 512
    batch_size: int = 16
    resamples: int = 1000
    seed: int = 0

    def __post_init__(self):
        object.__setattr__(self, "scorers", as_published(self.scorers))
        if not self.model:
            raise ConfigError(f"{PMI_TABLE} needs a model that responds: give --model=CHECKPOINT.")
        for option, names, known in (
            ("corpus", self.corpora, tuple(CORPORA)),
            ("decodings", self.decodings, DECODINGS),
        ):
            for name in names:
                if name not in known:
                    raise ConfigError(
                        f"--{option}: there is no {name!r}.{did_you_mean(name, known)} "
                        f"There are: {', '.join(known)}."
                    )
        for option in ("max_input_length", "batch_size", "limit"):
            value = getattr(self, option)
            if value < (option != "limit"):
                name = option.replace("_", "-")
                raise ConfigError(f"--{name}: expected a positive number, got {value}.")
        for name in self.decodings:
            self.decoding(name)

    def decoding(self, name: str) -> DecodingConfig:
        """Returns the settings of one of the decodings."""
        alpha = 0.5 if name == "pmi_equal" else self.alpha
        p = 1.0 if name == "pmi_no_mask" else self.p
        pmi = None if name == BASELINE else PMIConfig(alpha, p)
        return DecodingConfig(self.max_length, num_beams=self.num_beams, pmi=pmi)

    @property
    def tokenizer(self) -> str:
        """Where the model's tokenizer is."""
        there = pathlib.Path(self.model).expanduser().is_dir()
        return self.vocabulary or (self.model if there else EMBEDDED)

    @property
    def columns(self) -> dict[str, tuple[str, str]]:
        """The columns whose scorers have what they need."""
        lacking = set(MODEL_SCORERS) - set(self.scorers)
        return {
            name: how
            for name, how in COLUMNS.items()
            if how[0] not in lacking and not is_missing(how[0])
        }


def checked_settings(folder: pathlib.Path, options: PMITableOptions) -> dict[str, Any]:
    """Returns what decides responses and scores, and refuses a folder with others."""
    told = {
        "table": PMI_TABLE,
        "model": str(pathlib.Path(options.model).expanduser().absolute()),
        "state of the model's files": checkpoint_state(options.model),
        "vocabulary": options.tokenizer,
        "scorers": {name: dict(given) for name, given in options.scorers.items()},
    }
    for name in ("sample", "limit", "num_beams", "alpha", "p", "max_length", "max_input_length"):
        told[name.replace("_", "-")] = getattr(options, name)
    settings = as_json(told)
    path = folder / SETTINGS
    if not any(folder.glob("*/*/predictions.jsonl")):
        if path.exists():  # of a run that came to nothing
            for rows in folder.glob("*/rows.jsonl"):
                rows.unlink()
        return settings
    before = read_settings_file(path, "scorers")
    others = before["scorers"]
    now = {name: value for name, value in settings.items() if name != "scorers"}
    for name, given in settings["scorers"].items():
        if any(folder.glob(f"*/*_{name}.jsonl")):
            before[f"scorer-option of {name}"] = others.get(name)
            now[f"scorer-option of {name}"] = given
    check_same(folder, before, now, "responses or scores")
    return settings | {"scorers": others | settings["scorers"]}


def read_rows(corpus: str, folder: pathlib.Path, options: PMITableOptions) -> dict[str, Any]:
    """Returns the rows to respond to by id, from the folder or from the task, which it keeps."""
    task = f"{corpus}_generate{'_sample' if options.sample else ''}"
    return response_files.read_rows(folder / ROWS, task, CORPORA[corpus], options.limit)


def respond(decoding: str, path: pathlib.Path, options: PMITableOptions) -> None:
    """Decodes, and writes the responses beside what they are judged by."""
    response_files.respond(
        path.with_name(ROWS),
        path,
        options.model,
        options.tokenizer,
        options.decoding(decoding),
        options.max_input_length,
        options.batch_size,
    )
