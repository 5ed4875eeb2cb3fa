"""Builds large data sets in parallel with Apache Beam, on this machine or on a cluster.

Reading raw files is fast compared with turning examples into records. So each part of the work
reads a split's files from the start and keeps every n-th example. All workers need the raw files
and the data folder under the same paths, as on a shared file system.
"""

import logging
import os
from collections.abc import Iterator
from typing import Any, NamedTuple

import tensorflow_datasets as tfds

from faith_jax.core.errors import ConfigError
from faith_jax.core.rows import BadRows
from faith_jax.datasets.raw_dataset import Paths, RawDataset

_THIS_MACHINE = (
    f"direct_num_workers={os.cpu_count()},direct_running_mode=multi_processing,"
    "default_sdk_harness_log_level=ERROR"
)


class BeamPipeline(NamedTuple):
    """How the work is distributed.

    Attributes:
      options: options of Beam, comma-separated without dashes as in `tfds build`; empty = one
        process per core of this machine.
      parts: the number of parts of each split; 0 = the number of cores of this machine.
    """

    options: str = ""
    parts: int = 0

    @property
    def part_count(self) -> int:
        """The number of parts of each split."""
        return self.parts or os.cpu_count() or 1

    def download_config(self) -> tfds.download.DownloadConfig:
        """Returns TFDS's configuration with the options of the pipeline.

        Raises:
          ConfigError: Apache Beam is not installed, or an option is unknown.
        """
        pipeline_options = _import_beam().options.pipeline_options.PipelineOptions
        options = (self.options or _THIS_MACHINE).split(",")
        flags = [f"--{option.strip().removeprefix('--')}" for option in options]
        pipeline = pipeline_options(flags=flags)
        flag_names = {flag.partition("=")[0].removeprefix("--") for flag in flags}
        if unknown := sorted(flag_names - pipeline.get_all_options().keys()):
            raise ConfigError(f"Apache Beam has no pipeline option {unknown[0]!r}.")
        return tfds.download.DownloadConfig(beam_options=pipeline)


def numbered_examples(dataset: RawDataset, split: str, files: Paths, parts: int) -> Any:
    """Returns a Beam transform that yields (number, example) for a split, without bad rows."""
    beam = _import_beam()
    read = beam.FlatMap(_read_part, dataset=dataset, split=split, files=dict(files), parts=parts)
    return beam.Create(range(parts), reshuffle=True) | f"Read_{split}" >> read


def _read_part(
    part: int, dataset: RawDataset, split: str, files: Paths, parts: int
) -> Iterator[tuple[int, dict[str, Any]]]:
    rows = dataset.examples(files, split, BadRows(skip=True))
    for number, example in enumerate(rows):
        if number % parts == part:
            yield number, example


def _import_beam() -> Any:
    logging.getLogger("apache_beam").setLevel(logging.ERROR)  # its warnings do not apply here
    try:
        import apache_beam
    except ImportError:
        raise ConfigError(
            "Apache Beam is not installed; install the extra: pip install 'faith_jax[beam]'."
        ) from None
    return apache_beam
