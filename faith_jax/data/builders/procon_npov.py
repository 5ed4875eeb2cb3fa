"""The TFDS builders `procon_npov` and `npov_errors`.

The config `full` reads topics.jsonl and responses.jsonl (`docs/data_formats.md`) from the folder
procon_npov inside the manual folder, or from the manual folder itself; `tools/prepare_procon.py`
makes them from scraped ProCon.org topic pages.
"""

import pathlib

from faith_jax.data.builders.base import RawBuilder, configs
from faith_jax.data.raw import npov


class ProconNpov(RawBuilder):
    """One example is one response with its query and arguments."""

    name = "procon_npov"
    code_path = pathlib.Path(__file__)
    BUILDER_CONFIGS = configs({"full": npov.PROCON_NPOV})


class NpovErrors(RawBuilder):
    """The same with synthetic errors."""

    name = "npov_errors"
    code_path = pathlib.Path(__file__)
    BUILDER_CONFIGS = configs({"full": npov.NPOV_ERRORS})
