"""Which settings fit, and which of them are the fastest: a sweep over partitions.

For each number of partitions, the settings that need less and less memory are tried, the fastest
first, until one fits: rematerialisation, states split over "model", pieces of a batch, and at last
parameters split over "data".
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from faith_jax.core.errors import ConfigError, counted
from faith_jax.runs.planning.planner import Planner

Report = dict[str, Any]
GIB = 2**30
_REMAT = ("none", "minimal", "full")
_MOST_MICROBATCHES = 64


class Tried(NamedTuple):
    """A choice and its plan.

    Attributes:
      choice: settings in place of the recipe's.
      plan: see `compiled_costs.cost_report`; with `error` alone, where a choice is none.
    """

    choice: Mapping[str, Any]
    plan: Report

    @property
    def free_share(self) -> float:
        """Of the memory; -inf where it is not known whether it fits."""
        return self.plan.get("memory", {}).get("free_share", float("-inf"))

    @property
    def seconds(self) -> float:
        """Of the whole program by the roofline; inf where it was not compiled."""
        parts = self.plan.get("work")
        return list(parts.values())[-1]["roofline"]["seconds"] if parts else float("inf")


def partition_counts(plan: Report) -> list[int]:
    """Returns the numbers of partitions that divide devices, and leave each a row of a batch."""
    devices, rows = plan["devices"], plan["settings"]["BATCH_SIZE"]
    return [n for n in range(1, devices + 1) if devices % n == 0 and rows % (devices // n) == 0]


def choices(plan: Report, partitions: int) -> Iterator[dict[str, Any]]:
    """Yields the settings to try with so many partitions, those that need less memory later."""
    data = plan["devices"] // partitions
    for dims in (1, 2) if data > 1 else (1,):
        base: dict[str, Any] = {"num_partitions": partitions}
        base |= {"parameter_partitioning_dims": dims}
        if plan["job"] != "train":
            yield base
            continue
        policies = _REMAT
        yield from ({**base, "num_microbatches": 1, "remat_policy": name} for name in policies)
        base |= {"remat_policy": "full"}
        if partitions > 1:
            base |= {"activation_partitioning_dims": 2}
            yield {**base, "num_microbatches": 1}
        pieces = 2
        while pieces <= min(plan["settings"]["BATCH_SIZE"] // data, _MOST_MICROBATCHES):
            if plan["settings"]["BATCH_SIZE"] % (pieces * data) == 0:
                yield {**base, "num_microbatches": pieces}
            pieces *= 2


def needs_less(choice: Mapping[str, Any], plan: Report) -> bool:
    """Whether a choice with a plan's own number of partitions keeps less in memory."""
    policy, own = choice.get("remat_policy"), plan["settings"].get("REMAT_POLICY")
    return (
        choice["parameter_partitioning_dims"] == 2
        or choice.get("activation_partitioning_dims") == 2
        or (policy is not None and _REMAT.index(policy) > _REMAT.index(own))
    )


def sweep(
    ask: Planner,
    first: Report,
    partitions: Sequence[int],
    least_free: float,
    only_smaller: bool = False,
) -> Iterator[Tried]:
    """Yields what is tried, for each number of partitions up to the first choice that fits.

    Args:
      ask: makes plans.
      first: the plan of the recipe as it is.
      partitions: numbers of them.
      least_free: share of the memory that must be left.
      only_smaller: not what cannot need less than the recipe, with its number of partitions or
        more of them.

    Raises:
      ConfigError: for a number of partitions that cannot be tried, and for a chip of unknown
        memory.
    """
    if "available" not in first["memory"]:
        raise ConfigError(
            f"--sweep: the memory of {first['topology']} is not known; name TPUs or GPUs with "
            "--topology."
        )
    possible = partition_counts(first)
    own = first["mesh"]["model"]
    numbers = [n for n in possible if n >= own] if only_smaller else possible
    for number in partitions or numbers:
        if number not in possible:
            raise ConfigError(
                f"--partitions: {number} is not among the numbers that divide "
                f"{counted(first['devices'], 'device')} and leave each a row of a batch of "
                f"{first['settings']['BATCH_SIZE']}: {', '.join(map(str, possible))}."
            )
        arguments: dict[int, int] = {}
        for choice in choices(first, number):
            if only_smaller and number == own and not needs_less(choice, first):
                continue
            dims = choice["parameter_partitioning_dims"]
            if arguments.get(dims, 0) > first["memory"]["available"]:
                continue  # what does not fit without any activation
            tried = Tried(choice, ask(choice))
            arguments[dims] = sum(tried.plan["memory"]["arguments"].values())
            yield tried
            if tried.free_share >= least_free:
                break


def recommended(tried: Sequence[Tried], least_free: float) -> Tried | None:
    """Returns the fastest with enough memory left, or else what leaves most; None = none fits."""
    roomy = [one for one in tried if one.free_share >= least_free]
    if roomy:
        return min(roomy, key=lambda one: one.seconds)
    fitting = [one for one in tried if one.plan.get("fits")]
    return max(fitting, key=lambda one: one.free_share, default=None)


def settings_line(choice: Mapping[str, Any]) -> str:
    """Returns settings as options of the command line."""
    return " ".join(f"--gin.{name.upper()}={value}" for name, value in choice.items())


class Panel(NamedTuple):
    """A bar for each number of partitions.

    Attributes:
      title: of the panel.
      quantity: of the bars, with its unit.
      bars: by number of partitions.
      limit: a line across them; None = none.
      chosen: the number of partitions that is recommended; None = none.
    """

    title: str
    quantity: str
    bars: Mapping[int, float]
    limit: float | None
    chosen: int | None


def panels(tried: Sequence[Tried], chosen: Tried | None) -> list[Panel]:
    """Returns step time and memory over partitions, of the last choice tried with each number."""
    last = {one.choice["num_partitions"]: one for one in tried}
    number = chosen.choice["num_partitions"] if chosen else None
    if chosen is not None and number is not None:
        last[number] = chosen
    times = {n: one.seconds for n, one in last.items() if one.seconds < float("inf")}
    memory = {n: one.plan["memory"]["total"] / GIB for n, one in last.items()}
    available = next(iter(last.values())).plan["memory"]["available"] / GIB
    return [
        Panel("time of a step, at least", "seconds", times, None, number),
        Panel("memory of a device", "GiB", memory, available, number),
    ]


def draw(axes: Any, panel: Panel) -> None:
    """Draws a panel on axes of Matplotlib's; what is recommended is dark."""
    places = list(range(len(panel.bars)))
    colours = ["#0072b2" if n == panel.chosen else "#a6cee3" for n in panel.bars]
    axes.bar(places, list(panel.bars.values()), color=colours)
    axes.set_xticks(places, [f"{number}" for number in panel.bars])
    axes.set(title=panel.title, xlabel="NUM_PARTITIONS", ylabel=panel.quantity)
    if panel.limit is not None:
        axes.axhline(panel.limit, color="#d55e00", linewidth=1.5, label="available")
        axes.legend(fontsize="small")
