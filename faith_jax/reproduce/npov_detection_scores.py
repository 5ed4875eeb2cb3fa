"""Scores of the detection study's test sets by ROUGE, salience and classifiers, kept in files."""

import dataclasses
import json
import logging
import pathlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from faith_jax.core.errors import ConfigError
from faith_jax.core.kept_settings import checkpoint_state
from faith_jax.core.outputs import write_text
from faith_jax.core.rows import read_jsonl
from faith_jax.datasets.grounded_rows import Columns
from faith_jax.export.read_scored import read_scored_rows
from faith_jax.input.score_input import ScoreInput
from faith_jax.reproduce.npov_detection_data import SLICES, set_file
from faith_jax.reproduce.npov_responses import ERRORS, DetectionOptions
from faith_jax.runs.score import score
from faith_jax.scoring.base import BaseScorer
from faith_jax.scoring.registry import load_scorer
from faith_jax.statistics.npov_detection import AGGREGATIONS, salience_name
from faith_jax.statistics.scored_corpora import Corpus, read_corpora

logger = logging.getLogger("faith_jax")

_MODELS = "models.json"
_BATCH_SIZE = 32
_COLUMNS = Columns(
    grounding="pro=pro_arguments,con=con_arguments",
    response="response",
    history="query",
    label="",
    id="id",
)


@dataclasses.dataclass(frozen=True)
class Detector:
    """Scorers that are run together on a test set.

    Attributes:
      name: of their files.
      scorers: by the name that their scores get, the scorer and its options.
    """

    name: str
    scorers: Mapping[str, tuple[str, Mapping[str, Any]]]

    @property
    def models(self) -> dict[str, str]:
        """The checkpoints that they are of, with what changes with their files."""
        paths = {options.get("model", "") for _, options in self.scorers.values()} - {""}
        return {
            str(pathlib.Path(path).expanduser().absolute()): checkpoint_state(path)
            for path in sorted(paths)
        }

    def load(self, name: str) -> BaseScorer:
        """Returns the scorer of one of the names."""
        scorer, options = self.scorers[name]
        return load_scorer(scorer, **options)


def detectors_of(options: DetectionOptions) -> Iterator[Detector]:
    """Yields ROUGE, salience, and each classifier that is given."""
    rouge = (f"npov_rouge1_{error}" for error in ERRORS)
    yield Detector("rouge", {name: (name, {}) for name in rouge})
    given: dict[str, Any] = {"model": options.salience_model or options.model}
    if options.vocabulary and not options.salience_model:
        given["vocabulary"] = options.vocabulary
    salience = {
        salience_name(error, aggregation): (
            f"salience_{error}",
            given | {"aggregation": aggregation},
        )
        for aggregation in AGGREGATIONS
        for error in ERRORS
    }
    yield Detector("salience", salience)
    for error in ERRORS:
        for trained_on, path in options.models_of(error).items():
            name = "_".join(filter(None, (f"npov_{error}", trained_on)))
            yield Detector(name, {name: (f"npov_{error}", {"model": path})})


def check_kept(folder: pathlib.Path, options: DetectionOptions) -> None:
    """Refuses a folder with scores by other models.

    Raises:
      ConfigError: naming the detector.
    """
    known = _known_models(folder)
    for detector in detectors_of(options):
        there = any(folder.glob(f"*-{detector.name}.jsonl"))
        if there and known.get(detector.name, {}) != detector.models:
            was = ", ".join(known.get(detector.name, {})) or "none"
            now = ", ".join(detector.models)
            same = "which has changed since" if was == now else f"not {now}"
            raise ConfigError(
                f"--output: {folder} keeps scores of {detector.name} by another model ({was}, "
                f"{same}); name another folder, or remove these files."
            )


def _known_models(folder: pathlib.Path) -> dict[str, dict[str, str]]:
    try:
        found = json.loads((folder / _MODELS).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def scored_sets(
    folder: pathlib.Path, sets: pathlib.Path, options: DetectionOptions
) -> dict[str, Corpus]:
    """Returns the scored test sets by name; scores what is not scored yet.

    Args:
      folder: of the scored files.
      sets: of the test sets; those that are not there are left out.
      options: see there.
    """
    folder.mkdir(exist_ok=True)
    files: dict[str, Iterator[Mapping[str, Any]]] = {}
    for detector in detectors_of(options):
        known = _known_models(folder) | {detector.name: detector.models}
        write_text(folder / _MODELS, json.dumps(known, indent=1) + "\n")
        for name in SLICES:
            rows = set_file(sets, name)
            if not rows.exists():
                continue
            path = folder / f"{rows.stem}-{detector.name}.jsonl"
            _score(name, rows, path, detector)
            files[str(path)] = read_scored_rows(path)
    return read_corpora(files)


def _score(name: str, rows: pathlib.Path, path: pathlib.Path, detector: Detector) -> None:
    """Scores a test set unless the file has it; scores of other rows are made again."""
    is_other = path.exists() and not _is_of(path, rows)
    if is_other:
        logger.info("%s is of other rows than %s; scored again", path, rows)
        path.unlink()
    if path.exists():
        logger.info("%s is kept", path)
        return
    logger.info("%s: scoring by %s", name, detector.name)
    given = ScoreInput(file=str(rows), columns=_COLUMNS, corpus=name)
    scorers = {name: options for name, (_, options) in detector.scorers.items()}
    score(
        given,
        scorers,
        str(path),
        batch_size=_BATCH_SIZE,
        restart=is_other,
        load=lambda name, **_: detector.load(name),
    )


def _is_of(path: pathlib.Path, rows: pathlib.Path) -> bool:
    """Returns whether a scored file is of these rows, errors and spans included."""

    def told(fields: Mapping[str, Any]) -> list[str]:
        names = ("has_hallucination", "has_coverage_error", "hallucinated_spans", "added_argument")
        return [json.dumps(fields[name], ensure_ascii=False) for name in names]

    def given() -> Iterator[Sequence[Any]]:
        for _, row in read_jsonl(str(rows)):
            texts = [*row["pro_arguments"], *row["con_arguments"]]
            yield [row["id"], texts, row["response"], *told(row)]

    def scored() -> Iterator[Sequence[Any]]:
        for _, row in read_jsonl(str(path)):
            yield [row["id"], row["grounding"], row["generated_text"], *told(row["fields"])]

    return list(given()) == list(scored())
