"""Files of the user's own as JSON lines: pairs for natural language inference, and text to text.

The samples have these forms. ANLI and MultiNLI themselves are read from TFDS.
"""

import msgspec

from faith_jax.core.labels import NliLabel
from faith_jax.core.rows import read_jsonl
from faith_jax.core.schema import Text
from faith_jax.datasets.raw_dataset import described, each_row


class Pair(msgspec.Struct):
    """A premise and a hypothesis."""

    id: Text
    premise: Text
    hypothesis: Text
    label: NliLabel


class TextToText(msgspec.Struct):
    """The input and the target of a model; `tools/make_mini_corpus.py` writes such rows."""

    id: Text
    inputs: Text
    targets: Text


NLI = described("nli", each_row(read_jsonl, Pair))
TEXT_TO_TEXT = described("text_to_text", each_row(read_jsonl, TextToText))
