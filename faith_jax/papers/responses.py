"""What runs that make data share: a checkpoint's responses, however rows are split; the output."""

import dataclasses
import logging
import pathlib
import shlex
from collections.abc import Sequence
from typing import Any

from faith_jax.checkpoints.identity import checkpoint_digest
from faith_jax.core.errors import ConfigError, pluralize
from faith_jax.core.files import is_finished, move_into_place
from faith_jax.datasets.input_rows import InputRow
from faith_jax.decoding.config import DecodingConfig
from faith_jax.models.partitioning import make_partitioner
from faith_jax.papers.options import GeneratorOptions
from faith_jax.runs import setup
from faith_jax.runs.data.tasks import prepare
from faith_jax.tokenizers.carried import RunVocabulary

logger = logging.getLogger("faith_jax")


class Responder:
    """Samples a response to each row.

    A row's number determines its randomness, so that it gets the same response in any batch, except
    for rounding. The checkpoint must be a language model, as `check` ensures.
    """

    def __init__(self, checkpoint: str, options: GeneratorOptions, temperature: float = 1.0):
        vocabulary = RunVocabulary.choose(options.vocabulary, checkpoint)
        loaded = setup.load_for_inference(checkpoint, make_partitioner)
        vocabulary.check(loaded[0].config, vocabulary.tokenizer)
        vocabulary.log()
        decoding = DecodingConfig(options.max_length, temperature=temperature, top_p=options.top_p)
        self._read, self._decoder, self._params = setup.prepare_decoding(
            checkpoint, loaded, vocabulary.tokenizer, decoding, options.batch_size, options.seed,
            (options.max_input_length, "--max-input-length", "knowledge"), "--max-length",
        )  # fmt: skip
        self._checkpoint, self._rows, self._cut = checkpoint, 0, 0

    def __call__(self, rows: Sequence[InputRow], numbers: Sequence[int]) -> list[str]:
        """Returns the responses to rows with these numbers; long inputs lose knowledge.

        Raises:
          InputError: on an input that is too long even without its knowledge.
        """
        inputs = [self._read(row) for row in rows]
        self._rows += len(rows)
        self._cut += sum(bool(tokens.cut) for tokens in inputs)
        ids, second = [tokens.ids for tokens in inputs], [tokens.second for tokens in inputs]
        decoded = self._decoder(self._params, ids, numbers, second)
        decode = self._read.tokenizer.decode
        return [decode([int(token) for token in best.tokens]) for best, *_ in decoded]

    def tell_cut(self) -> None:
        """Warns if knowledge was cut."""
        if self._cut:
            logger.warning(
                "%s: the knowledge of %d of %s was cut to --max-input-length",
                self._checkpoint,
                self._cut,
                pluralize(self._rows, "input"),
            )


def new_run(options: Any) -> tuple[pathlib.Path, dict[str, Any]]:
    """Returns the output folder of options, and the options that a resumed run must share.

    Raises:
      ConfigError: if the folder exists.
    """
    target = pathlib.Path(options.output).expanduser()
    if is_finished(target):
        raise ConfigError(f"--output: {target} exists already; remove it or name another.")
    settings = dataclasses.asdict(options)
    return target, {n: value for n, value in settings.items() if n not in ("output", "restart")}


def check(**models: str) -> dict[str, Any]:
    """Returns the digests of models by option; raises a ConfigError unless they write text."""
    digests = {}
    for option, path in models.items():
        if path:
            setup.check_language_model(f"--{option.replace('_', '-')}", path)
            digests[option] = checkpoint_digest(path)
    return digests


def prepare_in_place(data_set: str, folder: pathlib.Path, target: pathlib.Path) -> str:
    """Prepares a data set of a folder's files, moves all to `target`, and returns a line on it."""
    for line in prepare(data_set, str(folder / "tfds"), str(folder), tell_ignored=False):
        logger.info("%s", line.replace(str(folder), str(target)))  # the final place
    move_into_place(folder, target)
    data_dir = target / "tfds"
    return f"{data_dir}: read it with FAITH_JAX_DATA_DIR={shlex.quote(str(data_dir))}"
