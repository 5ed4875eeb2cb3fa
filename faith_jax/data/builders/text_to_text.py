"""The TFDS builder `text_to_text`: inputs and targets of the user's own, and their sample."""

import pathlib

from faith_jax.data.builders.base import RawBuilder, configs
from faith_jax.data.raw import text_to_text


class TextToText(RawBuilder):
    """What a model reads and what it should write."""

    name = "text_to_text"
    code_path = pathlib.Path(__file__)
    BUILDER_CONFIGS = configs({"full": text_to_text.TEXT_TO_TEXT})
