"""Scores of TRUE's corpora by methods, in files that are kept: one for each corpus and method.

A file is named by its method, CORPUS/METHOD.jsonl. Methods of the same forward passes are scored
together, in a file named by all of them, which is taken apart when it is whole.
"""

import dataclasses
import hashlib
import json
import logging
import pathlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from faith_jax.core.errors import ConfigError, FaithJaxError, InputError
from faith_jax.core.files import (
    SETTINGS,
    as_json,
    checkpoint_state,
    made_folder,
    read_settings_file,
    write_settings,
    write_text,
)
from faith_jax.core.rows import BadRows, read_jsonl
from faith_jax.export.read_scored import read_scored_rows
from faith_jax.input.score_input import ScoreInput
from faith_jax.reproduce.nli_methods import MODELS, Method, ModelOptions
from faith_jax.runs.score import score
from faith_jax.scoring.pair_classifier import forget_classifiers
from faith_jax.scoring.registry import load_scorer
from faith_jax.statistics.scored_corpora import Corpus, read_corpora

logger = logging.getLogger("faith_jax")

_TOGETHER = "+"
_ROWS = "rows.sha256"


def corpus_input(corpus: str, sample: bool) -> ScoreInput:
    """Returns what is read of one of TRUE's corpora."""
    config = f"{corpus}_sample" if sample else corpus
    return ScoreInput(tfds=f"true_benchmark/{config}", split="test", corpus=corpus)


