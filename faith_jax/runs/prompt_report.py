"""The run `prompt-report`: the health of prompt-tuned runs as text, JSON, a page and a picture."""

import json
import pathlib
from collections.abc import Sequence

from faith_jax.core.errors import ConfigError
from faith_jax.core.files import check_endings, check_outputs, write_text
from faith_jax.report.figures import save_curves
from faith_jax.report.prompts import (
    PromptReport,
    all_tables,
    prompt_page,
    prompt_panels,
    report_figures,
    report_of,
)
from faith_jax.report.tables import rendered
from faith_jax.runs.prompt_runs import RunReader


def prompt_report(
    sources: Sequence[str],
    nearest: int = 3,
    html: str = "",
    png: str = "",
    json_path: str = "",
) -> str:
    """Returns the report as text, and writes it in other forms.

    Args:
      sources: prompt-tuned runs: a MODEL_DIR (its newest step), one of its steps, or another
        checkpoint with a soft prompt.
      nearest: how many vocabulary pieces are named beside each vector.
      html: a page to write; "" = none.
      png: a picture of the curves to write; "" = none.
      json_path: a file of all figures to write; "" = none.

    Raises:
      CheckpointError: on a run that cannot be read, or has no prompt.
      ConfigError: on wrong options, and outputs that cannot be written.
    """
    if nearest < 1:
        raise ConfigError(f"--nearest: expected 1 or more, got {nearest}.")
    doubles = {source for source in sources if list(sources).count(source) > 1}
    if doubles:
        raise ConfigError(f"{min(doubles)}: is given twice.")
    check_outputs(sources, {"--html": html, "--png": png, "--json": json_path})
    check_endings({"--png": png}, ".png")
    check_endings({"--html": html}, ".html")
    report = make_report(sources, nearest)
    panels = prompt_panels(report.runs)
    if png and not panels:
        raise ConfigError(f"--png: {', '.join(sources)}: there are no metrics to draw.")
    if html:
        names = ", ".join(pathlib.Path(source).name for source in sources)
        write_text(html, prompt_page(f"Prompts of {names}", report))
    if png:
        save_curves(panels, pathlib.Path(png))
    if json_path:
        text = json.dumps(report_figures(report), indent=1, ensure_ascii=False, allow_nan=False)
        write_text(json_path, text + "\n")
    return _text(report)


def make_report(sources: Sequence[str], nearest: int = 3) -> PromptReport:
    """Reads runs and compares them; arguments are those of `prompt_report`."""
    reader = RunReader(nearest)
    return report_of([reader.read(source) for source in sources])


def _text(report: PromptReport) -> str:
    parts = [rendered(table) for table in all_tables(report)]
    warnings = "".join(f"! {line}\n" for line in report.all_warnings())
    return "\n".join([*parts, f"Warnings\n{warnings or 'None.'}\n"]).rstrip("\n")
