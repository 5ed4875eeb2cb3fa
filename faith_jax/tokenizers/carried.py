"""A run's tokenizer: the one that its checkpoint carries, or the one that is given; and kept."""

import dataclasses
import json
import logging
import pathlib
from typing import Any

from faith_jax.core.errors import ConfigError
from faith_jax.core.files import written_whole
from faith_jax.models.config import TransformerConfig
from faith_jax.tokenizers.base import NAMES, Tokenizer
from faith_jax.tokenizers.match import check_vocabulary
from faith_jax.tokenizers.special_tokens import read_tokenizer_config
from faith_jax.tokenizers.vocabularies import (
    DEFAULT_EXTRA_IDS,
    EMBEDDED,
    find_tokenizer_file,
    load_vocabulary,
    set_default_vocabulary,
    tokenizer_folder,
)

logger = logging.getLogger("faith_jax")


@dataclasses.dataclass(frozen=True)
class RunVocabulary:
    """A run's tokenizer, and where it is from.

    Attributes:
      tokenizer: the run's.
      checkpoint: the checkpoint that the model is read from; None = there is none.
      carried: what that carries; None = nothing.
    """

    tokenizer: Tokenizer
    checkpoint: str | None = None
    carried: Tokenizer | None = None

    @classmethod
    def choose(
        cls, given: str | None, checkpoint: str | None, macro: str = "CHECKPOINT_PATH"
    ) -> "RunVocabulary":
        """Chooses a run's tokenizer, and makes it the one that our SeqIO tasks use.

        Args:
          given: VOCABULARY; None = what the checkpoint carries, or else the embedded one.
          checkpoint: the checkpoint that the model is read from; None = there is none.
          macro: the one that names it.

        Raises:
          ConfigError: there is no such vocabulary, or the checkpoint carries another one.
        """
        carried = None if checkpoint is None else carried_vocabulary(checkpoint)
        if given is not None:
            chosen = load_vocabulary(given)
            if carried is not None and not is_same_vocabulary(chosen, carried):
                raise ConfigError(
                    f"VOCABULARY = {given!r} is not what {macro} = {checkpoint!r} carries, "
                    f"{carried.model_file}: their files differ. Leave VOCABULARY out to take the "
                    "latter."
                )
        elif carried is not None:
            chosen = carried
            logger.info("VOCABULARY: %s, which the checkpoint carries", carried.model_file)
        else:
            chosen = load_vocabulary()
            why = "" if checkpoint is None else f", because {checkpoint} carries none"
            logger.info("VOCABULARY: %s%s", EMBEDDED, why)
        set_default_vocabulary(chosen)
        return cls(chosen, checkpoint, carried)

    def check(self, config: TransformerConfig, vocabulary: Any) -> None:
        """Checks that a vocabulary can be the model's; warns of ids without an embedding.

        Of the latter, published models have few; `check_ids` then looks at the texts.

        Args:
          config: the model's.
          vocabulary: ours, or one of SeqIO's that is none of ours.

        Raises:
          ConfigError: naming what differs.
        """
        known, carried, checkpoint = _known(vocabulary), self.carried, self.checkpoint
        is_own = bool(known and carried and is_same_vocabulary(known, carried))
        name = known.model_file if known else str(vocabulary)
        if carried is None and checkpoint is not None:
            name += f"; {checkpoint} carries none"
        missing = check_vocabulary(config, vocabulary, name, is_own, checkpoint)
        if missing:
            logger.warning(
                "The tokenizer has %d ids that the model has no embedding for, from %d on: a text "
                "with one of them is an error",
                missing,
                config.vocab_size,
            )


def carried_vocabulary(checkpoint: str | pathlib.Path) -> Tokenizer | None:
    """Returns the tokenizer that a checkpoint carries, None if it carries none.

    Args:
      checkpoint: a Hugging Face folder, a T5X checkpoint, an imported one, a run's MODEL_DIR or one
        of its steps; a prompt-tuned run's tokenizer may be its base model's.

    Raises:
      ConfigError: the files are not whole.
    """
    folder = tokenizer_folder(checkpoint)
    return None if folder is None else load_vocabulary(folder)


