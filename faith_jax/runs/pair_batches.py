"""Batches for classification heads: two texts as one row of an encoder, and the row's class."""

import dataclasses
import logging
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from faith_jax.data.vocabularies import default_vocabulary
from faith_jax.errors import ConfigError, InputError
from faith_jax.models.config import TransformerConfig
from faith_jax.runs.numpy_examples import numpy_examples
from faith_jax.scoring.text_pairs import PairEncoder, row_length

logger = logging.getLogger("faith_jax")

# What a task's examples call the two texts: what is given, and what is judged.
PAIRS = (("premise", "hypothesis"), ("knowledge", "response"))


@dataclasses.dataclass(frozen=True)
class PairBatches:
    """Makes the batches of a task's examples.

    Attributes:
      where: names the task and its split, for errors.
      fields: the names of the two texts.
      encode: of the model.
      classes: the model's, with their numbers.
      pad_id: of the model.
    """

    where: str
    fields: tuple[str, str]
    encode: PairEncoder
    classes: Mapping[str, int]
    pad_id: int

    @classmethod
    def of(cls, task: Any, where: str, model: TransformerConfig, max_length: int) -> "PairBatches":
        """Returns the batches of a task for a model.

        Args:
          task: SeqIO's; its targets are the names of classes.
          where: names the task and its split.
          model: with a classification head.
          max_length: tokens of a row.

        Raises:
          ConfigError: for a model without a head, a task without two texts, and more tokens than
            the model has positions.
        """
        if not model.label_names:
            raise ConfigError(
                "The checkpoint has no classification head: name the classes of a new one, such as "
                "LABEL_NAMES = ('entailment', 'neutral', 'contradiction')."
            )
        spec = task.get_dataset(None, next(iter(task.splits)), shuffle=False).element_spec
        found = [pair for pair in PAIRS if all(name in spec for name in pair)]
        if not found:
            raise ConfigError(
                f"{where}: its examples have no two texts to compare, neither "
                f"{' nor '.join(' and '.join(pair) for pair in PAIRS)} (those of a mixture have "
                "inputs and targets alone; choose one task)."
            )
        encode = PairEncoder(default_vocabulary(), model.vocab_size, row_length(model, max_length))
        classes = {name.strip().lower(): n for n, name in enumerate(model.label_names)}
        return cls(where, found[0], encode, classes, model.pad_id)

    def batches(self, examples: Any, size: int) -> Iterator[dict[str, np.ndarray]]:
        """Yields batches of examples; the last one is filled up with rows of no weight.

        Raises:
          InputError: for an example of a class that the model does not have.
        """
        rows: list[tuple[list[int], int]] = []
        for example in numpy_examples(examples):
            rows.append(self.row(example)[:2])
            if len(rows) == size:
                yield self._batch(rows, size)
                rows = []
        if rows:
            yield self._batch(rows, size)

    def row(self, example: Mapping[str, Any]) -> tuple[list[int], int, int]:
        """Returns an example's tokens, its class, and how many of its tokens were cut."""
        premise, hypothesis = (example[name].decode("utf-8") for name in self.fields)
        label = example["targets_pretokenized"].decode("utf-8").strip()
        if label.lower() not in self.classes:
            raise InputError(
                f"{self.where}: an example is of class {label!r}, the model's classes are "
                f"{', '.join(self.classes)}. LABEL_NAMES names those of a new head."
            )
        row = self.encode(premise, hypothesis)
        return row.ids, self.classes[label.lower()], row.cut_tokens

    def _batch(self, rows: list[tuple[list[int], int]], size: int) -> dict[str, np.ndarray]:
        tokens = np.full((size, self.encode.max_length), self.pad_id, np.int32)
        labels, weights = np.zeros(size, np.int32), np.zeros(size, np.float32)
        for number, (ids, label) in enumerate(rows):
            tokens[number, : len(ids)] = ids
            labels[number], weights[number] = label, 1.0
        # A row of padding alone has nothing to attend to.
        tokens[len(rows) :, 0] = tokens[0, 0]
        return {"encoder_input_tokens": tokens, "labels": labels, "label_weights": weights}

    def warn_of_cut(self, examples: Any, sample: int = 1000) -> None:
        """Says how many of the first examples are too long."""
        cut = [self.row(example)[2] for example in numpy_examples(examples.take(sample))]
        if any(cut):
            logger.warning(
                "%d of the first %d rows are cut to %d tokens: of premises the end",
                sum(map(bool, cut)),
                len(cut),
                self.encode.max_length,
            )
