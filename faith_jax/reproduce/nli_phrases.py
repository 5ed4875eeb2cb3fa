"""Steen 2023, table 5, in one run: does it matter which phrases a classifier is trained on?

The output folder has the scores of Base in `no_augmentation`, perhaps those of the model trained on
all phrases in `augmented`, and a folder for each draw: its training (`run`) and its scores
(`scores`). A further run with the same settings keeps all of it; a training that was stopped goes
on from its checkpoint.
"""

import logging
import math
import pathlib
from collections.abc import Iterator, Mapping, Sequence

from faith_jax.core.errors import counted
from faith_jax.core.files import made_folder
from faith_jax.datasets.raw.true_benchmark import AVERAGED
from faith_jax.reproduce.nli_draws import (
    PhraseOptions,
    check_settings,
    check_task,
    draw_folder,
    trained_draw,
)
from faith_jax.reproduce.nli_methods import ALL_OF_BASE, BASE, NLI_PHRASES, ModelOptions
from faith_jax.reproduce.nli_scores import Cells
from faith_jax.reproduce.nli_tables import phrase_table
from faith_jax.reproduce.published_nli import AVERAGE
from faith_jax.reproduce.table_files import write_tables
from faith_jax.scoring.pair_classifier import forget_classifiers
from faith_jax.statistics.dataset_statistics import Table
from faith_jax.statistics.roc import roc_auc
from faith_jax.statistics.scored_corpora import check_usable

__all__ = ["PhraseOptions", "nli_phrases"]

logger = logging.getLogger("faith_jax")

_METHOD = "e_minus_c_mc"


def nli_phrases(options: PhraseOptions, output: str) -> str:
    """Trains, scores, writes the table as nli_phrases.md, .tex, .csv and .json, and returns it.

    Args:
      options: see there.
      output: the folder; with samples, the table's files are named nli_phrases_sample.

    Raises:
      Stopped: after a SIGTERM in training, when the state is saved.
      FaithJaxError: for a wrong option or checkpoint, for a folder with draws of other settings or
        scores of other rows, and where no corpus is at hand.
    """
    folder = made_folder(output)
    check_task(options.task)
    check_settings(folder, options)
    base = _cells(folder / "no_augmentation", options.models.models[BASE]["model"], options)
    corpora = base.begin(options.corpora)
    no_augmentation = _areas(base, corpora)
    augmented: dict[str, float] = {}
    if "augmented" in options.models.models:
        given = options.models.models["augmented"]
        cells = _cells(folder / "augmented", given["model"], options, given)
        cells.begin(corpora)
        augmented = _areas(cells, corpora)
    draws = [_draw(folder, number, corpora, options) for number in range(options.draws)]
    both = {c: [no_augmentation[c], *(draw[c] for draw in draws)] for c in corpora}
    averaged = [c for c in corpora if c in AVERAGED and not any(map(math.isnan, both[c]))]
    columns = [*corpora, *([AVERAGE] if len(averaged) > 1 else [])]
    with_average = [
        _with_average(areas, averaged) for areas in (no_augmentation, augmented, *draws)
    ]
    plain, original, *drawn = with_average
    table = phrase_table(
        {c: [draw[c] for draw in drawn] for c in columns},
        plain,
        original,
        averaged,
        not options.sample,
    )
    return _written(folder, table, averaged, options)


def _written(
    folder: pathlib.Path, table: Table, averaged: Sequence[str], options: PhraseOptions
) -> str:
    title = "Robustness to the choice of dialogue phrases (Steen 2023)"
    if options.sample:
        title = f"SAMPLES, not the paper's data: {title}"
    figures = {
        "sample": options.sample,
        "settings": options.settings(),
        "phrases": [list(options.phrases_of(number)) for number in range(options.draws)],
    }
    path = folder / (f"{NLI_PHRASES}_sample" if options.sample else NLI_PHRASES)
    return write_tables(path, title, tuple(_notes(averaged, options)), [table], figures)


def _cells(
    folder: pathlib.Path,
    model: str,
    options: PhraseOptions,
    given: Mapping[str, object] | None = None,
) -> Cells:
    """Returns the scores of a model by e-c with Monte-Carlo dropout."""
    base = dict(given or options.models.models[BASE]) | {"model": model}
    models = ModelOptions({BASE: base}, options.models.dropout_passes, options.models.seed)
    return Cells(folder, {_METHOD: ALL_OF_BASE}, models, options.sample)


def _draw(
    folder: pathlib.Path, number: int, corpora: Sequence[str], options: PhraseOptions
) -> dict[str, float]:
    """Returns the AUC of a draw by corpus; trains and scores what is missing."""
    own = draw_folder(folder, number)
    cells = _cells(own / "scores", str(own / "run"), options)
    if any(cells.missing(corpus) for corpus in corpora):
        made_folder(own)
        forget_classifiers()  # training needs the room
        cells = _cells(own / "scores", trained_draw(own, number, options), options)
        cells.begin(corpora)
    else:
        logger.info("%s is kept", own)
    return _areas(cells, corpora)


def _areas(cells: Cells, corpora: Sequence[str]) -> dict[str, float]:
    """Returns the AUC by corpus, NaN where a class is missing; scores what is not scored yet."""
    found = {}
    for corpus in corpora:
        cells.score(corpus, list(cells.methods))
        scored = cells.corpus(corpus)
        check_usable({corpus: scored})
        part = scored.part(scored.usable())
        found[corpus] = roc_auc(part.scores[_METHOD], part.labels)
    forget_classifiers()
    return found


def _with_average(areas: Mapping[str, float], averaged: Sequence[str]) -> dict[str, float]:
    if not areas or len(averaged) < 2:
        return dict(areas)
    return {**areas, AVERAGE: sum(areas[c] for c in averaged) / len(averaged)}


def _notes(averaged: Sequence[str], options: PhraseOptions) -> Iterator[str]:
    """Yields what the figures are of."""
    steps = f"{counted(options.train_steps, 'step')} of {counted(options.batch_size, 'row')}"
    yield (
        f"base: {options.models.models[BASE]['model']}, trained {counted(options.draws, 'time')} "
        f"on {options.task} with {options.phrases} of the paper's ten phrases, {steps}, peak "
        f"learning rate {options.learning_rate:g}; the checkpoint with the lowest validation loss "
        "counts."
    )
    yield (
        f"Scores: e-c, the mean over k = {options.models.dropout_passes} Monte-Carlo dropout "
        "masks. std: of a sample (n - 1); no augmentation: base without this training."
    )
    if "augmented" in options.models.models:
        model = options.models.models["augmented"]["model"]
        yield f"from all: the average less the AUC of {model}, scored likewise."
    if len(averaged) > 1:
        yield f"Averages are over {', '.join(averaged)}."
