"""Token-to-token salience maps of rows of any length, computed in a few compiled shapes."""

import collections
import itertools
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np

from faith_jax.core.errors import ConfigError
from faith_jax.inference import CausalModel, EncoderDecoderModel
from faith_jax.inference.batching import Batch, Batcher, Shape, pad_rows, padded_length
from faith_jax.inference.encoder_decoder import shift_right
from faith_jax.inference.row_likelihoods import LikelihoodRow
from faith_jax.scoring.salience.maps import METHODS, SalienceMaps, rows_in_bound, salience_maps
from faith_jax.statistics.texts.salience_scores import check_choice, normalize_columns

GRADIENT_LENGTHS = (32, 64, 96, 128, 160, 192, 224, 256, 320, 384, 448, 512)
# A compilation takes at least as long as this many backward passes of a row.
_PASSES_ON_CPU, _PASSES = 100, 10_000


class _RowColumns(NamedTuple):
    """Some columns of a row; `places` are their indices among the requested columns."""

    row: int
    shape: Shape
    places: list[int]


class SalienceEngine:
    """Computes the maps of rows, which are padded to a few lengths.

    The columns of a row are computed in parts, each with only the targets that it needs. Shapes
    with little to compute are merged into larger ones, as each shape costs a compilation.

    By default, a batch has 512 tokens on a CPU, else 16,384, for each device that shares the rows.
    `salience_maps` describes `method` and `max_bytes`, which is for one device.

    Raises:
      ConfigError: the method is unknown, or the model is DoHA, whose input is a pair.
    """

    def __init__(
        self,
        model: EncoderDecoderModel | CausalModel,
        method: str = "gradient_x_input",
        tokens_per_batch: int | None = None,
        max_bytes: int | None = None,
    ):
        check_choice("method", method, METHODS)
        if model.config.knowledge_attention:
            raise ConfigError("DoHA reads its knowledge apart; give a model with one input.")
        self.model, self.method, self._max_bytes = model, method, max_bytes
        devices = model.partitioner.data_parallelism
        self._batcher = Batcher("salience: part", tokens_per_batch, 512, 16384, devices)

    @property
    def num_compilations(self) -> int:
        """The number of shapes that were compiled for this engine."""
        return self._batcher.num_shapes

    def maps(
        self, rows: Sequence[LikelihoodRow], columns: Sequence[Sequence[int]] | None = None
    ) -> list[np.ndarray]:
        """Returns the map of each row, squared and with columns that sum to 1.

        `columns` are, for each row, the targets that get a column, in this order; None = all. Each
        column costs a backward pass. Maps of an encoder-decoder are float64 [inputs + decoder
        inputs, columns], where decoder inputs are the start token and all targets but the last.
        Maps of a decoder-only model are [inputs + targets - 1, columns].
        """
        if columns is None:
            columns = [range(len(row.targets)) for row in rows]
        all_maps, needed = list[np.ndarray](), list[list[Shape]]()
        for row, positions in zip(rows, columns, strict=True):
            read = len(row.fed) if self._is_causal else len(row.inputs) + len(row.targets)
            all_maps.append(np.zeros((read, len(positions))))
            # A column needs only the targets up to its own, as later ones have no gradient.
            needed.append([self._compute_padded_shape(row, column) for column in positions])
        counts = collections.Counter(itertools.chain.from_iterable(needed))
        on_cpu = jax.default_backend() == "cpu"
        shapes = _merge_shapes(counts, _PASSES_ON_CPU if on_cpu else _PASSES)
        grouped: dict[tuple[int, Shape], list[int]] = {}
        for number, row_shapes in enumerate(needed):
            for place, shape in enumerate(row_shapes):
                grouped.setdefault((number, shapes[shape]), []).append(place)
        parts = [_RowColumns(number, shape, places) for (number, shape), places in grouped.items()]
        parts.sort(key=lambda part: len(part.places))
        for batch in self._batcher.batches([part.shape for part in parts], self._most_rows):
            # Spare rows of the batch share the work on the columns.
            copies = batch.size // len(batch.rows)
            lines = [
                (parts[number].row, parts[number].places[first::copies])
                for number in batch.rows
                for first in range(copies)
            ]
            picked = [[columns[number][place] for place in places] for number, places in lines]
            # Rows with their targets up to their last column.
            heads = [
                LikelihoodRow(
                    rows[number].inputs, rows[number].targets[: max(row_columns, default=0) + 1]
                )
                for (number, _), row_columns in zip(lines, picked, strict=True)
            ]
            maps = self._compute_batch_maps(heads, picked, batch)
            for (number, places), token_map in zip(lines, maps, strict=True):
                all_maps[number][: len(token_map), places] = normalize_columns(token_map)
        return all_maps

    @property
    def _is_causal(self) -> bool:
        return bool(self.model.config.is_decoder_only)

    def _compute_padded_shape(self, row: LikelihoodRow, column: int) -> Shape:
        """Returns the padded lengths of encoder (0 = none) and decoder, and the most columns."""
        columns = padded_length(column + 1, GRADIENT_LENGTHS)
        if self._is_causal:
            return 0, padded_length(len(row.inputs) + column, GRADIENT_LENGTHS), columns
        return padded_length(len(row.inputs), GRADIENT_LENGTHS), columns, columns

    def _most_rows(self, shape: Shape) -> int:
        encoder, decoder, _ = shape
        inputs = () if self._is_causal else (encoder,)
        return rows_in_bound(self.model.config, inputs, decoder, self._max_bytes)

    def _compute_batch_maps(
        self, rows: Sequence[LikelihoodRow], columns: Sequence[Sequence[int]], batch: Batch
    ) -> list[np.ndarray]:
        size, (input_length, length, max_columns) = batch.size, batch.shape
        config, pad_id = self.model.config, max(0, self.model.config.pad_id)
        if self._is_causal:
            encoder, decoder = None, pad_rows([row.fed for row in rows], length, pad_id, size)
        else:
            encoder = pad_rows([row.inputs for row in rows], input_length, config.pad_id, size)
            decoder = pad_rows([row.targets for row in rows], length, pad_id, size)
            decoder = np.asarray(shift_right(decoder, config.decoder_start_id))
        targets = np.zeros((size, length), np.int32)
        positions = np.zeros((size, max_columns), np.int32)
        for i, row in enumerate(rows):
            first = len(row.inputs) - 1 if self._is_causal else 0
            targets[i, first : first + len(row.targets)] = row.targets
            positions[i, : len(columns[i])] = first + np.asarray(columns[i], np.int32)
        most_wanted = np.int32(max(len(places) for places in columns))

        def compute(*batch: Any) -> SalienceMaps:
            encoder, decoder, targets, positions = batch
            return salience_maps(
                self.model.module, self.model.params, encoder, decoder, targets, self.method,
                self._max_bytes, positions, most_wanted,
            )  # fmt: skip

        arrays = (encoder, decoder, targets, positions)
        encoders, decoders = self.model.partitioner.compute(compute, *arrays)
        maps = []
        for number, (row, places) in enumerate(zip(rows, columns, strict=True)):
            read = len(row.fed if self._is_causal else row.targets)
            parts = [decoders[number][:read, : len(places)]]
            if not self._is_causal:
                parts.insert(0, encoders[number][: len(row.inputs), : len(places)])
            maps.append(np.concatenate(parts))
        return maps


def _merge_shapes(columns: Mapping[Shape, int], passes: int) -> dict[Shape, Shape]:
    """Maps each shape to the shape in which its columns are computed: itself or a longer one.

    Args:
      columns: the number of columns of each shape.
      passes: a shape is merged if its padding costs less than this many backward passes.
    """
    left, merged = dict(columns), {shape: shape for shape in columns}
    for shape in sorted(columns):
        longer = [
            candidate
            for candidate in left
            if candidate > shape and all(a <= b for a, b in zip(shape, candidate, strict=True))
        ]
        if not longer:
            continue
        nearest = min(longer, key=lambda candidate: (sum(candidate[:2]), candidate))
        if left[shape] * (sum(nearest[:2]) / sum(shape[:2]) - 1) < passes:
            left[nearest] += left.pop(shape)
            merged |= {original: nearest for original, target in merged.items() if target == shape}
    return merged
