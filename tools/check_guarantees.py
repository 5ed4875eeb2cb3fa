"""Checks the guarantees of `faith-jax calibrate` by simulation: how often are they broken?

Draws calibrations from worlds with known risks, finds the thresholds of each, and applies them to
200,000 new responses. It measures in how many calibrations the share of unfaithful responses among
the accepted ones is above the target (Learn-then-Test; aim: at most 5%), and which share of all
responses is accepted and unfaithful on average (conformal risk control; aim: at most the target).
In the last worlds the groups are not exchangeable with the new ones, and the guarantees fail.

    python tools/check_guarantees.py                  # 4,000 calibrations each, half a minute
    python tools/check_guarantees.py --draws=1000
    python tools/check_guarantees.py --markdown=table.md
"""

import argparse
import math
import pathlib
import sys
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from faith_jax.core.table import Table
from faith_jax.report.table_pages import render_table
from faith_jax.statistics.calibration.guarantees import (
    controlling_threshold,
    one_row_of_each,
    safe_thresholds,
)

Floats = NDArray[np.float64]
_TARGET, _LEVEL = 0.1, 0.05
_NEW = 200_000


class World(NamedTuple):
    """A distribution of responses.

    Attributes:
      name: the world's name in the table.
      groups: the number of groups in a calibration.
      size: rows in each group; 0 = a geometric number with mean three.
      step: scores are rounded up to multiples of this; 0 = no ties.
      faithful: the share of faithful responses.
      effect: how much higher the scores of faithful responses are, in standard deviations.
      new_faithful: the share of faithful ones among new responses.
      new_shift: how much higher all scores of new responses are, in standard deviations.
      ignores_groups: whether rows are treated as independent.
    """

    name: str
    groups: int = 400
    size: int = 1
    step: float = 0.0
    faithful: float = 0.7
    effect: float = 2.0
    new_faithful: float = 0.7
    new_shift: float = 0.0
    ignores_groups: bool = False

    def rows(
        self, generator: np.random.Generator, groups: int
    ) -> tuple[Floats, NDArray[np.bool_], NDArray[np.intp]]:
        """Returns the rows' scores, whether they are wrong, and their group numbers: [rows]."""
        sizes = np.full(groups, self.size) if self.size else generator.geometric(1 / 3, groups)
        units = np.repeat(np.arange(groups), sizes)
        # Rows of a group are alike: nine of ten have the label of their group.
        of_group = generator.random(groups) >= self.faithful
        has_own_draw = generator.random(units.size) >= self.faithful
        is_wrong = np.where(generator.random(units.size) < 0.9, of_group[units], has_own_draw)
        scores = 0.8 * generator.normal(size=groups)[units] + self.effect * ~is_wrong
        return self.rounded(scores + 0.6 * generator.normal(size=units.size)), is_wrong, units

    def new_rows(self, generator: np.random.Generator) -> tuple[Floats, NDArray[np.bool_]]:
        """Returns the scores of new rows, one per group, and whether they are wrong."""
        new = self._replace(size=1, step=0.0, faithful=self.new_faithful)
        scores, is_wrong, _ = new.rows(generator, _NEW)
        return self.rounded(scores + self.new_shift), is_wrong

    def rounded(self, scores: Floats) -> Floats:
        """Returns scores with the ties of this world."""
        return np.ceil(scores / self.step) * self.step if self.step else scores


WORLDS = (
    World("400 responses"),
    World("400 responses, ties", step=0.5),
    World("400 responses, a weak scorer", effect=0.5, faithful=0.895, new_faithful=0.895),
    World("150 groups of ten", groups=150, size=10),
    World("150 groups of unequal size", groups=150, size=0),
    World("150 groups of ten, ties", groups=150, size=10, step=0.5),
    World("broken: rows of 150 groups taken as independent", 150, 10, ignores_groups=True),
    World("broken: of new responses 50% are faithful, not 70%", new_faithful=0.5),
    World("broken: new scores are higher by half a deviation", new_shift=0.5),
)


