"""Base classes of all loaded models: config, parameters, and checks of callers' arguments."""

import dataclasses
import functools
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Literal

import jax
import jax.numpy as jnp
import msgspec
import numpy as np

from faith_jax.checkpoints.embedded import TWO_SIDES_ONLY, reads_two_sides
from faith_jax.core.errors import ConfigError, InputError, did_you_mean, pluralize
from faith_jax.core.settings import Positive, check_value
from faith_jax.core.types import Array, PyTree
from faith_jax.decoding.config import DecodingConfig, PMIConfig
from faith_jax.decoding.generation import Branch, generate, row_keys
from faith_jax.decoding.steps import DecodingResult
from faith_jax.inference.batching import bucket_length
from faith_jax.inference.checkpoint_decoding import advice_for
from faith_jax.models.config import TransformerConfig
from faith_jax.models.partitioning import Mesh, make_partitioner
from faith_jax.models.quantization import quantize_params
from faith_jax.models.transformer import Inputs, Transformer, output_layer, parameter_shapes

if TYPE_CHECKING:
    from faith_jax.inference.batch_decoder import DecodedRow

logger = logging.getLogger("faith_jax")

Texts = str | Sequence[str] | Sequence[Sequence[str]]  # for one row, or for each row of a batch

# Defaults of `respond`, in tokens.
DEFAULT_INPUT_LENGTH, DEFAULT_RESPONSE_LENGTH = 512, 512

_Seed = Annotated[
    int, msgspec.Meta(ge=0, lt=2**32, description="a whole number from 0 to 2**32 - 1")
]

# Module and config are static, since they determine the compiled program.
_generate = jax.jit(generate, static_argnums=(0, 4))


class BaseModel:
    """A model with its parameters on a mesh of devices.

    Attributes:
      config: the model's dimensions and choices.
      module: the Flax module.
      params: the module's parameters, as JAX arrays.
      path: the checkpoint that the model was opened from; None = built from parameters.
      partitioner: the mesh; rows are spread over its axis "data", parameters over "model".
    """

    def __init__(
        self,
        config: TransformerConfig,
        params: PyTree,
        path: str | None = None,
        mesh: Mesh | None = None,
        params_dtype: Literal["int8"] | None = None,
    ):
        """Places the parameters on a mesh; None = all devices share the rows.

        Raises:
          ConfigError: on a mesh with other axes than "data" and "model".
        """
        self.config = config
        self.path = path
        self.module = Transformer(config)
        self.partitioner = partitioner = make_partitioner(config, mesh=mesh)
        shardings = partitioner.replicated
        # If the axis "model" is used, each device holds only a part of the parameters.
        if partitioner.mesh.shape["model"] > 1:
            shardings = partitioner.param_shardings(parameter_shapes(self.module)["params_axes"])
        # Quantize matrices on the mesh one by one, since all in float32 may not fit at once.
        if params_dtype == "int8":
            self.params = quantize_params(params, shardings, partitioner)
        else:
            self.params = partitioner.put(params, shardings)

    def _run_compiled(self, function: Callable[..., Any], *batch: PyTree, **static: Any) -> Any:
        """Runs a compiled function(module, params, *batch); see `Partitioner.compute`."""
        # Bind these arguments, since `compute` splits all others over the devices by rows.
        bound = functools.partial(function, self.module, self.params, **static)
        return self.partitioner.compute(bound, *batch)

    @property
    def pad_id(self) -> int:
        """The token that pads rows on the right; -1 for models without one (GPT-2)."""
        return self.config.pad_id

    def __repr__(self) -> str:
        c, size = self.config, sum(leaf.size for leaf in jax.tree.leaves(self.params))
        layers = "+".join(str(n) for n in (c.num_encoder_layers, c.num_decoder_layers) if n)
        return (
            f"{type(self).__name__}({size:,} parameters: {layers} layers, "
            f"emb_dim {c.emb_dim}, vocab_size {c.vocab_size:,})"
        )

    def _check_tokens(self, name: str, tokens: Any) -> np.ndarray:
        """Checks token ids and returns them as int32 [batch, length]."""
        try:
            tokens = np.asarray(tokens)
        except ValueError:
            raise InputError(
                f"{name}: expected an integer array [batch, length], got rows of different "
                f"lengths; pad them with {self.pad_id}."
            ) from None
        # Booleans and floats are not ids, even if they are whole numbers.
        if tokens.ndim != 2 or tokens.dtype.kind not in "iu" or 0 in tokens.shape:
            raise InputError(
                f"{name}: expected an integer array [batch, length], got "
                f"{tokens.dtype} {tokens.shape}."
            )
        # A padding id of -1 is outside the vocabulary, but allowed.
        outside = (tokens < min(0, self.pad_id)) | (tokens >= self.config.vocab_size)
        if outside.any():
            row, position = np.argwhere(outside)[0]
            raise InputError(
                f"{name}: token {tokens[row, position]} at row {row}, position {position} is not "
                f"in the model's vocabulary of {self.config.vocab_size}."
            )
        return tokens.astype(np.int32)

    def _check_positions(self, name: str, length: int, prompt_length: int = 0) -> None:
        """Raises an InputError if tokens exceed the model's table of learned positions."""
        config = self.config
        # Relative, rotary and ALiBi positions are computed; only learned positions are a table of
        # limited size.
        if config.positions != "learned" or prompt_length + length <= config.max_positions:
            return
        prompt = f" behind a prompt of {prompt_length}" if prompt_length else ""
        raise InputError(
            f"{name}: {length} tokens{prompt} do not fit the model's {config.max_positions} "
            "positions; shorten them."
        )

    def _pad_tokens(self, tokens: np.ndarray) -> np.ndarray:
        # Round lengths up, so that inputs of similar lengths share a compiled program.
        padding = bucket_length(tokens.shape[1]) - tokens.shape[1]
        return np.pad(tokens, ((0, 0), (0, padding)), constant_values=self.pad_id)


