"""Decodes rows on the mesh, in few shapes; a row that has ended gives its place to the next."""

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
      log_prob: natural, their sum under the model at temperature 1.
      score: what the search ranks by, such as a beam's sum of scores by its length penalty.
      finished: whether it ends with an end token that the model wrote, and not at `max_length`.
    """

    tokens: np.ndarray
    log_prob: float
    score: float
    finished: bool


class BatchDecoder:
    """Decodes rows of input tokens, longest inputs first, on the mesh.

    Rows that have ended give their places to the next ones, where there are two batches or more.
    Beam search decodes whole batches, and so do rows of a decoder-only model that begin with the
    same tokens, such as a document, where reading these once saves more. It is read once for the
    rows of a batch.

    Args:
      decoding: how tokens are picked, and how many responses a row gets.
      batch_size: rows that are decoded at once.
      seed: of the sampling; row number i has the same randomness in any batch.

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
        # With the model's end and padding tokens, which refilling and `decoded_rows` read.
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
        """How many programs were compiled so far, but for what a decoder before had compiled."""
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
          params: of the model.
          inputs: token ids of each row, special ones included.
          numbers: of the rows, by which they draw; None = from 0 on.
          second_inputs: the same of PMI-Decode's branch without the document, or of DoHA's
            knowledge; others do not look at them.
          on_done: is told how many further rows have their responses.

        Returns:
          The responses to each row, `num_return` or, where so many do not exist, fewer, but at
          least one: the best beam first, samples in the order of their random keys.

        Raises:
          ConfigError: on PMI-Decode or DoHA without the latter.
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
        # Rows of a batch are of similar length; the longest first, so that a lack of memory shows
        # at once.
        order = sorted(range(len(inputs)), key=lambda i: lengths[i], reverse=True)
        # With fewer rows than two batches there is little to refill places with.
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
        """Yields the rows of each batch and the responses to them."""
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
                # Lines are read in place of the inputs where they have a third fewer tokens.
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
        """Yields rows that have ended and the responses to them, while others go on."""
        size, refilled = self._batch_size, self._refilled
        # How many examples are admitted at once: an eighth, since others wait for them.
        devices = self._partitioner.data_parallelism
        group = -(-size // (8 * devices)) * devices
        # The row in each place, and the rows that wait for one.
        in_places, waiting = dict(enumerate(order[:size])), order[size:]
        free: list[int] = []
        # Any row may come to any place, so that each branch has room for its longest input.
        room = [bucket_length(max(map(len, inputs))) for inputs in branches]
        longer = room.index(max(room))
        places = refilled.first(
            params, *self._build_batch(branches, order[:size], size, drawn, room)
        )
        while in_places:
            # The loop goes on until a group of rows can be admitted, or, at last, until all have
            # ended.
            enough = min(group, len(waiting)) if waiting else size
            places, result, ended = refilled.run(params, places, enough)
            # A free place has ended too, but holds no row.
            done = [place for place in in_places if ended[place]]
            # Of the results [places, copies, ...] on the host, those of the places that are done.
            finished = jax.tree.map(lambda x, done=done: x[done], result)
            yield [in_places.pop(place) for place in done], decoded_rows(finished, self._decoding)
            free += done
            while waiting and len(free) >= min(group, len(waiting)):
                rows, waiting = waiting[:group], waiting[group:]
                into, free = free[: len(rows)], free[len(rows) :]
                in_places |= zip(into, rows, strict=True)
                # A group that is not full names the place `size`, which does not exist.
                to = np.asarray(into + [size] * (group - len(rows)), np.int32)
                # In the longer branch a half, a quarter … of the room, where they fit: each room
                # costs a compilation.
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
        """Returns the draws of `Places`; of each branch tokens [size, bucket] and lengths [size].

        The tokens of each branch have room for `at_least` so many.
        """
        # By the row's own number, so that it draws the same in any batch and place. Rows that only
        # fill up draw as number 0 does, and nobody reads them.
        draws = np.zeros((size, 2), np.uint32)
        draws[:, 0], draws[: len(rows), 1] = self._seed % 2**32, drawn[rows]
        pad_id = self._config.pad_id
        if self._config.is_decoder_only:
            # Lengths tell where an input ends, so that any token of the vocabulary may fill it up.
            pad_id = max(0, pad_id)
        arrays: list[Any] = [draws]
        for inputs, room in zip(branches, at_least, strict=False):
            ids = [inputs[row] for row in rows]
            # Rows that only fill up have one token.
            lengths = np.ones(size, np.int32)
            lengths[: len(rows)] = [len(row_ids) for row_ids in ids]
            length = bucket_length(max(room, *map(len, ids)))
            arrays += [pad_rows(ids, length, pad_id, size), lengths]
        draws, *arrays = self._partitioner.put_batch(arrays)
        return draws, arrays

    def _can_share(self, inputs: Sequence[Any]) -> bool:
        """Whether what inputs have in common can be read once: on devices that split no rows."""
        config, longest = self._config, max(map(len, inputs), default=0)
        # Rows on one device cannot read an input that lies on another without communication.
        splits_rows = self._partitioner.data_parallelism > 1
        return not splits_rows and config.is_decoder_only and config.can_share_inputs(longest)

    def laid_out(self, params: PyTree, input_length: int) -> PyTree:
        """Returns parameters in the memory layouts that the decoding loop reads.

        On TPUs, parameters in other layouts would be copied before the loop.

        Args:
          params: of the model; they are used up.
          input_length: see `compile`; of the longest.
        """
        if self._partitioner.mesh.devices.flat[0].platform == "cpu":  # has one way
            return params
        # Of the arguments' formats the first one is that of the parameters.
        (formats, *_), _ = self.compile(params, input_length).input_formats
        return _with_formats(params, formats)

    def compile(self, params: PyTree, input_length: int, laid_out: bool = True) -> Any:
        """Compiles the program of inputs of so many tokens and returns JAX's.

        Args:
          params: of the model, or their shapes with shardings.
          input_length: tokens; those of all inputs of a row.
          laid_out: the program wants parameters that are `laid_out`.
        """

        def shape(*sizes: int, dtype: Any = jnp.int32) -> jax.ShapeDtypeStruct:
            return jax.ShapeDtypeStruct(sizes, dtype, sharding=self._partitioner.rows)

        rows, length = self._batch_size, bucket_length(input_length)
        # Tokens and lengths of each branch.
        branches = [shape(rows, length), shape(rows)] * (1 + self._has_second)
        compiled = self._decode.compile_with_layouts if laid_out else self._decode.compile
        return compiled(params, *branches, shape(rows, 2, dtype=jnp.uint32))


def _with_formats(arrays: PyTree, formats: PyTree) -> PyTree:
    """Returns arrays in other memory layouts, moved one by one; the given ones are used up."""
    return jax.tree.map(lambda x, place: jax.device_put(x, place, donate=True), arrays, formats)


def _group_by_branch(config: TransformerConfig, arrays: Sequence[Any]) -> list[Any]:
    """Returns the inputs of each branch, of tokens and lengths in turn, as models read them."""
    if config.is_decoder_only:
        return list(zip(arrays[::2], arrays[1::2], strict=True))
    tokens = list(arrays[::2])
    return [tuple(tokens)] if config.knowledge_attention else tokens


@functools.lru_cache(maxsize=8)
def _compile_decoding(
    module: Transformer, partitioner: Partitioner, decoding: DecodingConfig
) -> Compiled:
    """Returns the decoding loop; one for all checkpoints and seeds of a model."""

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
            # Places lie on the mesh as XLA has chosen here, and stay there.
            lie = jax.tree.map(lambda x: x.sharding, places)
            everywhere = self._partitioner.replicated
            # Donated arrays are updated in place: a step does not copy the caches. `grow` changes
            # their shape, so that it has nothing to reuse.
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
        # Memory and draws stay as they are; only the rows are donated and come back.
        memory, draws, rows = places
        while True:
            rows, on_device = self._step_programs[1](params, memory, draws, rows, np.int32(enough))
            result, ended = jax.device_get(on_device)
            # Too few rows have ended: the loop stopped since the rows' memory was full.
            if ended.sum() >= enough:
                return Places(memory, draws, rows), result, ended
            rows = self._step_programs[2](rows)

    @property
    def num_compilations(self) -> int:
        """Number of compiled programs."""
        return sum(
            program.num_compilations for program in (self._read, *(self._step_programs or ()))
        )


@functools.lru_cache(maxsize=8)
def _compile_refilling(
    module: Transformer, partitioner: Partitioner, decoding: DecodingConfig
) -> _Refilled:
    """Returns the functions of decoding with refilling, shared as `_compile_decoding`'s loop."""
    return _Refilled(Refilling(module, decoding), partitioner)


def decoded_rows(result: DecodingResult, decoding: DecodingConfig) -> list[list[DecodedRow]]:
    """Returns the responses to each row of a batch, given a decoding with the model's tokens."""

    def response(i: int, j: int) -> DecodedRow:
        ids = tokens[i, j, : lengths[i, j]]
        is_forced = bool(decoding.forced_last_ids) and len(ids) == decoding.max_length
        # An end token that is forced at the last place says nothing of whether the response was
        # done.
        finished = len(ids) > 0 and int(ids[-1]) in decoding.end_ids and not is_forced
        return DecodedRow(ids, float(log_probs[i, j]), float(scores[i, j]), finished)

    tokens, lengths, log_probs, scores = (
        np.asarray(array) for array in (result.tokens, result.length, result.log_prob, result.score)
    )
    # One response to each row has no axis of its own: [batch, ...] -> [batch, 1, ...].
    if lengths.ndim == 1:
        tokens, lengths, log_probs, scores = (
            array[:, None] for array in (tokens, lengths, log_probs, scores)
        )
    rows = [[response(i, j) for j in range(lengths.shape[1])] for i in range(lengths.shape[0])]
    # What a search has not found has a score of -inf.
    return [row[:1] + [beam for beam in row[1:] if beam.score > -np.inf] for row in rows]