@dataclasses.dataclass(frozen=True)
class Cells:
    """The kept scores of some methods.

    Attributes:
      folder: of the corpora's folders, and of the settings.
      methods: by name.
      models: what they are of.
      sample: of the samples in the package.
    """

    folder: pathlib.Path
    methods: Mapping[str, Method]
    models: ModelOptions
    sample: bool = False

    def path(self, corpus: str, method: str) -> pathlib.Path:
        """Returns the file of a cell."""
        return self.folder / corpus / f"{method}.jsonl"

    def missing(self, corpus: str, methods: Sequence[str] = ()) -> list[str]:
        """Returns which of the methods, by default of all, are not scored yet."""
        return [m for m in methods or self.methods if not self.path(corpus, m).exists()]

    def settings(self) -> dict[str, Any]:
        """Returns what decides the scores of each method, as JSON has it."""
        told: dict[str, Any] = {}
        for name, method in self.methods.items():
            options = self.models.scorer_options(method)
            folders = self.models.folders(method.model)
            states = {str(pathlib.Path(f).expanduser().absolute()): f for f in folders}
            told[name] = {
                "scorer": method.scorer,
                "options": options,
                "models": {path: checkpoint_state(f) for path, f in states.items()},
            }
        return as_json(told)

    def check_kept(self) -> dict[str, Any]:
        """Returns what `begin` notes, and refuses a folder with scores of other settings.

        Raises:
          ConfigError: naming the method.
        """
        path = self.folder / SETTINGS
        kept = {name for name in self.methods if any(self._kept_files(name))}
        if path.exists():
            before = read_settings_file(path, "methods")
            was_sample, known = before.get("sample"), before["methods"]
            if was_sample != self.sample and any(self.folder.glob("*/*.jsonl*")):
                what = "the samples" if was_sample else "the corpora themselves"
                raise ConfigError(
                    f"--output: {self.folder} keeps scores of {what}; name another folder."
                )
        else:
            known = {}
        now = self.settings()
        for name in sorted(kept):
            if known.get(name) != now[name]:
                raise ConfigError(
                    f"--output: {self.folder} keeps scores of {name} with other settings "
                    f"({_difference(known.get(name), now[name])}); name another folder, or remove "
                    f"its files (*/{name}.*)."
                )
        return {"sample": self.sample, "methods": known | now}

    def begin(self, corpora: Sequence[str]) -> list[str]:
        """Finds mistakes before anything is scored, notes the settings, and makes the folders.

        Returns:
          The corpora that are scored already, or whose data is at hand.

        Raises:
          FaithJaxError: for kept scores of other settings or rows, a wrong model or option, and
            where none of the corpora is at hand.
        """
        settings = self.check_kept()
        states = self._at_hand(corpora)
        self._check_models(list(states))
        made_folder(self.folder)
        write_settings(self.folder, settings)
        for corpus, state in states.items():
            if state:
                made_folder(self.folder / corpus)
                write_text(self.folder / corpus / _ROWS, state)
        return list(states)

    def _kept_files(self, method: str) -> Iterator[pathlib.Path]:
        for path in self.folder.glob("*/*.json*"):
            if method in path.name.partition(".")[0].split(_TOGETHER):
                yield path

    def passes(self, model: str) -> Iterator[list[str]]:
        """Yields the methods of a model that share their forward passes."""
        for dropout in (False, True):
            names = [n for n, m in self.methods.items() if (m.model, m.dropout) == (model, dropout)]
            if names:
                yield names

    def _check_models(self, corpora: Sequence[str]) -> None:
        """Loads what has something left to score, so that its mistakes come first.

        Raises:
          FaithJaxError: naming the option.
        """
        for model, option in MODELS.items():
            for names in self.passes(model):
                if any(self.missing(corpus, names) for corpus in corpora):
                    try:
                        self.load(names[0])
                    except FaithJaxError as error:
                        given = f"--scorer-option={model}.dropout_rate="
                        told = str(error).replace("give dropout_rate=", f"give {given}")
                        raise ConfigError(f"{option}: {told}") from None
            forget_classifiers()

    def load(self, name: str) -> Any:
        """Returns a method's scorer."""
        method = self.methods[name]
        return load_scorer(method.scorer, **self.models.scorer_options(method))

    def score(self, corpus: str, names: Sequence[str]) -> None:
        """Scores a corpus by methods that share their forward passes, unless it is scored.

        Raises:
          FaithJaxError: see `faith_jax.runs.score.score`.
        """
        folder = self.folder / corpus
        folder.mkdir(exist_ok=True)
        for whole in folder.glob(f"*{_TOGETHER}*.jsonl"):
            if whole.is_file():
                self._take_apart(whole)
        missing = self.missing(corpus, names)
        if not missing:
            logger.info("%s: %s kept", corpus, ", ".join(names))
            return
        logger.info("%s: scoring by %s", corpus, ", ".join(missing))
        path = folder / f"{_TOGETHER.join(missing)}.jsonl"
        told = {n: self.models.scorer_options(self.methods[n]) for n in missing}
        score(corpus_input(corpus, self.sample), told, str(path), load=lambda n, **_: self.load(n))
        if len(missing) > 1:
            self._take_apart(path)

    def _take_apart(self, whole: pathlib.Path) -> None:
        """Writes a file for each method of one that has several."""
        rows = [row for _, row in read_jsonl(str(whole))]
        for name in whole.stem.split(_TOGETHER):
            lines = []
            for row in rows:
                own = {
                    field: {name: row[field][name]} if name in row[field] else {}
                    for field in ("scores", "words", "cut_tokens", "cut")
                }
                lines.append(json.dumps(dict(row) | own, ensure_ascii=False) + "\n")
            path = whole.with_name(f"{name}.jsonl")
            if not path.exists():
                write_text(path, "".join(lines))
        whole.unlink()

    def corpus(self, corpus: str) -> Corpus:
        """Returns a corpus with the scores of all methods, in order.

        Raises:
          InputError: for files of different rows.
        """
        paths = [self.path(corpus, name) for name in self.methods]
        joined = read_corpora({str(path): read_scored_rows(path) for path in paths})
        if len(joined) != 1:
            raise InputError(
                f"{self.folder / corpus}: expected rows of one corpus, got {', '.join(joined)}."
            )
        return dataclasses.replace(next(iter(joined.values())), name=corpus)

    def _at_hand(self, corpora: Sequence[str]) -> dict[str, str]:
        """Returns the state of the rows by corpus, "" where nothing is left to score."""
        found, problems = dict[str, str](), []
        for corpus in dict.fromkeys(corpora):
            try:
                found[corpus] = self._rows_state(corpus) if self.missing(corpus) else ""
            except InputError as problem:
                reason = str(problem).partition(". ")[0]
                logger.warning("%s is left out: %s", corpus, reason)
                problems.append(problem)
        if not found:
            raise problems[0]
        return found

    def _rows_state(self, corpus: str) -> str:
        """Returns what changes with a corpus's rows, and refuses kept scores of others."""
        digest = hashlib.sha256()
        for row in corpus_input(corpus, self.sample).rows(BadRows()):
            example = row.example
            told = (example.id, example.grounding.texts, example.response, example.label)
            digest.update(repr(told).encode())
        state, path = f"{digest.hexdigest()[:16]}\n", self.folder / corpus / _ROWS
        kept = any(path.parent.glob("*.jsonl"))
        if kept and path.exists() and path.read_text(encoding="utf-8") != state:
            raise ConfigError(
                f"--output: {path.parent} keeps scores of other rows than {corpus} has now; name "
                "another folder, or remove it."
            )
        return state


def _difference(before: Any, now: Mapping[str, Any]) -> str:
    """Returns how settings differ, for people."""
    if not isinstance(before, dict):
        return "unknown ones"
    for field in ("scorer", "options", "models"):
        was, is_now = before.get(field), now[field]
        if field == "models" and was and list(was) == list(is_now) and was != is_now:
            return f"{', '.join(is_now)} has changed since"
        if was != is_now:
            return f"{field}: {was}, not {is_now}"
    return "others"