class Measured(NamedTuple):
    """The outcome of a simulation, as shares in [0, 1].

    Attributes:
      broken: share of calibrations whose accepted responses are wrong more often than the target.
      accepting: share of calibrations that accept anything.
      accepted: mean share of accepted new responses.
      lost: mean share of new responses that conformal risk control accepts although wrong.
    """

    broken: float
    accepting: float
    accepted: float
    lost: float


def measured(world: World, draws: int, seed: int) -> Measured:
    """Applies the thresholds of `draws` calibrations to new responses."""
    generator = np.random.default_rng([seed, WORLDS.index(world)])
    scores, is_wrong = world.new_rows(generator)
    everything, wrong = np.sort(scores), np.sort(scores[is_wrong])
    tested, controlled = [], []
    for draw in range(draws):
        scores, is_wrong, units = world.rows(generator, world.groups)
        if world.ignores_groups:
            units = np.arange(units.size)
        rows = one_row_of_each(units, draw)
        thresholds = safe_thresholds(scores[rows], is_wrong[rows], _TARGET, _LEVEL, draw)
        tested.append(thresholds[-1] if thresholds.size else math.inf)
        controlled.append(controlling_threshold(scores, is_wrong, units, _TARGET))
    accepted = everything.size - np.searchsorted(everything, tested)
    failing = wrong.size - np.searchsorted(wrong, tested)
    lost = wrong.size - np.searchsorted(wrong, controlled)  # NaN accepts none and sorts last
    return Measured(
        float(np.mean(failing > _TARGET * accepted)),
        float(np.mean(accepted > 0)),
        float(np.mean(accepted)) / _NEW,
        float(np.mean(lost)) / _NEW,
    )


def table(worlds: Sequence[World], draws: int, seed: int) -> Table:
    """Returns the outcomes by world, and marks those that miss an aim by more than chance."""
    error = 3 * math.sqrt(_LEVEL * (1 - _LEVEL) / draws)
    rows = []
    for world in worlds:
        outcome = measured(world, draws, seed)
        marks = ("!" * (outcome.broken > _LEVEL + error), "!" * (outcome.lost > _TARGET + 0.002))
        cells = [f"{100 * share:.1f}" for share in outcome]
        cells[0], cells[3] = f"{cells[0]} {marks[0]}".strip(), f"{cells[3]} {marks[1]}".strip()
        rows.append((world.name, *cells))
    columns = ("world", "broken", "accepting", "accepted", "accepted and unfaithful")
    note = (
        f"{draws:,} calibrations each. Learn-then-Test: with {1 - _LEVEL:.0%} confidence, at most "
        f"{_TARGET:.0%} of the accepted responses are unfaithful: broken may be {_LEVEL:.0%}, give "
        f"or take {100 * error:.1f} points. The last column is of conformal risk control: at most "
        f"{_TARGET:.0%}. Marked (!) is what misses its aim."
    )
    return Table("Guarantees in simulation, in per cent", columns, tuple(rows), (note,))


def main(arguments: Sequence[str] | None = None) -> None:
    """Runs the simulation and prints its table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--draws", type=int, default=4000, help="calibrations of each world")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--world", default="", help="only worlds whose names hold this text")
    parser.add_argument("--markdown", type=pathlib.Path, help="also write the table here")
    options = parser.parse_args(arguments)
    worlds = [world for world in WORLDS if options.world in world.name]
    if options.draws < 1 or not worlds:
        names = ", ".join(world.name for world in WORLDS)
        sys.exit(f"--draws: expected a positive number; --world: part of one of {names}.")
    outcomes = table(worlds, options.draws, options.seed)
    print(render_table(outcomes))
    if options.markdown:
        options.markdown.write_text(render_table(outcomes, "markdown"), encoding="utf-8")


if __name__ == "__main__":
    main()