def is_same_vocabulary(given: Tokenizer, carried: Tokenizer) -> bool:
    """Whether a tokenizer gives the ids of one that a checkpoint carries, in whatever form."""
    if given == carried or given.fingerprint() == carried.fingerprint():
        return True
    form = pathlib.Path(carried.model_file).with_name(pathlib.Path(given.model_file).name)
    return form.is_file() and given.fingerprint() == load_vocabulary(form).fingerprint()


def check_kept_vocabulary(vocabulary: Any, model_dir: pathlib.Path) -> None:
    """Checks that a run resumes with the tokenizer that it began with, if that was kept.

    Raises:
      ConfigError: it is another one.
    """
    known = _known(vocabulary)
    if known is None or find_tokenizer_file(model_dir) is None:
        return
    kept = load_vocabulary(model_dir)
    if not is_same_vocabulary(known, kept):
        raise ConfigError(
            f"{model_dir}: this run began with another vocabulary, {kept.model_file}, than "
            f"{known.model_file}. Give what it began with, or another MODEL_DIR."
        )


def keep_vocabulary(vocabulary: Any, model_dir: pathlib.Path) -> None:
    """Writes a run's tokenizer into MODEL_DIR, if it is not there yet and is of a local file.

    Raises:
      ConfigError: it cannot be written, or another one is there.
    """
    known = _known(vocabulary)
    if known is None:
        logger.warning("The vocabulary %s is of no local file: it is not kept", vocabulary)
    elif find_tokenizer_file(model_dir) is not None:
        check_kept_vocabulary(known, model_dir)
    else:
        try:
            write_vocabulary(known, model_dir)
        except OSError as error:
            raise ConfigError(
                f"{model_dir}: the vocabulary cannot be written ({error.strerror or error})."
            ) from None


def write_vocabulary(tokenizer: Tokenizer, folder: pathlib.Path) -> None:
    """Writes a tokenizer into a checkpoint's folder, where `load_vocabulary` finds it.

    T5's SentencePiece model becomes spiece.model, any other tokenizer a tokenizer.json.
    tokenizer_config.json says what these have no place for: the number of extra ids, if it is not
    T5's usual one, or the settings of the tokenizer's folder and its special tokens by name.

    Args:
      tokenizer: of any folder.
      folder: of the checkpoint; files of the same names are replaced.
    """
    said: dict[str, Any] = {}
    if tokenizer.is_t5:
        _write(folder / "spiece.model", pathlib.Path(tokenizer.model_file).read_bytes())
        if tokenizer.extra_ids != DEFAULT_EXTRA_IDS:
            said = {"extra_ids": tokenizer.extra_ids}
    else:
        _write(folder / "tokenizer.json", tokenizer.tokenizer.to_str(pretty=True).encode())
        config = read_tokenizer_config(pathlib.Path(tokenizer.model_file).parent)
        ids = {name: getattr(tokenizer, f"{name}_id") for name in NAMES}
        said = dict(config.options) | {
            f"{name}_token": None if index is None else tokenizer.tokenizer.id_to_token(index)
            for name, index in ids.items()
        }
        if config.tokenizer_class:
            said.setdefault("tokenizer_class", config.tokenizer_class)
    if said:
        text = json.dumps(said, indent=2, ensure_ascii=False) + "\n"
        _write(folder / "tokenizer_config.json", text.encode())


def _known(vocabulary: Any) -> Tokenizer | None:
    """Returns our tokenizer of a vocabulary's file; None if it is of no file here."""
    if isinstance(vocabulary, Tokenizer):
        return vocabulary
    file = getattr(vocabulary, "sentencepiece_model_file", "")
    return load_vocabulary(file, vocabulary.extra_ids) if pathlib.Path(file).is_file() else None


def _write(path: pathlib.Path, content: bytes) -> None:
    with written_whole(path) as beside:
        beside.write_bytes(content)
