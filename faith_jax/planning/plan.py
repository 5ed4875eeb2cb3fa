"""The job `plan`: a report of what a recipe needs on hardware that need not be present."""

import contextlib
import logging
import pathlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from faith_jax.core.errors import ConfigError, pluralize
from faith_jax.core.files import (
    ROWS,
    check_outputs,
    output_locks,
    report_write_errors,
    resumable_output,
    write_json,
)
from faith_jax.core.files.stores import path_of
from faith_jax.planning import sweep as sweeps
from faith_jax.planning.compiled_costs import Roofline
from faith_jax.planning.planner import CompilingProcess, Planner, keep_plans_in_file
from faith_jax.planning.sweep import Tried, settings_line
from faith_jax.planning.topologies import Chip, parse_topology
from faith_jax.planning.worker import PlanRequest, Recipe, RecipeFacts
from faith_jax.runs.options import PlanOptions

logger = logging.getLogger("faith_jax")

Report = dict[str, Any]
GIB = 2**30
_MOST_TRIED = 12  # other settings that are tried if the recipe does not fit


def plan(recipe: Recipe, options: PlanOptions) -> Report:
    """Plans a recipe, in a process of its own, and writes the report.

    Returns:
      The recipe's `plan` (see `compiled_costs.cost_report`), `tried` (a list of `settings`, as gin
      macros, and their `plan`) and `recommended`, the settings that `recommend` chooses: None if
      the recipe fits or nothing does. A sweep's `plan` is of the recommended settings, or None.

    Raises:
      ConfigError: the topology is unknown, the recipe cannot be planned or does not divide over it,
        or libtpu is missing.
      ProcessError: the compiler fails.
    """
    topology = parse_topology(options.topology)
    if options.sweep and topology.chip.memory is None:
        raise ConfigError(
            f"--sweep: the memory of {topology.name} is not known; name TPUs or GPUs with "
            "--topology."
        )
    check_outputs([], {"--json": options.json, "--figure": options.figure})
    with contextlib.ExitStack() as held:
        held.enter_context(output_locks({"--figure": options.figure}))
        process = held.enter_context(CompilingProcess(recipe, topology))
        planner: Planner = process
        if options.json:
            run = {"topology": topology.name, **process.facts._asdict()}
            target = path_of(options.json)
            partial_output = resumable_output(
                target, run, restart=options.restart, replaces=True, option="--json"
            )
            planner = keep_plans_in_file(planner, held.enter_context(partial_output) / ROWS)
        report, tried = report_of(planner, process.facts, topology.chip, options)
        if options.figure:
            from faith_jax.report.figures import save_pages

            drawn = sweeps.panels(tried, report["recommended"], options.free)
            path = pathlib.Path(options.figure)
            save_pages(drawn, sweeps.draw, path, columns=2, lines=1, size=(5.0, 3.6))
        if options.json:
            with report_write_errors(target):
                write_json(target, report)
    return report


def report_of(
    planner: Planner, facts: RecipeFacts, chip: Chip, options: PlanOptions
) -> tuple[Report, list[Tried]]:
    """Returns the report of `plan`, and the trials."""
    logger.info("Compiling for %s; a large model takes minutes", pluralize(facts.devices, "device"))
    first, tried = None, list[Tried]()
    tries: Iterator[Tried] = iter(())
    if options.sweep:
        tries = sweeps.sweep(planner, facts, chip, options.partitions, options.free)
    else:
        first = planner(PlanRequest())
        if not first["fits"]:
            logger.info("This does not fit; trying other settings")
            tries = sweeps.sweep(planner, facts, chip, (), options.free, first)
    for trial in tries:
        logger.info("%s: %s", settings_line(trial.choice), _summarize_plan(trial.plan))
        tried.append(trial)
        if first and (trial.free_share >= options.free or len(tried) == _MOST_TRIED):
            break
    recommended = sweeps.recommend(planner, tried, options.free)
    report = {
        "plan": recommended and recommended.plan if options.sweep else first,
        "tried": [
            {"settings": _to_gin_macros(trial.choice), "plan": trial.plan} for trial in tried
        ],
        "recommended": recommended and _to_gin_macros(recommended.choice),
    }
    return report, tried


def _to_gin_macros(choice: Mapping[str, Any]) -> dict[str, Any]:
    return {name.upper(): value for name, value in choice.items()}


