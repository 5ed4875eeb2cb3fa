"""Finds settings that fit in memory, and the fastest of them, by a sweep over partitions.

For each number of partitions, settings are tried in order of falling memory until one fits:
rematerialisation, states split over "model", microbatches, and at last parameters split over
"data". Once one fits, more rematerialisation is tried as long as it saves time, because values that
are not kept need not be written and read.
"""

import logging
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from faith_jax.core.errors import ConfigError, pluralize
from faith_jax.planning.planner import Planner
from faith_jax.planning.topologies import Chip, partition_counts
from faith_jax.planning.worker import PlanRequest, RecipeFacts

logger = logging.getLogger("faith_jax")

Report = dict[str, Any]
GIB = 2**30
_REMAT = ("none", "minimal", "full")
_MOST_MICROBATCHES = 64


class Tried(NamedTuple):
    """A choice of settings in place of the recipe's, and its `compiled_costs.cost_report`."""

    choice: Mapping[str, Any]
    plan: Report

    @property
    def free_share(self) -> float:
        """The free share of a device's memory; below 0 if the choice does not fit."""
        return self.plan["free_share"]

    @property
    def seconds(self) -> float:
        """The roofline time of a step or batch; inf if it was not compiled."""
        parts = self.plan.get("work")
        return list(parts.values())[-1]["roofline"]["seconds"] if parts else float("inf")


