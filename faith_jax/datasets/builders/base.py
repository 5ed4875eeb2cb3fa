"""The TFDS builder of every raw data set, and its preparation, with errors that name the remedy.

The config `sample` reads the data embedded in the package, `official` the data that the authors
publish (called `full` if they do not publish it in one place). A part that is built on its own has
the configs `<part>` and `<part>_sample`.
"""

import contextlib
import dataclasses
import hashlib
import io
import os
import pathlib
import shutil
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import tensorflow_datasets as tfds
from absl import logging

from faith_jax.core.errors import InputError, did_you_mean
from faith_jax.core.files import (
    atomic_folder,
    is_finished,
    move_into_place,
    output_lock,
    read_json_or_none,
    report_write_errors,
)
from faith_jax.core.files.staging import cache_folder, local_copy
from faith_jax.core.files.stores import is_remote, path_of
from faith_jax.core.files.whole import is_complete, private_place
from faith_jax.core.rows import BadRows
from faith_jax.datasets import raw_files
from faith_jax.datasets.builders.apache_beam import BeamPipeline, numbered_examples
from faith_jax.datasets.builders.ordered_records import OrderedWriter
from faith_jax.datasets.raw_dataset import (
    INTEGER,
    TEXT,
    TEXTS,
    Paths,
    RawDataset,
    sample_config,
)

_METADATA = "metadata.json"  # TFDS's file for a builder's metadata


@dataclasses.dataclass
class _RawConfig(tfds.core.BuilderConfig):
    """A config over the raw files of a data set, or over its embedded sample."""

    dataset: RawDataset = None  # type: ignore[assignment]  # inherited fields have defaults
    sample: bool = False


def configs(parts: Mapping[str, RawDataset]) -> list[_RawConfig]:
    """Returns the two configs of each part; "official" and "full" have the sample "sample"."""
    return [
        _RawConfig(name=config, description=f"{d.description}{more}", dataset=d, sample=bool(more))
        for name, d in parts.items()
        for config, more in ((name, ""), (sample_config(name), " The sample inside the package."))
    ]


class _OwnInfo(tfds.core.DatasetInfo):
    """The description of a data set that TFDS's authors do not host."""

    def initialize_from_bucket(self) -> None:
        """Does nothing: TFDS would query its bucket, and leave an empty temporary folder behind."""


class RawBuilder(
    tfds.core.GeneratorBasedBuilder,
    skip_registration=True,  # type: ignore[call-arg]  # TFDS's bases are lazily imported
):
    """Builds the splits of a `RawDataset`; subclasses set `name` and `BUILDER_CONFIGS`.

    Attributes:
      bad_rows: how bad rows are handled; set it before `download_and_prepare`.
      paths: each split's raw files by name; None = find them.
      raw_folder: the folder of raw files that the user named, if any.
      beam: builds in parallel; None = in this process.
    """

    VERSION = tfds.core.Version("1.0.0")
    RELEASE_NOTES = {"1.0.0": "First release."}
    MANUAL_DOWNLOAD_INSTRUCTIONS = """
    Files of your own go into a folder with the builder's name inside the manual folder
    (<data_dir>/downloads/manual unless set), or into the manual folder itself. What is not there
    and can be fetched is fetched; errors name the rest. The samples need nothing.
    """

    bad_rows = BadRows()
    paths: Mapping[str, Paths] | None = None
    raw_folder: str = ""
    beam: BeamPipeline | None = None

    def _info(self) -> tfds.core.DatasetInfo:
        dataset = self.builder_config.dataset
        features = {name: _KINDS[kind]() for name, kind in dataset.features.items()}
        return _OwnInfo(
            builder=self,
            description=dataset.description,
            homepage=dataset.homepage,
            citation=dataset.citation,
            license=dataset.licence,
            features=tfds.features.FeaturesDict(features),
            supervised_keys=None,
            disable_shuffling=True,  # keeps the order of the raw files; readers shuffle if needed
            metadata=tfds.core.MetadataDict(),
        )

    def _example_writer(self) -> tfds.core.ExampleWriter:
        return OrderedWriter(self.info.file_format)

    def _split_generators(self, dl_manager: tfds.download.DownloadManager) -> dict[str, Any]:
        if self.paths is None:
            try:
                manual = pathlib.Path(dl_manager.manual_dir)
            except AssertionError:  # no such folder: matters only if a file has no URL
                manual = manual_folder(self)
            self.paths = _raw_paths(self, manual)
        self.info.metadata["raw_fingerprint"] = _fingerprint_raw_files(self.paths)
        self.info.metadata["raw_folder"] = self.raw_folder
        dataset = self.builder_config.dataset
        generators: dict[str, Any] = {}
        for split, files in self.paths.items():
            if next(dataset.examples(files, split, self.bad_rows), None) is None:
                names = ", ".join(map(str, files.values()))
                logging.warning("%s has no split %s: %s has no example.", self.name, split, names)
            elif self.beam:
                for _ in dataset.examples(files, split, self.bad_rows):
                    pass  # finds all bad rows here once; the parallel parts skip them
                self._note_bad_rows()
                generators[split] = numbered_examples(dataset, split, files, self.beam.part_count)
            else:
                generators[split] = self._generate_examples(split, files)
        if not generators:
            places = ", ".join(str(p) for files in self.paths.values() for p in files.values())
            skipped = f" Of its bad rows: {m[0]}" if (m := self.bad_rows.messages) else ""
            raise InputError(f"{dataset.name}: no split has an example in {places}.{skipped}")
        return generators

    def _generate_examples(self, split: str, files: Paths) -> Iterator[tuple[str, dict[str, Any]]]:
        for example in self.builder_config.dataset.examples(files, split, self.bad_rows):
            yield example["id"], example
        self._note_bad_rows()

    def _note_bad_rows(self) -> None:
        """Records the bad rows in the metadata, which are written once all splits are made."""
        self.info.metadata["skipped_rows"] = self.bad_rows.count
        self.info.metadata["skipped_messages"] = self.bad_rows.messages


