"""Token-to-token salience maps of many rows of any length, in few compiled shapes."""

from collections.abc import Sequence

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from faith_jax.core.errors import ConfigError
from faith_jax.core.types import Array
from faith_jax.inference import CausalModel, EncoderDecoderModel
from faith_jax.inference.batching import Batch, Batcher, Shape, padded_length
from faith_jax.inference.row_likelihoods import LikelihoodRow, model_inputs
from faith_jax.scoring.salience.maps import METHODS, rows_in_bound, salience_maps
from faith_jax.statistics.salience_scores import check_choice, normalized_columns

_LENGTHS = (64, 128, 192, 256, 384, 512)


class SalienceEngine:
    """Computes the maps of rows, which are padded to a few lengths.

    A batch is spread over all devices of the process, by rows. By default it has 512 tokens on a
    CPU, else 16,384. `salience_maps` describes `method` and `max_bytes`, which is for one device.

    Raises:
      ConfigError: for an unknown method, and for DoHA, whose input is a pair.
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
        devices = jax.local_devices()
        self._batcher = Batcher("salience", tokens_per_batch, 512, 16384, len(devices))
        self._rows, self._params = None, model.params
        if len(devices) > 1:
            mesh = Mesh(np.array(devices), ("data",))
            self._rows = NamedSharding(mesh, PartitionSpec("data"))
            self._params = jax.device_put(model.params, NamedSharding(mesh, PartitionSpec()))

    @property
    def num_compilations(self) -> int:
        """How many shapes were compiled for this engine."""
        return self._batcher.num_shapes

    def maps(
        self, rows: Sequence[LikelihoodRow], columns: Sequence[Sequence[int]] | None = None
    ) -> list[np.ndarray]:
        """Returns the map of each row, squared and with columns that sum to 1.

        `columns` are those of a row's targets that get a column, in this order, None = all; each
        costs a backward pass. Maps of an encoder-decoder are float64 [inputs + decoder inputs,
        columns], its decoder inputs being the start token and all targets but the last; those of a
        decoder-only model are [inputs + targets - 1, columns].
        """
        if columns is None:
            columns = [range(len(row.targets)) for row in rows]
        found: list[np.ndarray] = [np.zeros((0, 0))] * len(rows)
        for batch in self._batcher.batches([self._shape(row) for row in rows], self._most_rows):
            maps = self._batch(
                [rows[n] for n in batch.rows], [columns[n] for n in batch.rows], batch
            )
            for number, token_map in zip(batch.rows, maps, strict=True):
                found[number] = normalized_columns(token_map)
        return found

    @property
    def _is_causal(self) -> bool:
        return bool(self.model.config.is_decoder_only)

    def _shape(self, row: LikelihoodRow) -> Shape:
        """Returns the padded lengths of encoder (0 = none) and decoder, and the most columns."""
        columns = padded_length(len(row.targets), _LENGTHS)
        if self._is_causal:
            return 0, padded_length(len(row.fed), _LENGTHS), columns
        return padded_length(len(row.inputs), _LENGTHS), columns, columns

    def _most_rows(self, shape: Shape) -> int:
        encoder, decoder, _ = shape
        inputs = () if self._is_causal else (encoder,)
        return rows_in_bound(self.model.config, inputs, decoder, self._max_bytes)

    def _batch(
        self, rows: Sequence[LikelihoodRow], columns: Sequence[Sequence[int]], batch: Batch
    ) -> list[np.ndarray]:
        size, (_, length, most) = batch.size, batch.shape
        encoder, decoder = model_inputs(self.model.config, rows, batch)
        targets = np.zeros((size, length), np.int32)
        positions = np.zeros((size, most), np.int32)
        for i, row in enumerate(rows):
            first = len(row.inputs) - 1 if self._is_causal else 0
            targets[i, first : first + len(row.targets)] = row.targets
            positions[i, : len(columns[i])] = first + np.asarray(columns[i], np.int32)
        maps = salience_maps(
            self.model.module,
            self._params,
            None if encoder is None else self._spread(encoder),
            self._spread(decoder),
            self._spread(targets),
            self.method,
            self._max_bytes,
            self._spread(positions),
            max(len(wanted) for wanted in columns),
        )
        encoders, decoders = jax.device_get((maps.encoder, maps.decoder))
        found = []
        for number, (row, wanted) in enumerate(zip(rows, columns, strict=True)):
            read = len(row.fed) if self._is_causal else len(row.targets)
            parts = [decoders[number][:read, : len(wanted)]]
            if not self._is_causal:
                parts.insert(0, encoders[number][: len(row.inputs), : len(wanted)])
            found.append(np.concatenate(parts))
        return found

    def _spread(self, rows: np.ndarray) -> Array:
        return rows if self._rows is None else jax.device_put(rows, self._rows)
