"""The TFDS builder `procon_npov`: topics with pro and con arguments and NPOV responses.

- config `sample`: the sample embedded in the package; downloads nothing.
- config `full`: a folder in the raw NPOV format (`docs/data_formats.md`), placed by hand;
  `tools/prepare_procon.py` makes one from ProCon.org topic pages.

Importing this module registers the builder, so that
`tfds.load("procon_npov/sample", split="train")` works after it. `prepared_builder` does the same
with errors that name the remedy, and prepares the data again where the raw files have changed.
"""

import contextlib
import hashlib
import io
import json
import os
import pathlib
from collections.abc import Iterator
from typing import Any

import tensorflow_datasets as tfds
from absl import logging

from faith_jax.data import npov
from faith_jax.data.samples import sample_folder
from faith_jax.errors import InputError

NAME = "procon_npov"

_DESCRIPTION = """
Controversial topics in the form of the NPOV Response Task (Chang 2024): a leading question as
the query, pro and con arguments (the same number of both), and a response that verbalises
exactly these arguments. No topic is in two splits.
"""

_CITATION = """
@article{chang2024detecting,
  title = {Detecting Hallucination and Coverage Errors in Retrieval Augmented Generation for
           Controversial Topics},
  author = {Chang, Tyler A. and Tomanek, Katrin and Hoffmann, Jessica and Thain, Nithum and
            van Liemt, Erin and Meier-Hellstern, Kathleen and Dixon, Lucas},
  journal = {arXiv preprint arXiv:2403.08904},
  year = {2024},
}
"""


class ProconNpov(tfds.core.GeneratorBasedBuilder):
    """The TFDS builder; one example is one response with its query and arguments."""

    name = NAME
    # TFDS 4.9.10 finds this out with importlib_resources, which its package does not require.
    code_path = pathlib.Path(__file__)
    VERSION = tfds.core.Version("1.0.0")
    RELEASE_NOTES = {"1.0.0": "First release: 36 topics and 162 responses in the sample."}
    BUILDER_CONFIGS = [
        tfds.core.BuilderConfig(name="sample", description="The sample inside the package."),
        tfds.core.BuilderConfig(name="full", description="A folder of the user's own."),
    ]
    MANUAL_DOWNLOAD_INSTRUCTIONS = """
    The config `full` reads topics.jsonl and responses.jsonl from the folder procon_npov inside
    the manual folder (or from the manual folder itself). To make them from scraped ProCon.org
    topic pages, run in a checkout of faith_jax:
      python tools/prepare_procon.py PAGES_FOLDER --output MANUAL_FOLDER/procon_npov
    The manual folder is <data_dir>/downloads/manual unless set: with TFDS's default data_dir,
    ~/tensorflow_datasets/downloads/manual. The config `sample` needs nothing.
    """

    def _info(self) -> tfds.core.DatasetInfo:
        text = tfds.features.Text()
        return tfds.core.DatasetInfo(
            builder=self,
            description=_DESCRIPTION,
            citation=_CITATION,
            features=tfds.features.FeaturesDict(
                {
                    "id": text,
                    "topic": text,
                    "query": text,
                    "pro_arguments": tfds.features.Sequence(tfds.features.Text()),
                    "con_arguments": tfds.features.Sequence(tfds.features.Text()),
                    "response": text,
                }
            ),
            supervised_keys=None,
            disable_shuffling=True,  # the raw file's order; readers shuffle where they want it
            metadata=tfds.core.MetadataDict(),
        )

    def _split_generators(self, dl_manager: tfds.download.DownloadManager) -> dict[str, Any]:
        if self.builder_config.name == "sample":
            folder = sample_folder(NAME)
        else:
            folder = raw_folder(dl_manager.manual_dir)
        self.info.metadata["raw_sha256"] = raw_sha256(folder)
        examples = _examples_by_split(folder)
        return {split: self._generate_examples(rows) for split, rows in examples.items()}

    def _generate_examples(self, rows: list[dict[str, Any]]) -> Iterator[tuple[str, dict]]:
        for row in rows:
            yield row["id"], row


def _examples_by_split(folder: pathlib.Path) -> dict[str, list[dict[str, Any]]]:
    """Returns the examples of each split that has any."""
    topics = npov.load_topics(folder)
    responses = npov.load_responses(folder, topics)
    if not responses:
        raise InputError(
            f"{folder / npov.RESPONSES_FILE}: missing or empty; the data set's examples are "
            "responses: write some, or let tools/prepare_procon.py make them."
        )
    by_split = {
        split: list(npov.generation_examples(topics, responses, split)) for split in npov.SPLITS
    }
    return {split: rows for split, rows in by_split.items() if rows}