_KINDS = {
    TEXT: tfds.features.Text,
    TEXTS: lambda: tfds.features.Sequence(tfds.features.Text()),
    INTEGER: lambda: tfds.features.Scalar(np.int64),
}


def _raw_paths(
    builder: RawBuilder, manual_folder: pathlib.Path, fetch: bool = True
) -> dict[str, Paths]:
    """Returns each split's raw files by name; fetches missing files if `fetch`.

    Files in `manual_folder`, or in a folder there with the data set's name, take precedence. If the
    user has files for some splits only, the other splits are left out.
    """
    dataset = builder.builder_config.dataset
    if builder.builder_config.sample:
        files = raw_files.sample_files(dataset)
        return {
            split: {name: files[name] for name in names}
            for split, names in dataset.splits.items()
            if all(name in files for name in names)
        }
    folders = [manual_folder / dataset.folder, manual_folder]
    downloads = _data_root(builder) / "downloads" / dataset.folder
    for path in [folder / dataset.instead for folder in folders if dataset.instead]:
        if path.is_file():
            return {split: {dataset.instead: path} for split in dataset.splits}
    paths_by_split: dict[str, Paths] = {}
    errors = {}
    for split, names in dataset.splits.items():
        try:
            paths_by_split[split] = raw_files.official_files(
                dataset, names, folders, downloads, fetch
            )
        except InputError as error:
            errors[split] = error
    all_paths = [path for paths in paths_by_split.values() for path in paths.values()]
    if errors and all(
        path.is_relative_to(downloads) for path in all_paths
    ):  # the user has no files of their own
        raise next(iter(errors.values()))
    for split, problem in errors.items():
        logging.warning("%s is prepared without the split %s: %s", dataset.name, split, problem)
    return paths_by_split


def _data_root(builder: tfds.core.DatasetBuilder) -> pathlib.Path:
    """Returns TFDS's data folder; the builder's data lies in its subfolder name/config/version."""
    return pathlib.Path(builder.data_dir).parents[2]


def manual_folder(builder: RawBuilder) -> pathlib.Path:
    """Returns the folder where TFDS looks for files placed by hand."""
    return _data_root(builder) / "downloads" / "manual"


def _fingerprint_raw_files(paths: Mapping[str, Paths]) -> str:
    return raw_files.fingerprint(path for files in paths.values() for path in files.values())


def prepare_builder(
    builder_class: type[RawBuilder],
    config: str,
    data_dir: str | os.PathLike | None = None,
    raw_folder: str | os.PathLike | None = None,
    bad_rows: BadRows | None = None,
    fetch: bool = True,
    beam: BeamPipeline | None = None,
) -> tfds.core.DatasetBuilder:
    """Returns the builder with its data prepared, preparing it again if needed.

    Data prepared from other raw files (edited, or fetched again) is prepared again. If no raw files
    are available, prepared data is used as it is. Bad rows that were skipped when the data was
    prepared are counted in `bad_rows`.

    Args:
      builder_class: the builder.
      config: the name of one of its configs.
      data_dir: TFDS's data folder; None = TFDS's default (`~/tensorflow_datasets`). If it is on a
        store, data is read from a staged copy; new data is prepared locally and uploaded.
      raw_folder: the folder of the raw files; None = the folder used when the data was prepared,
        else TFDS's manual folder, then their source.
      bad_rows: how bad rows are handled; by default preparation stops at the first.
      fetch: False = missing raw files are an error.
      beam: prepares in parallel; None = in this process.

    Raises:
      ConfigError: Apache Beam is not installed or gets unknown options; `data_dir` is unwritable.
      InputError: the config is unknown; raw files are missing or bad.
    """
    if config not in builder_class.builder_configs:
        config_names = list(builder_class.builder_configs)
        raise InputError(
            f"{builder_class.name} has no config {config!r}.{did_you_mean(config, config_names)} "
            f"Its configs: {', '.join(config_names)}."
        )
    bad_rows = bad_rows or BadRows()
    data_dir = os.path.expanduser(data_dir) if data_dir is not None else None
    if data_dir is not None and is_remote(store := path_of(data_dir)):
        return _prepare_on_store(builder_class, config, store, raw_folder, bad_rows, fetch, beam)
    builder = builder_class(config=config, data_dir=data_dir)
    noted = _read_metadata(builder)
    made_from, named = noted.get("raw_fingerprint"), noted.get("raw_folder", "")
    if raw_folder is not None:
        named = os.path.abspath(os.path.expanduser(raw_folder))
    elif named and not os.path.isdir(named):
        return _count_skipped(builder, bad_rows)
    folder = pathlib.Path(named) if named else manual_folder(builder)
    try:
        paths = _raw_paths(builder, folder, fetch=fetch and made_from is None)
    except InputError:
        if made_from is None or raw_folder is not None:
            raise
        return _count_skipped(builder, bad_rows)  # its raw files may have been moved or deleted
    if made_from == _fingerprint_raw_files(paths) and is_finished(pathlib.Path(builder.data_dir)):
        return _count_skipped(builder, bad_rows)
    logging.info("Preparing %s in %s.", builder.info.full_name, builder.data_dir)
    with report_write_errors(f"--data-dir: {builder.data_dir}"), _silence_tfds():
        _prepare_beside(builder, paths, named, bad_rows.skip, beam)
    return _count_skipped(builder_class(config=config, data_dir=data_dir), bad_rows)


