"""The run `describe`: computes the papers' statistics for a data set."""

import pathlib
from collections.abc import Iterator
from typing import Any

import tensorflow_datasets as tfds

from faith_jax.core.errors import ConfigError, InputError
from faith_jax.core.files import check_outputs
from faith_jax.core.rows import BadRows
from faith_jax.datasets import task_data
from faith_jax.datasets.builders.base import prepare_builder
from faith_jax.datasets.raw.true_benchmark import CORPORA
from faith_jax.datasets.raw.wizard_of_wikipedia import read_turns
from faith_jax.input.numpy_examples import plain
from faith_jax.report.figures import save_figure
from faith_jax.report.table_pages import render_table
from faith_jax.runs.data.tasks import builder_of
from faith_jax.statistics import dataset_statistics as tables
from faith_jax.statistics.dataset_statistics import Splits

# Data sets whose examples are turns of dialogues.
_DIALOGUES = ("cmu_dog", "multidoc2dial", "topical_chat", "wizard_of_wikipedia")
# Data sets whose examples are claims with labels.
_CLAIMS = ("dialfact", "vitaminc", "fever", "colloquial_claims")
# Data sets of groundings and responses with labels.
_JUDGED = (
    *("faithbench", "halueval", "llm_aggrefact", "ragtruth", "summedits", "tofueval", "wice"),
    "true_benchmark",
)
# The fields by which the examples of each data set are counted.
_COUNTED = {
    **dict.fromkeys(_JUDGED, ("corpus", "label")),
    "faithbench": ("worst_label", "label"),
    "begin": ("source", "begin_label"),
    "begin_2021": ("begin_label",),
    "cmu_dog": ("film",),
    "decode": ("label",),
    **dict.fromkeys(_CLAIMS, ("response_label",)),
    "dialfact": ("response_label", "type_label", "data_type"),
    "dialfact_evidence": ("kind", "label"),
    "dialogue_nli": ("pair_type", "label"),
    "faith_critic": ("source", "label"),
    "faithdial_audit": ("begin_labels",),
    "labelled_responses": ("label",),
    "multidoc2dial": ("domain", "dialogue_act"),
    "nli": ("label",),
    "npov_detection": ("error",),
    "npov_errors": ("error",),
    "procon_npov": ("topic",),
    "text_to_text": (),
    "topical_chat": ("config",),
    "wizard_of_wikipedia": ("wizard_eval",),
}


def describe(
    name: str,
    data_dir: str | None = None,
    raw_folder: str | None = None,
    plot: str | None = None,
    wow: str | None = None,
) -> Iterator[str]:
    """Yields the lines of a data set's tables; `name`, `data_dir` and `raw_folder` as in `prepare`.

    `true_benchmark` without a config describes every corpus that is available. `plot` is a PNG file
    for density over coverage of every response, `wow` a folder with Wizard of Wikipedia's files.
    """
    check_outputs([], {"--plot": plot or ""})
    builder, config = builder_of(name)
    if wow and builder.name != "faithdial":
        raise ConfigError(f"--wow: goes with faithdial, whose edits are counted, not with {name}.")
    before = None  # utterances of Wizard of Wikipedia's Seekers
    if wow:
        folder = pathlib.Path(wow)
        files = sorted(folder.glob("*.json"))
        if not files:
            raise ConfigError(f"--wow: {folder}: expected Wizard of Wikipedia's .json files in it.")
        before = tables.said_before(turn for file in files for turn in read_turns(file, BadRows()))
    data_dir = data_dir or task_data.data_dir()
    if name in ("true_benchmark", "true_benchmark/sample"):
        corpora, errors = {}, []
        for corpus in CORPORA:
            part = f"{corpus}_sample" if name.endswith("/sample") else corpus
            try:
                dataset = prepare_builder(builder, part, data_dir, raw_folder, fetch=False)
            except InputError as error:
                errors.append(error)
            else:
                corpora[corpus] = _load_examples(dataset, "test")
        if not corpora:
            raise errors[0]
        yield render_table(tables.true_table(corpora)).rstrip("\n")
        return
    dataset = prepare_builder(builder, config, data_dir, raw_folder)
    splits = {split: _load_examples(dataset, split) for split in dataset.info.splits}
    selected = []
    if builder.name in _DIALOGUES:
        selected.append(tables.dialogue_table(builder.name, splits))
    if builder.name == "faithdial":
        turns = [example for examples in splits.values() for example in examples]
        selected.append(tables.faithdial_table(splits, before))
        selected.append(tables.share_by_class({"Wizard of Wikipedia": turns}))
    else:
        fields = _COUNTED[builder.name]
        title = f"{builder.name}: examples" + (f" by {', '.join(fields)}" if fields else "")
        selected.append(tables.count_table(title, splits, fields))
    if builder.name == "faithdial_audit":
        selected.append(tables.share_by_class(splits))
    if builder.name in _CLAIMS:
        claims = [example for examples in splits.values() for example in examples]
        selected.append(tables.bias_table(claims, "response", "response_label"))
    if knowledge_of := _KNOWLEDGE.get(builder.name):
        selected.append(tables.extractiveness_table(splits, _read_response, knowledge_of))
    for table in selected:
        yield render_table(table).rstrip("\n")
        yield ""
    if plot:
        yield _plot_extractiveness(builder.name, splits, pathlib.Path(plot))


def _read_response(example: Any) -> str:
    return example.get("response") or example["generated_text"]


_KNOWLEDGE = {
    **dict.fromkeys(
        ("begin", "begin_2021", "faithdial", "faith_critic", "labelled_responses", *_DIALOGUES),
        lambda example: example["knowledge"],
    ),
    **dict.fromkeys(_CLAIMS, lambda example: " ".join(example["evidence"])),
    "procon_npov": lambda e: " ".join([*e["pro_arguments"], *e["con_arguments"]]),
    **dict.fromkeys(_JUDGED, lambda example: example["grounding"]),
}


def _load_examples(builder: tfds.core.DatasetBuilder, split: str) -> list[dict[str, Any]]:
    rows = tfds.as_numpy(builder.as_dataset(split=split, shuffle_files=False))
    return [
        {name: plain(value) for name, value in row.items() if not name.startswith("passage_")}
        for row in rows  # the passages of Wizard of Wikipedia are gigabytes that no table needs
    ]


def _plot_extractiveness(name: str, splits: Splits, path: pathlib.Path) -> str:
    """Draws density over coverage, with one panel per split; returns the file's path."""
    if name not in _KNOWLEDGE:
        raise ConfigError(f"--plot: {name} has no knowledge that a response could copy.")
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    from faith_jax.statistics.texts.text_metrics import extractiveness

    figure, axes = pyplot.subplots(1, len(splits), figsize=(4 * len(splits), 3.5), squeeze=False)
    for panel, (split, examples) in zip(axes[0], splits.items(), strict=True):
        measures = [extractiveness(_read_response(e), _KNOWLEDGE[name](e)) for e in examples]
        panel.scatter(
            [f.coverage for f in measures], [f.density for f in measures], s=12, alpha=0.4
        )
        panel.set(xlabel="coverage", ylabel="density", title=f"{split} ({len(measures):,})")
        panel.set_xlim(-0.02, 1.02)
    figure.suptitle(f"Extractiveness of {name}")
    save_figure(figure, path)
    return str(path)
