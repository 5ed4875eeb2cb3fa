"""Decoding of rows on the mesh, in few shapes; a row that has ended makes room for the next."""

import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from faith_jax.core.errors import ConfigError
from faith_jax.core.types import PyTree
from faith_jax.decoding.config import DecodingConfig
from faith_jax.decoding.generation import for_model, generate, row_keys
from faith_jax.decoding.refilling import Places, Refilling
from faith_jax.decoding.shared_prefixes import (
    line_length,
    prefix_groups,
    shared_inputs,
    tokens_saved,
)
from faith_jax.decoding.steps import DecodingResult
from faith_jax.inference.batching import bucket_length, pad_rows
from faith_jax.models.config import TransformerConfig
from faith_jax.models.partitioning import Compiled, Partitioner
from faith_jax.models.transformer import Transformer


class DecodedRow(NamedTuple):
    """One response: token ids without padding, their log-probability and score.

    Attributes:
      tokens: int [length].
      log_prob: sum of the tokens' natural log-probabilities under the model at temperature 1.
      score: the search's ranking score, such as a beam's summed scores with the length penalty.
      finished: whether the model wrote an end token before the response was cut at `max_length`.
    """

    tokens: np.ndarray
    log_prob: float
    score: float
    finished: bool


class BatchDecoder:
    """Decodes rows of input tokens, longest inputs first, on the mesh.

    With two batches or more, the next rows take the places of rows that have ended. Beam search
    decodes whole batches instead. So do rows of a decoder-only model with a common beginning, such
    as a document, if reading it once for all rows of a batch saves more.

    Args:
      decoding: how tokens are picked, and how many responses a row gets.
      batch_size: number of rows that are decoded at once.
      seed: seed of the sampling; row number i has the same randomness in any batch.

    Raises:
      ConfigError: on tokens outside the model's vocabulary, and on PMI-Decode with DoHA.
    """

    def __init__(
        self,
        module: Transformer,
        partitioner: Partitioner,
        decoding: DecodingConfig,
        batch_size: int,
        seed: int = 0,
    ):
        is_doha = module.config.knowledge_attention
        if is_doha and decoding.pmi is not None:
            raise ConfigError(
                "decoding: pmi is set; expected None for DoHA, which reads two inputs already."
            )
        # Set the model's end and padding tokens, which refilling and `decoded_rows` read.
        self._decoding = decoding = for_model(decoding, module)
        self._has_second = is_doha or decoding.pmi is not None
        self._partitioner, self._batch_size = partitioner, batch_size
        self._config, self._uses_pmi = module.config, decoding.pmi is not None
        self._seed = seed
        self._decode = _compile_decoding(module, partitioner, decoding)
        self._refilled = _compile_refilling(module, partitioner, decoding)
        # Decoders of a process share compiled functions.
        self._compiled_before = self._num_compiled

    @property
    def _num_compiled(self) -> int:
        return self._decode.num_compilations + self._refilled.num_compilations

    @property
    def num_compilations(self) -> int:
        """The number of programs compiled so far, except those of earlier decoders."""
        return self._num_compiled - self._compiled_before

    def __call__(
        self,
        params: PyTree,
        inputs: Sequence[Any],
        numbers: Sequence[int] | None = None,
        second_inputs: Sequence[Any] | None = None,
        on_done: Callable[[int], object] = lambda count: None,
    ) -> list[list[DecodedRow]]:
        """Decodes rows.

        Args:
          params: the model's parameters.
          inputs: token ids of each row, special ones included.
          numbers: the rows' numbers, which determine their randomness; None = from 0 on.
          second_inputs: token ids of each row without the document for PMI-Decode, or with the
            knowledge for DoHA; ignored otherwise.
          on_done: called with the number of rows that were completed since the last call.

        Returns:
          The responses to each row: `num_return`, or fewer (at least one) if the search finds
          fewer; the best beam first, samples in the order of their random keys.

        Raises:
          ConfigError: on PMI-Decode or DoHA without `second_inputs`.
        """
        drawn = np.arange(len(inputs)) if numbers is None else np.asarray(numbers, int)
        branches = [inputs]
        if self._has_second:
            if second_inputs is None:
                missing = "inputs without the document" if self._uses_pmi else "knowledge"
                raise ConfigError(f"The rows have no {missing}, which this decoding needs.")
            branches.append(second_inputs)
        lengths = [
            tuple(bucket_length(len(rows[i])) for rows in branches) for i in range(len(inputs))
        ]
        # Rows of a batch have similar lengths. The longest come first, so that a lack of memory
        # shows at once.
        order = sorted(range(len(inputs)), key=lambda i: lengths[i], reverse=True)
        # With fewer rows than two batches, there are few rows to refill places with.
        refills = len(inputs) >= 2 * self._batch_size and self._decoding.num_beams == 1
        if self._can_share(inputs) and (saved := tokens_saved(groups := prefix_groups(inputs))):
            # Refilling saves at most about a quarter of the steps.
            refills &= 4 * saved < len(inputs) * self._decoding.max_length
            if not refills:
                order = [
                    row
                    for group in sorted(groups, key=lambda g: max(map(lengths.__getitem__, g.rows)))
                    for row in group.rows
                ][::-1]
        decode = self._decode_in_places if refills else self._decode_in_batches
        decoded: dict[int, list[DecodedRow]] = {}
        for rows, responses in decode(params, branches, order, drawn):
            decoded |= zip(rows, responses, strict=True)
            on_done(len(rows))
        return [decoded[row] for row in range(len(inputs))]

    def _decode_in_batches(
        self, params: PyTree, branches: list[Sequence[Any]], order: list[int], drawn: np.ndarray
    ) -> Iterator[tuple[list[int], list[list[DecodedRow]]]]:
        """Yields the rows of each batch with their responses."""
        for start in range(0, len(order), self._batch_size):
            rows = order[start : start + self._batch_size]
            draws, arrays = self._build_batch(branches, rows, self._batch_size, drawn)
            inputs = [branches[0][row] for row in rows]
            if self._can_share(inputs):
                groups, tokens = prefix_groups(inputs), arrays[0]
                prompt = self._config.decoder_prompt_length
                # The number of lines is a power of two, which bounds the compilations.
                lines = 1 << (len(groups) - 1).bit_length()
                length = bucket_length(prompt + max(line_length(inputs, g) for g in groups))
                # Read lines instead of the inputs if that saves a third of the tokens.
                is_shorter = 1.5 * lines * length <= len(tokens) * (prompt + tokens.shape[1])
                if is_shorter and self._config.can_share_inputs(length):
                    arrays[0] = self._partitioner.put(
                        shared_inputs(inputs, groups, np.asarray(tokens), lines, length, prompt),
                        self._partitioner.replicated,
                    )
            result = self._decode(params, *arrays, draws)
            yield rows, decoded_rows(result, self._decoding)[: len(rows)]

    def _decode_in_places(
        self, params: PyTree, branches: list[Sequence[Any]], order: list[int], drawn: np.ndarray
    ) -> Iterator[tuple[list[int], list[list[DecodedRow]]]]:
        """Yields rows that have ended with their responses, while other rows go on."""
        size, refilled = self._batch_size, self._refilled
        # Admit an eighth of the batch at once, since other rows wait meanwhile.
        devices = self._partitioner.data_parallelism
        group = -(-size // (8 * devices)) * devices
        # The row in each place, and the rows that wait for one.
        in_places, waiting = dict(enumerate(order[:size])), order[size:]
        free: list[int] = []
        # Any row may get any place, so each branch needs room for its longest input.
        room = [bucket_length(max(map(len, inputs))) for inputs in branches]
        longer = room.index(max(room))
        places = refilled.first(
            params, *self._build_batch(branches, order[:size], size, drawn, room)
        )
        while in_places:
            # Run until a group of rows can be admitted or, at the end, until all rows have ended.
            enough = min(group, len(waiting)) if waiting else size
            places, result, ended = refilled.run(params, places, enough)
            # A free place has ended too, but holds no row.
            done = [place for place in in_places if ended[place]]
            # Select the places that are done from the results [places, copies, ...] on the host.
            finished = jax.tree.map(lambda x, done=done: x[done], result)
            yield [in_places.pop(place) for place in done], decoded_rows(finished, self._decoding)
            free += done
            while waiting and len(free) >= min(group, len(waiting)):
                rows, waiting = waiting[:group], waiting[group:]
                into, free = free[: len(rows)], free[len(rows) :]
                in_places |= zip(into, rows, strict=True)
                # Pad a partial group with the place `size`, which does not exist.
                to = np.asarray(into + [size] * (group - len(rows)), np.int32)
                # Shrink the longer branch to a half, a quarter … of the room while the rows fit;
                # there are few such sizes, since each costs a compilation.
                needed = max(bucket_length(len(branches[longer][row])) for row in rows)
                smallest = list(room)
                while smallest[longer] >= 2 * needed:
                    smallest[longer] //= 2
                arrays = self._build_batch(branches, rows, group, drawn, smallest)
                places = refilled.admit(params, places, to, *arrays)

    def _build_batch(
        self,
        branches: list[Sequence[Any]],
        rows: list[int],
        size: int,
        drawn: np.ndarray,
        at_least: Sequence[int] = (1, 1),
    ) -> tuple[Any, list[Any]]:
        """Returns the draws (see `Places`); of each branch tokens [size, bucket], lengths [size].

        Each branch's tokens have room for at least as many as `at_least` says.
        """
        # Draw by the row's own number, so that its randomness is the same in any batch and place.
        # Padding rows draw as number 0 and are never read.
        draws = np.zeros((size, 2), np.uint32)
        draws[:, 0], draws[: len(rows), 1] = self._seed % 2**32, drawn[rows]
        pad_id = self._config.pad_id
        if self._config.is_decoder_only:
            # Lengths mark where an input ends, so any token of the vocabulary may be padding.
            pad_id = max(0, pad_id)
        arrays: list[Any] = [draws]
        for inputs, room in zip(branches, at_least, strict=False):
            ids = [inputs[row] for row in rows]
            # Padding rows have one token.
            lengths = np.ones(size, np.int32)
            lengths[: len(rows)] = [len(row_ids) for row_ids in ids]
            length = bucket_length(max(room, *map(len, ids)))
            arrays += [pad_rows(ids, length, pad_id, size), lengths]
        draws, *arrays = self._partitioner.put_batch(arrays)
        return draws, arrays

    def _can_share(self, inputs: Sequence[Any]) -> bool:
        """Whether inputs' common beginnings can be read once: not if devices share the rows."""
        config, longest = self._config, max(map(len, inputs), default=0)
        # Rows on one device cannot read an input that lies on another without communication.
        splits_rows = self._partitioner.data_parallelism > 1
        return not splits_rows and config.is_decoder_only and config.can_share_inputs(longest)

    def laid_out(self, params: PyTree, input_length: int) -> PyTree:
        """Returns parameters in the memory layouts that the decoding loop reads.

        On TPUs, parameters in other layouts would be copied before the loop.

        Args:
          params: the model's parameters; their buffers are donated.
          input_length: tokens of the longest input; see `compile`.
        """
        if self._partitioner.mesh.devices.flat[0].platform == "cpu":  # has one layout
            return params
        # The first argument's format is that of the parameters.
        (formats, *_), _ = self.compile(params, input_length).input_formats
        return _with_formats(params, formats)

    def compile(self, params: PyTree, input_length: int, laid_out: bool = True) -> Any:
        """Compiles the decoding of inputs of a length; returns JAX's compiled program.

        Args:
          params: the model's parameters, or their shapes with shardings.
          input_length: number of tokens of each input of a row.
          laid_out: whether the program expects parameters from `laid_out`.
        """

        def shape(*sizes: int, dtype: Any = jnp.int32) -> jax.ShapeDtypeStruct:
            return jax.ShapeDtypeStruct(sizes, dtype, sharding=self._partitioner.rows)

        rows, length = self._batch_size, bucket_length(input_length)
        # Tokens and lengths of each branch.
        branches = [shape(rows, length), shape(rows)] * (1 + self._has_second)
        compiled = self._decode.compile_with_layouts if laid_out else self._decode.compile
        return compiled(params, *branches, shape(rows, 2, dtype=jnp.uint32))


def _with_formats(arrays: PyTree, formats: PyTree) -> PyTree:
    """Moves arrays one by one to other memory layouts, donating their buffers."""
    return jax.tree.map(lambda x, place: jax.device_put(x, place, donate=True), arrays, formats)


def _group_by_branch(config: TransformerConfig, arrays: Sequence[Any]) -> list[Any]:
    """Groups alternating arrays of tokens and lengths into each branch's model inputs."""
    if config.is_decoder_only:
        return list(zip(arrays[::2], arrays[1::2], strict=True))
    tokens = list(arrays[::2])
    return [tuple(tokens)] if config.knowledge_attention else tokens


@functools.lru_cache(maxsize=8)
def _compile_decoding(
    module: Transformer, partitioner: Partitioner, decoding: DecodingConfig
) -> Compiled:
    """Returns the compiled decoding loop, shared by all checkpoints and seeds of a model."""

    def decode(params, *arrays):
        *inputs, draws = arrays
        branches = _group_by_branch(module.config, inputs)
        keys = row_keys(draws[0, 0], draws[:, 1])
        return generate(module, params, branches, keys, decoding)

    return partitioner.jit(decode, out_shardings=partitioner.replicated)


class _Refilled:
    """The compiled functions of refilling."""

    def __init__(self, refilling: Refilling, partitioner: Partitioner):
        self._refilling, self._partitioner = refilling, partitioner
        self._read = partitioner.jit(self._read_first_places)
        self._step_programs: tuple[Compiled, Compiled, Compiled] | None = None

    def _read_first_places(self, params: PyTree, draws: Any, *arrays: Any) -> Places:
        branches = _group_by_branch(self._refilling.module.config, arrays)
        return self._refilling.read(params, draws, branches)

    def first(self, params: PyTree, draws: Any, arrays: Sequence[Any]) -> Places:
        """Reads as many examples as there are places; see `Refilling.read`."""
        places: Places = self._read(params, draws, *arrays)
        if self._step_programs is None:
            # Keep the shardings of the places that XLA has chosen here.
            lie = jax.tree.map(lambda x: x.sharding, places)
            everywhere = self._partitioner.replicated
            # Donated arrays are updated in place, so a step does not copy the caches. `grow`
            # changes their shape, so it could not reuse them.
            self._step_programs = (
                self._partitioner.jit(self._refilling.place, donate_argnums=0, out_shardings=lie),
                self._partitioner.jit(
                    self._refilling.run, donate_argnums=3, out_shardings=(lie.rows, everywhere)
                ),
                self._partitioner.jit(self._refilling.grow, out_shardings=lie.rows),
            )
        return places

    def admit(
        self, params: PyTree, places: Places, free: np.ndarray, draws: Any, arrays: Sequence[Any]
    ) -> Places:
        """Reads a few examples and puts them in free places; see `Refilling.place`."""
        assert self._step_programs is not None
        admitted: Places = self._step_programs[0](places, self._read(params, draws, *arrays), free)
        return admitted

    def run(
        self, params: PyTree, places: Places, enough: int
    ) -> tuple[Places, DecodingResult, np.ndarray]:
        """See `Refilling.run`; results are arrays on the host."""
        assert self._step_programs is not None
        # Memory and draws do not change; only the rows are donated and returned.
        memory, draws, rows = places
        while True:
            rows, on_device = self._step_programs[1](params, memory, draws, rows, np.int32(enough))
            result, ended = jax.device_get(on_device)
            # Otherwise too few rows have ended: the loop stopped because their memory was full.
            if ended.sum() >= enough:
                return Places(memory, draws, rows), result, ended
            rows = self._step_programs[2](rows)

    @property
    def num_compilations(self) -> int:
        """The number of compiled programs."""
        return sum(
            program.num_compilations for program in (self._read, *(self._step_programs or ()))
        )


@functools.lru_cache(maxsize=8)
def _compile_refilling(
    module: Transformer, partitioner: Partitioner, decoding: DecodingConfig
) -> _Refilled:
    """Returns the functions of decoding with refilling, shared like `_compile_decoding`'s loop."""
    return _Refilled(Refilling(module, decoding), partitioner)


def decoded_rows(result: DecodingResult, decoding: DecodingConfig) -> list[list[DecodedRow]]:
    """Returns the responses to each row of a batch; `decoding` is the result of `for_model`."""

    def response(i: int, j: int) -> DecodedRow:
        ids = tokens[i, j, : lengths[i, j]]
        is_forced = bool(decoding.forced_last_ids) and len(ids) == decoding.max_length
        # An end token that is forced at the last position does not mean that the model ended the
        # response.
        finished = len(ids) > 0 and int(ids[-1]) in decoding.end_ids and not is_forced
        return DecodedRow(ids, float(log_probs[i, j]), float(scores[i, j]), finished)

    tokens, lengths, log_probs, scores = (
        np.asarray(array) for array in (result.tokens, result.length, result.log_prob, result.score)
    )
    # With one response to each row, add the missing axis: [batch, ...] -> [batch, 1, ...].
    if lengths.ndim == 1:
        tokens, lengths, log_probs, scores = (
            array[:, None] for array in (tokens, lengths, log_probs, scores)
        )
    rows = [[response(i, j) for j in range(lengths.shape[1])] for i in range(lengths.shape[0])]
    # Beams that a search has not found have a score of -inf.
    return [row[:1] + [beam for beam in row[1:] if beam.score > -np.inf] for row in rows]