def choices(facts: RecipeFacts, partitions: int) -> Iterator[dict[str, Any]]:
    """Yields the settings to try with a number of partitions, in order of falling memory."""
    data = facts.devices // partitions
    for dims in (1, 2) if data > facts.slices else (1,):
        base: dict[str, Any] = {"num_partitions": partitions}
        base |= {"parameter_partitioning_dims": dims}
        if facts.job != "train":
            yield base
            continue
        yield from ({**base, "num_microbatches": 1, "remat_policy": name} for name in _REMAT)
        base |= {"remat_policy": "full"}
        if partitions > 1:
            base |= {"activation_partitioning_dims": 2}
            yield {**base, "num_microbatches": 1}
        if facts.couples_rows:
            continue
        pieces = 2
        while pieces <= min(facts.rows // data, _MOST_MICROBATCHES):
            if facts.rows % (pieces * data) == 0:
                yield {**base, "num_microbatches": pieces}
            pieces *= 2


def least_seconds(facts: RecipeFacts, partitions: int, chip: Chip) -> float:
    """Returns the least seconds that `partitions` take to add up their states, using all links."""
    rows = facts.rows / (facts.devices // partitions)
    sent = 2 * (partitions - 1) / partitions * rows * facts.summed
    return sent / (chip.link * max(1, 2 * chip.axes)) if chip.link else 0.0


def _needs_less(choice: Mapping[str, Any], plan: Report) -> bool:
    """Whether a choice keeps less in memory than a plan with the same number of partitions."""
    policy, current = choice.get("remat_policy"), plan["settings"].get("REMAT_POLICY")
    return (
        choice["parameter_partitioning_dims"] == 2
        or choice.get("activation_partitioning_dims") == 2
        or (policy is not None and _REMAT.index(policy) > _REMAT.index(current))
    )


def sweep(
    planner: Planner,
    facts: RecipeFacts,
    chip: Chip,
    partitions: Sequence[int],
    least_free: float,
    too_large: Report | None = None,
) -> Iterator[Tried]:
    """Yields trials of choices, for each number of partitions up to a choice that fits.

    After it, further rematerialisation policies follow until one is not faster. A number of
    partitions is skipped if its communication alone takes longer than the fastest choice that fits.
    Evaluations are left out; `recommend` plans them.

    Args:
      planner: makes plans.
      facts: of the recipe.
      chip: of the devices.
      partitions: numbers to try; () = all possible ones. An impossible number is a ConfigError.
      least_free: the share of the memory that must be left.
      too_large: the plan of the recipe as it is, which does not fit. Fewer partitions than its own
        are skipped, and so are choices with its number that cannot need less memory.
    """
    possible = partition_counts(facts.devices, facts.slices, facts.rows)
    smallest, fastest = too_large["mesh"]["model"] if too_large else 0, float("inf")
    for number in partitions or [n for n in possible if n >= smallest]:
        if number not in possible:
            raise ConfigError(
                f"--partitions: {number} is not among the numbers that divide "
                f"{pluralize(facts.devices, 'device')} and leave each a row of a batch of "
                f"{facts.rows}: {', '.join(map(str, possible))}."
            )
        least = least_seconds(facts, number, chip)
        if least >= fastest:
            logger.info("NUM_PARTITIONS=%d takes at least %.3g s: not tried", number, least)
            continue
        fitting: Tried | None = None
        without_room = set()  # parameter_partitioning_dims whose arguments alone do not fit
        for choice in choices(facts, number):
            if too_large and number == smallest and not _needs_less(choice, too_large):
                continue
            dims = choice["parameter_partitioning_dims"]
            if dims in without_room:
                continue
            if fitting and {**choice, "remat_policy": ""} != {**fitting.choice, "remat_policy": ""}:
                break
            tried = Tried(choice, planner(PlanRequest(choice, evaluations=False)))
            memory = tried.plan["memory"]
            if sum(memory["arguments"].values()) > memory["available"]:
                without_room.add(dims)
            yield tried
            if tried.free_share >= least_free:
                fastest = min(fastest, tried.seconds)
                if fitting and tried.seconds >= fitting.seconds:
                    break
                fitting = tried


def recommend(planner: Planner, tried: Sequence[Tried], least_free: float) -> Tried | None:
    """Returns the fastest trial that leaves enough memory, or else the one that leaves the most.

    None = nothing fits. Plans training again with evaluations, which may need more than a step.
    """
    fitting = [trial for trial in tried if trial.plan["fits"]]
    fitting.sort(key=lambda trial: trial.free_share, reverse=True)
    roomy = [trial for trial in fitting if trial.free_share >= least_free]
    roomy.sort(key=lambda trial: trial.seconds)
    best = None
    for trial in roomy or fitting[:1]:
        if trial.plan["job"] == "train":
            trial = Tried(trial.choice, planner(PlanRequest(trial.choice)))
        if trial.plan["fits"] and (best is None or trial.free_share > best.free_share):
            best = trial
        if trial.free_share >= least_free:
            break
    return best


def settings_line(choice: Mapping[str, Any]) -> str:
    """Returns settings as command-line options."""
    return " ".join(f"--gin.{name.upper()}={value}" for name, value in choice.items())


class Panel(NamedTuple):
    """A bar for each number of partitions; `limit` is a line across them."""

    title: str
    quantity: str
    bars: Mapping[int, float]
    limit: float | None
    recommended: int | None


def panels(
    tried: Sequence[Tried], recommended: Mapping[str, Any] | None, least_free: float
) -> list[Panel]:
    """Returns panels of step time and memory over the number of partitions.

    Each bar shows the fastest choice that leaves a share of `least_free` of the memory, or else the
    last choice tried.
    """
    fastest: dict[int, Tried] = {}
    for trial in tried:
        before = fastest.get(trial.choice["num_partitions"])
        if (
            before is None
            or before.free_share < least_free
            or (trial.free_share >= least_free and trial.seconds < before.seconds)
        ):
            fastest[trial.choice["num_partitions"]] = trial
    number = recommended["NUM_PARTITIONS"] if recommended else None
    times = {n: trial.seconds for n, trial in fastest.items() if trial.seconds < float("inf")}
    memory = {n: trial.plan["memory"]["total"] / GIB for n, trial in fastest.items()}
    available = next(iter(fastest.values())).plan["memory"]["available"] / GIB
    return [
        Panel("time of a step, at least", "seconds", times, None, number),
        Panel("memory of a device", "GiB", memory, available, number),
    ]


def draw(axes: Any, panel: Panel) -> None:
    """Draws a panel on Matplotlib axes; the recommended bar is dark."""
    places = list(range(len(panel.bars)))
    colours = ["#0072b2" if n == panel.recommended else "#a6cee3" for n in panel.bars]
    axes.bar(places, list(panel.bars.values()), color=colours)
    axes.set_xticks(places, [f"{number}" for number in panel.bars])
    axes.set(title=panel.title, xlabel="NUM_PARTITIONS", ylabel=panel.quantity)
    if panel.limit is not None:
        axes.axhline(panel.limit, color="#d55e00", linewidth=1.5, label="available")
        axes.legend(fontsize="small")