def _prepare_on_store(
    builder_class: type[RawBuilder],
    config: str,
    store: pathlib.Path,
    raw_folder: str | os.PathLike | None,
    bad_rows: BadRows,
    fetch: bool,
    beam: BeamPipeline | None,
) -> tfds.core.DatasetBuilder:
    """Returns the builder of a local copy of a store's data; uploads the data if it is new."""
    local = cache_folder() / "data" / hashlib.sha256(str(store).encode()).hexdigest()[:32]
    place = pathlib.Path(builder_class(config=config, data_dir=str(local)).data_dir)
    target = store / place.relative_to(local).as_posix()
    if is_complete(target) and _raw_fingerprint(target) != _raw_fingerprint(place):
        copy = local_copy(target)
        place.parent.mkdir(parents=True, exist_ok=True)
        with private_place(place) as link:
            link.symlink_to(copy)
            if place.is_dir() and not place.is_symlink():
                shutil.rmtree(place)  # prepared from other raw files
            os.replace(link, place)
    prepare_builder(builder_class, config, local, raw_folder, bad_rows, fetch, beam)

    def is_there() -> bool:
        return is_complete(target) and _raw_fingerprint(target) == _raw_fingerprint(place)

    with report_write_errors(f"--data-dir: {target}"):
        if not is_there():
            with output_lock(target, option="--data-dir", waits=True):
                if not is_there():
                    move_into_place(place, target)
    return builder_class(config=config, data_dir=str(local))


def _raw_fingerprint(folder: pathlib.Path) -> Any:
    return (read_json_or_none(folder / _METADATA) or {}).get("raw_fingerprint")


def _count_skipped(builder: RawBuilder, bad_rows: BadRows) -> RawBuilder:
    """Returns the builder; adds the rows skipped when its data was prepared to `bad_rows`."""
    metadata = _read_metadata(builder)
    count = metadata.get("skipped_rows", 0)
    if count:
        logging.warning("%s was prepared without %d bad rows.", builder.info.full_name, count)
    bad_rows.take(count, metadata.get("skipped_messages", []))
    return builder


def _prepare_beside(
    builder: RawBuilder,
    paths: Mapping[str, Paths],
    raw_folder: str,
    skip_bad_rows: bool,
    beam: BeamPipeline | None,
) -> None:
    """Prepares the data beside its final place and moves it there, so a failure changes nothing."""
    target = pathlib.Path(builder.data_dir)
    if target.is_symlink() and cache_folder() in target.parents:
        target.unlink()  # to the copy of a store's data, which stays as it is
    with atomic_folder(target, "a data set", True, "--data-dir", waits=True) as place:
        if _read_metadata(builder).get("raw_fingerprint") == _fingerprint_raw_files(paths):
            return  # another process was faster
        beside = place.with_name("prepared")
        shutil.rmtree(beside, ignore_errors=True)
        new_builder = type(builder)(config=builder.builder_config.name, data_dir=str(beside))
        new_builder.paths, new_builder.raw_folder = paths, raw_folder
        new_builder.bad_rows, new_builder.beam = BadRows(skip_bad_rows), beam
        try:
            new_builder.download_and_prepare(
                download_config=beam.download_config() if beam else None
            )
            os.replace(new_builder.data_dir, place)
        finally:
            shutil.rmtree(beside, ignore_errors=True)


@contextlib.contextmanager
def _silence_tfds() -> Iterator[None]:
    """Keeps TFDS from printing, and from drawing progress bars for a second or two."""
    tfds.disable_progress_bar()
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            yield
    finally:
        tfds.enable_progress_bar()


def _read_metadata(builder: tfds.core.DatasetBuilder) -> dict[str, Any]:
    """Returns the metadata of prepared data; empty if preparation was not run or not completed."""
    return read_json_or_none(pathlib.Path(builder.data_dir) / _METADATA) or {}