def _summarize_plan(plan: Report) -> str:
    memory = plan["memory"]
    needs = f"{memory['total'] / GIB:.1f} of {memory['available'] / GIB:.1f} GiB"
    if not memory["is_whole"]:
        return f"the arguments alone take {needs}"
    if "work" not in plan:
        return f"{needs}, does not fit"
    return f"{needs}, {_format_duration(list(plan['work'].values())[-1]['roofline']['seconds'])}"


def lines(report: Report) -> Iterator[str]:
    """Yields a report as lines of text."""
    if plan := report["plan"]:
        mesh = ", ".join(f"{name} {size}" for name, size in plan["mesh"].items())
        devices = pluralize(plan["devices"], "device")
        yield f"{plan['job']} on {plan['topology']}: {devices} ({mesh})"
        settings_by_name = {
            name: "+".join(map(str, value.values())) if isinstance(value, Mapping) else value
            for name, value in plan["settings"].items()
        }
        yield "  " + ", ".join(f"{name} {value}" for name, value in settings_by_name.items())
        if plan["compiler"] == "CPU":
            yield "  (compiled for CPUs: a GPU's compiler needs other temporaries)"
        yield from _program_lines("", plan)
        for name, evaluation in plan.get("evaluations", {}).items():
            yield from _program_lines(f"{name.replace('_', ' ')}: ", evaluation)
    if tried := report["tried"]:
        yield ""
        yield "tried:"
        for trial in tried:
            settings = " ".join(f"{name}={value}" for name, value in trial["settings"].items())
            yield f"  {settings}: {_summarize_plan(trial['plan'])}"
    if recommended := report["recommended"]:
        yield f"recommended: {settings_line(recommended)}"
    elif tried:
        yield "Nothing that was tried fits: take more devices, or fewer or shorter rows."


def _program_lines(title: str, report: Report) -> Iterator[str]:
    yield f"{title}memory of a device"
    memory = report["memory"]
    for name, size in memory["arguments"].items():
        yield _format_row(name.replace("_", " "), _format_bytes(size))
    for name in ("outputs", "temporaries", "program"):
        if name in memory:
            yield _format_row(name, _format_bytes(memory[name]))
    yield _format_row("total", _format_bytes(memory["total"])) + (
        "" if memory["is_whole"] else "  (arguments alone)"
    )
    if "available" in memory:
        share = f"({100 * memory['free_share']:.0f}% of {memory['available'] / GIB:.2f} GiB)"
        yield _format_row("free", _format_bytes(memory["free"])) + f"  {share}"
    if not report["fits"]:
        yield "  DOES NOT FIT"
    for name, work in report.get("work", {}).items():
        yield f"{title}{name.replace('_', ' ')}, on each device"
        operations = _with_prefix(work["operations"], 1000, ("", "k", "M", "G", "T", "P"), "FLOP")
        yield _format_row("operations", operations)
        yield _format_row("bytes moved", _format_bytes(work["bytes_moved"]))
        for collective in work["collectives"]:
            times = f"{collective['count']:,.0f} time{'' if collective['count'] == 1 else 's'}"
            sent = f" sent over {collective['axes']}, {times}"
            if not collective["bytes_per_second"]:
                sent += " (not in the time: the speed is not known)"
            yield _format_row(collective["kind"], _format_bytes(collective["sent_bytes"])) + sent
        if line := work.get("roofline"):
            parts = (
                f"{part} {_format_duration(line[f'{part}_seconds'])}" for part in Roofline._fields
            )
            yield (
                _format_row("at least", _format_duration(line["seconds"]))
                + f"  ({', '.join(parts)})"
            )
            yield _format_row("bottleneck", f"{line['bottleneck']:>12}")
    if "compile_seconds" in report:
        yield f"compiled in {report['compile_seconds']:.0f} s"


def _format_row(name: str, value: str) -> str:
    return f"  {name:<20}{value:>12}"


def _format_bytes(size: float) -> str:
    return _with_prefix(size, 1024, ("", "Ki", "Mi", "Gi", "Ti"), "B")


def _format_duration(seconds: float) -> str:
    return f"{seconds:.3g} s" if seconds >= 1 else f"{1000 * seconds:.3g} ms"


def _with_prefix(value: float, step: int, prefixes: Sequence[str], unit: str) -> str:
    """Returns a number with the largest prefix that keeps it at 1 or more."""
    place = 0
    while abs(value) >= step and place < len(prefixes) - 1:
        value, place = value / step, place + 1
    return f"{value:.{0 if place == 0 else 2}f} {prefixes[place]}{unit}"