def raw_folder(manual_dir: str | os.PathLike) -> pathlib.Path:
    """Returns the raw format's folder: `manual_dir/procon_npov`, or `manual_dir` itself.

    Raises:
      InputError: where neither holds `topics.jsonl`.
    """
    folder = pathlib.Path(manual_dir)
    for candidate in (folder / NAME, folder):
        if (candidate / npov.TOPICS_FILE).is_file():
            return candidate
    raise InputError(
        f"{folder / NAME / npov.TOPICS_FILE}: no such file, nor {folder / npov.TOPICS_FILE}; make "
        f"it with `python tools/prepare_procon.py PAGES_FOLDER --output {folder / NAME}`."
    )


def raw_sha256(folder: pathlib.Path) -> str:
    """Returns a hash of the raw files' contents, hexadecimal."""
    digest = hashlib.sha256()
    for name in (npov.TOPICS_FILE, npov.RESPONSES_FILE):
        path = folder / name
        content = path.read_bytes() if path.exists() else b""
        digest.update(f"{name} {len(content)}\n".encode() + content)
    return digest.hexdigest()


def prepared_builder(
    config: str = "sample",
    data_dir: str | os.PathLike | None = None,
    manual_dir: str | os.PathLike | None = None,
) -> tfds.core.DatasetBuilder:
    """Returns the builder with its data prepared, making it where needed.

    Data that was prepared from other raw files (edited, or converted anew) is made again, so
    that a run never reads a stale copy.

    Args:
      config: "sample" or "full".
      data_dir: TFDS's data folder; None = TFDS's default (`~/tensorflow_datasets`).
      manual_dir: for "full", the folder that holds the raw format or its folder `procon_npov`;
        None = TFDS's default (`<data_dir>/downloads/manual`).

    Raises:
      InputError: for an unknown config, missing or bad raw files, an unwritable `data_dir`.
    """
    if config not in ProconNpov.builder_configs:
        raise InputError(f"{NAME} has no config {config!r}; choose 'sample' or 'full'.")
    data_dir = os.fspath(data_dir) if data_dir is not None else None
    builder = ProconNpov(config=config, data_dir=data_dir)
    if config == "sample":
        folder = sample_folder(NAME)
    else:
        default = pathlib.Path(builder.data_dir).parents[2] / "downloads" / "manual"
        folder = raw_folder(manual_dir or default)
    wanted = raw_sha256(folder)
    if _prepared_sha256(builder) == wanted:
        return builder
    _examples_by_split(folder)  # finds bad rows before TFDS removes what was prepared
    logging.info("Preparing %s from %s in %s.", builder.info.full_name, folder, builder.data_dir)
    try:
        with _quiet():
            builder.download_and_prepare(
                download_config=tfds.download.DownloadConfig(
                    manual_dir=folder,
                    # Overwrites what was prepared from other files; nothing is downloaded.
                    download_mode=tfds.download.GenerateMode.REUSE_CACHE_IF_EXISTS,
                )
            )
    except OSError as error:
        if _prepared_sha256(builder) != wanted:  # else another process was faster
            raise InputError(f"{builder.data_dir}: cannot be written ({error.strerror}).") from None
    return ProconNpov(config=config, data_dir=data_dir)


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Keeps TFDS from printing, and from drawing bars for data that takes a second or two."""
    tfds.disable_progress_bar()
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            yield
    finally:
        tfds.enable_progress_bar()


def _prepared_sha256(builder: tfds.core.DatasetBuilder) -> str | None:
    """Returns the hash of the raw files that the prepared data was made from."""
    path = pathlib.Path(builder.data_dir) / "metadata.json"
    try:
        return json.loads(path.read_text(encoding="utf-8")).get("raw_sha256")
    except (OSError, ValueError):
        return None


def check_split(builder: tfds.core.DatasetBuilder, split: str) -> None:
    """Raises an InputError where the prepared data has no examples of a split."""
    present = list(builder.info.splits)
    if split not in present:
        raise InputError(
            f"{builder.info.full_name} has no split {split!r}, only {', '.join(present)}; choose "
            f"one of these, or add topics of that split, with responses, to {npov.TOPICS_FILE}."
        )