def check_batch(first: tuple[str, np.ndarray], second: tuple[str, np.ndarray]) -> None:
    """Checks that two named arrays have the same number of rows.

    Raises:
      InputError: if they do not; the message names both.
    """
    if first[1].shape[0] != second[1].shape[0]:
        raise InputError(
            f"The {first[0]} has {first[1].shape[0]} rows but the {second[0]} {second[1].shape[0]}."
        )


class GenerativeModel(BaseModel):
    """A model that generates text, with its parameters.

    Subclasses define `decode`, and `decode_pmi` with the two inputs of PMI-Decode.
    """

    decode: Callable[..., DecodingResult]
    decode_pmi: Callable[..., DecodingResult]

    def respond(
        self,
        query: str | Sequence[str] | None = None,
        *,
        pro: Texts | None = None,
        con: Texts | None = None,
        knowledge: Texts | None = None,
        history: Texts | None = None,
        inputs: str | Sequence[str] | None = None,
        inputs_without_document: str | Sequence[str] | None = None,
        vocabulary: str | None = None,
        max_input_length: int | None = None,
        cut_policy: str = "knowledge",
        seed: int = 0,
        batch_size: int = 16,
        **options: Any,
    ) -> Any:
        """Returns a response as text, with the templates, cutting and tokens of `t5x infer`.

        A list of queries or inputs, or a history that is a list of lists, makes a batch. All other
        lists then need one entry for each row; a single text is used for all rows.

        Args:
          query: the question, with `pro` and `con`, or the last turn of a dialogue.
          pro: arguments for: a text or several.
          con: arguments against: a text or several.
          knowledge: knowledge for a dialogue: a text or several.
          history: earlier turns of a dialogue, oldest first, or a single turn.
          inputs: the text that the model reads, instead of all arguments above.
          inputs_without_document: for PMI-Decode with `inputs` in a form of your own.
          vocabulary: where the tokenizer is, if not with the model: a folder, a file or a name.
          max_input_length: maximum tokens of an input, special ones included; None = 512, or fewer
            if the model has fewer positions.
          cut_policy: which part of a longer input is cut, see `faith_jax.core.cutting`.
          seed: seed of the sampling.
          batch_size: maximum number of rows that are decoded at once.
          **options: fields of `DecodingConfig`: max_length (512 by default), temperature,
            num_beams, num_return …; pmi=PMIConfig() is PMI-Decode.

        Returns:
          The response; with `num_return` above 1, a list of responses, the best first; for a batch,
          a list with one such result for each row. A warning is logged if a response does not end
          within `max_length`.

        Raises:
          InputError: on texts that are missing or empty, and on an input that cannot be cut.
          ConfigError: on a model without a tokenizer, and on wrong options.
        """
        # Imported here, since `opening` imports this module.
        from faith_jax.datasets.input_rows import input_row
        from faith_jax.inference.opening import (
            input_limit,
            open_tokenizer,
            warn_of_chat_template,
        )
        from faith_jax.inference.texts.row_tokens import RowTokens

        if knowledge is not None and reads_two_sides(self.path or ""):
            logger.warning(TWO_SIDES_ONLY, self.path)
        # The caller's options override the default length.
        options = {"max_length": DEFAULT_RESPONSE_LENGTH} | options
        decoding = self._build_decoding_config(options, pmi=options.get("pmi") is not None)
        # Arguments of one row, or of all rows of a batch.
        fields = {"query": query, "pro": pro, "con": con, "knowledge": knowledge, "inputs": inputs}
        fields |= {"history": history, "inputs_without_document": inputs_without_document}
        batch = _rows_of(fields)
        where = ["respond"] if batch is None else [f"respond: row {n}" for n in range(len(batch))]
        rows = [
            input_row({name: _as_list(value) for name, value in row.items()}, place, str(number))
            for number, (row, place) in enumerate(
                zip([fields] if batch is None else batch, where, strict=True)
            )
        ]
        # Tokenize the inputs, cut to the limit, and check positions before decoding anything.
        tokenizer = open_tokenizer(self.path, vocabulary, self.config)
        warn_of_chat_template(self.path or "")
        limit = input_limit(self.config, max_input_length, DEFAULT_INPUT_LENGTH, "max_input_length")
        read = RowTokens.of(
            self.config, tokenizer, limit, "max_input_length", cut_policy, decoding.pmi is not None
        )
        read_rows = [read(row) for row in rows]
        longest = max((len(tokens.ids) for tokens in read_rows), default=0)
        read.layout.check_positions(
            longest, decoding.max_length, ("max_input_length", "max_length")
        )
        ids, second = [tokens.ids for tokens in read_rows], [tokens.second for tokens in read_rows]
        decoded = self._decode_batch(ids, second, seed, decoding, batch_size)
        if unfinished := sum(not r.finished for responses in decoded for r in responses):
            logger.warning(
                "%s not finished at max_length = %d",
                pluralize(unfinished, "response"),
                decoding.max_length,
            )
        written = [
            [row.postprocess(tokenizer.decode(response.tokens.tolist())) for response in responses]
            for row, responses in zip(rows, decoded, strict=True)
        ]
        results = written if decoding.num_return > 1 else [texts[0] for texts in written]
        return results[0] if batch is None else results

    def _decode_batch(
        self,
        ids: list[list[int]],
        second: list[list[int]],
        seed: int,
        decoding: DecodingConfig,
        batch_size: int,
    ) -> "list[list[DecodedRow]]":
        """Decodes inputs; `second` are the second inputs of PMI-Decode or DoHA."""
        from faith_jax.inference.batch_decoder import BatchDecoder

        check_value("batch_size", batch_size, Positive)
        # Use few sizes, since each is compiled: powers of two, rounded up to a multiple of devices.
        size, devices = min(batch_size, len(ids)), self.partitioner.data_parallelism
        size = -(-min(batch_size, 1 << (size - 1).bit_length()) // devices) * devices if size else 0
        if not size:
            return []
        decoder = BatchDecoder(
            self.module,
            self.partitioner,
            decoding,
            size,
            check_value("decoding: seed", seed, _Seed),
        )
        return decoder(self.params, ids, None, second)

    def _generate(
        self, branches: Sequence[Branch], seed: Any, config: DecodingConfig
    ) -> DecodingResult:
        """Decodes checked inputs; see `generation.generate`.

        Raises:
          ConfigError: on a seed that is not a whole number of 32 bits, the size that keys hold.
        """
        # Keys depend on a row's number, so its draws do not depend on the other rows.
        numbers = jnp.arange(len(jax.tree.leaves(branches)[0]))
        keys = row_keys(check_value("decoding: seed", seed, _Seed), numbers)
        decoded: DecodingResult = self._run_compiled(_generate, branches, keys, config=config)
        return decoded

    def _build_decoding_config(
        self, options: dict[str, Any], *, pmi: bool = False
    ) -> DecodingConfig:
        """Builds a config from decoding options, with `PMIConfig()` as default for PMI-Decode."""
        option_names = [field.name for field in dataclasses.fields(DecodingConfig)]
        for name in options:
            if name in option_names:
                continue
            if name in [field.name for field in dataclasses.fields(PMIConfig)]:
                advice = f" It is one of PMI-Decode: decode_pmi(…, pmi=PMIConfig({name}=…))."
            elif counterpart := advice_for(name):
                advice = f" {counterpart}"
            elif name.startswith("input_lengths"):
                advice = " An encoder-decoder's inputs end where their padding begins."
            else:
                choices = ["pro", "con", "knowledge", "history", "query", "seed", *option_names]
                options_text = ", ".join(["seed", *option_names])
                advice = f"{did_you_mean(name, choices)} The options: {options_text}."
            raise ConfigError(f"decoding: there is no option {name!r}.{advice}")
        config = DecodingConfig(**({"pmi": PMIConfig()} if pmi else {}) | options)
        if pmi and config.pmi is None:
            raise ConfigError("decoding: pmi = None; expected a PMIConfig, or call decode.")
        if config.pmi is not None and not pmi:
            raise ConfigError(
                f"decoding: pmi = {config.pmi!r}; expected None: PMI-Decode is decode_pmi, which "
                "takes the inputs with and without the document."
            )
        # JAX does not report an index out of range: such an id would silently do something else.
        config.check_vocabulary(self.config.vocab_size)
        return config


def _as_list(value: Any) -> Any:
    """Converts tuples, arrays and Series to lists; returns other values unchanged."""
    if hasattr(value, "tolist"):
        return value.tolist()
    return list(value) if isinstance(value, tuple) else value


def _rows_of(fields: Mapping[str, Any]) -> list[dict[str, Any]] | None:
    """Returns the fields of each row of a batch; None if they describe a single row.

    Raises:
      InputError: on lists of different lengths.
    """
    listed = {name: _as_list(value) for name, value in fields.items()}
    listed = {name: value for name, value in listed.items() if isinstance(value, list)}
    turns = listed.get("history", [])
    # Lists of arguments or knowledge, and a history that is a list of texts, belong to one row.
    if not {"query", "inputs"} & listed.keys() and all(isinstance(t, str) for t in turns):
        return None
    lengths = {name: len(value) for name, value in listed.items()}
    if len(set(lengths.values())) > 1:
        counts = ", ".join(f"{count} of {name}" for name, count in lengths.items())
        raise InputError(
            f"respond: the lists of a batch have one entry for each row, got {counts}; a single "
            "text is for all rows."
        )
    return [
        {name: listed[name][n] if name in listed else value for name, value in fields.items()}
        for n in range(next(iter(lengths.values())))
    ]


def hidden_states(
    module: Transformer, params: PyTree, inputs: Inputs | None, decoder_input: Array
) -> Any:
    """Returns the states before the output layer, [batch, length, embed], without dropout.

    `inputs` are the encoder's; None = a decoder-only model. The decoder's padding needs no mask: it
    is on the right, where no earlier token attends to it.
    """
    variables: PyTree = {"params": params}
    encoded = None
    if inputs is not None:
        encoded = module.apply(variables, inputs, enable_dropout=False, method="encode")
    return module.apply(
        variables, encoded, inputs, decoder_input, enable_dropout=False, method="decode_hidden"
    )


@functools.partial(jax.jit, static_argnums=0)
def next_logits(
    module: Transformer, params: PyTree, inputs: Inputs | None, decoder_input: Array
) -> Array:
    """Returns the logits after each of the decoder's tokens, float32 [batch, length, vocab]."""
    # Teacher forcing: computes all positions at once, from the given tokens.
    states = hidden_states(module, params, inputs, decoder_input)
    return output_layer(module, params).logits(states)
