"""Raw files of tests, and the samples' own."""

import json
import shutil

from faith_jax.datasets.builders.catalogue import BUILDERS
from faith_jax.datasets.raw_files import sample_files

# All data sets that have a sample, by the sample's name.
SAMPLES = {
    f"{builder.name}/{config.name}": config.dataset
    for builder in BUILDERS.values()
    for config in builder.builder_configs.values()
    if config.sample
}


def json_lines(rows):
    return "".join(json.dumps(row) + "\n" for row in rows)


def read(dataset, split, folder, *contents, bad_rows=None):
    """Writes the files of a split, in their order, and returns its examples.

    A content is a text or a JSON value; in a file of JSON lines it is a list of rows.
    """
    paths = {}
    for name, content in zip(dataset.splits[split], contents, strict=True):
        if not isinstance(content, str):
            content = json_lines(content) if name.endswith(".jsonl") else json.dumps(content)
        paths[name] = folder / name
        paths[name].parent.mkdir(parents=True, exist_ok=True)
        paths[name].write_bytes(content.encode())
    return list(dataset.examples(paths, split, bad_rows))


def copy_sample(dataset, split, folder):
    """Copies the files of a sample's split; returns their paths by name."""
    paths = {}
    for name in dataset.splits[split]:
        source, paths[name] = sample_files(dataset)[name], folder / name
        paths[name].parent.mkdir(parents=True, exist_ok=True)
        copy = shutil.copytree if source.is_dir() else shutil.copyfile
        copy(source, paths[name])
    return paths
