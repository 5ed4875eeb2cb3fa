"""Chooses a run's tokenizer, checks that it fits the model, and stores it with the run.

A run uses VOCABULARY, which must not contradict its checkpoint's tokenizer; if it is not set, the
checkpoint's tokenizer; or else the embedded vocabulary. It stores its tokenizer in MODEL_DIR.
"""

import dataclasses
import json
import logging
import pathlib
from collections.abc import Iterator
from typing import Any

from faith_jax.checkpoints.embedded import checkpoint_path
from faith_jax.core.errors import ConfigError
from faith_jax.core.files import atomic_file, report_write_errors
from faith_jax.core.templates import PUBLISHED, choose_notation
from faith_jax.models.config import TransformerConfig
from faith_jax.tokenizers import byte_level
from faith_jax.tokenizers.base import NAMES, Tokenizer
from faith_jax.tokenizers.special_tokens import (
    ids_of,
    model_config,
    read_json_if_any,
    read_tokenizer_config,
)
from faith_jax.tokenizers.vocabularies import (
    DEFAULT_EXTRA_IDS,
    EMBEDDED,
    NOTATION,
    find_tokenizer_file,
    has_texts,
    load_vocabulary,
    name_of,
    set_default_vocabulary,
    special_id,
    tokenizer_folder,
    tokenizer_of,
)

logger = logging.getLogger("faith_jax")

# A tokenizer may have a few more ids than its model has embeddings; BART-large-CNN's has one more.
_MORE_IDS = 256


@dataclasses.dataclass(frozen=True)
class RunVocabulary:
    """A run's tokenizer, its model's checkpoint, and the tokenizer that the checkpoint carries.

    `requested` is the value of VOCABULARY.
    """

    tokenizer: Tokenizer
    checkpoint: str | None = None
    carried: Tokenizer | None = None
    requested: str | None = None

    @classmethod
    def choose(
        cls, requested: str | None, checkpoint: str | None, macro: str = "CHECKPOINT_PATH"
    ) -> "RunVocabulary":
        """Chooses a run's tokenizer, and makes our SeqIO tasks use it.

        Args:
          requested: VOCABULARY; None = the checkpoint's tokenizer, or else the embedded one.
          checkpoint: the model's checkpoint; None = a new model.
          macro: the gin macro of the checkpoint.

        Raises:
          ConfigError: `requested` does not exist, or the checkpoint carries another tokenizer.
        """
        carried = None if checkpoint is None else carried_vocabulary(checkpoint)
        if requested is not None:
            loaded = load_vocabulary(requested)
            if carried is not None and not is_same_vocabulary(loaded, carried):
                raise ConfigError(
                    f"VOCABULARY = {requested!r} is not what {macro} = {checkpoint!r} carries, "
                    f"{carried.model_file}: their files differ. Leave VOCABULARY out to take the "
                    "latter."
                )
            loaded = loaded if carried is None else carried  # has the delimiters of its training
        elif carried is not None:
            loaded = carried
        else:
            loaded = load_vocabulary()
        set_default_vocabulary(loaded)
        return cls(loaded, checkpoint, carried, requested)

    def log(self, has_formats: bool = True) -> None:
        """Logs the tokenizer and its source, and its delimiters if rows have our formats."""
        if self.requested is None and self.carried is not None:
            logger.info("VOCABULARY: %s, which the checkpoint carries", self.carried.model_file)
        elif self.requested is None:
            why = f", because {self.checkpoint} carries none" if self.checkpoint else ""
            logger.info("VOCABULARY: %s%s", EMBEDDED, why)
        for pair, published in zip(self.tokenizer.notation, PUBLISHED, strict=True):
            if has_formats and pair != published:
                logger.info(
                    "Delimiters: %s in place of %s, which the vocabulary cannot write",
                    pair or "none",
                    published,
                )

    def log_of_task(self, vocabulary: Any, task_name: str, has_formats: bool) -> None:
        """Logs the tokenizer of a task's rows, which may differ from the run's."""
        ours = _our_tokenizer(vocabulary)
        if ours == self.tokenizer:
            return self.log(has_formats)
        name = name_of(ours or vocabulary)
        is_given = ours is not None and is_same_vocabulary(ours, self.tokenizer)
        ignored = f"; VOCABULARY = {self.requested!r} has no effect, because this task sets another"
        logger.info(
            "VOCABULARY: %s, of the task %s%s",
            name,
            task_name,
            "" if self.requested is None or is_given else ignored,
        )

    def resume(self, model_dir: pathlib.Path) -> "RunVocabulary":
        """Returns the vocabulary of a resumed run, with the tokenizer that it stored, if any."""
        if find_tokenizer_file(model_dir) is None:
            return self
        kept_tokenizer = load_vocabulary(model_dir)
        if not is_same_vocabulary(self.tokenizer, kept_tokenizer):
            return self  # `check_kept_vocabulary` reports the difference
        set_default_vocabulary(kept_tokenizer)
        return dataclasses.replace(self, tokenizer=kept_tokenizer)

    def check(self, config: TransformerConfig, vocabulary: Any) -> None:
        """Checks that a vocabulary, ours or SeqIO's, fits the model.

        Warns of ids without an embedding, which occur in a few published models; `check_ids` then
        checks the texts.

        Raises:
          ConfigError: the vocabulary does not fit; the message names the differences.
        """
        ours, carried, checkpoint = _our_tokenizer(vocabulary), self.carried, self.checkpoint
        is_own = bool(ours and carried and is_same_vocabulary(ours, carried))
        name = name_of(ours or vocabulary)
        if carried is None and checkpoint is not None:
            name += f"; {checkpoint} carries none"
        if missing := check_vocabulary(config, vocabulary, name, is_own, checkpoint):
            logger.warning(
                "The tokenizer has %d ids that the model has no embedding for, from %d on: a text "
                "with one of them is an error",
                missing,
                config.vocab_size,
            )


def carried_vocabulary(checkpoint: str | pathlib.Path) -> Tokenizer | None:
    """Returns the tokenizer that a checkpoint carries, or None."""
    folder = tokenizer_folder(checkpoint)
    return None if folder is None else load_vocabulary(folder)


def is_same_vocabulary(tokenizer: Tokenizer, carried: Tokenizer) -> bool:
    """Returns whether a tokenizer has the ids of a checkpoint's tokenizer, in any of its forms."""
    if tokenizer is carried or tokenizer.fingerprint() == carried.fingerprint():
        return True
    form = pathlib.Path(carried.model_file).with_name(pathlib.Path(tokenizer.model_file).name)
    if form.name in byte_level.DESCRIPTIONS:  # ByT5 has only one form
        return False
    return form.is_file() and tokenizer.fingerprint() == load_vocabulary(form).fingerprint()


def check_vocabulary(
    config: TransformerConfig,
    vocabulary: Any,
    name: str,
    is_own: bool = False,
    checkpoint: str | pathlib.Path | None = None,
    option: str = "VOCABULARY",
) -> int:
    """Checks that a vocabulary fits a model: its number of ids and its special tokens.

    Models may round the number of ids up. The tokenizer that a checkpoint carries may also have a
    few ids without an embedding, which texts must then not use (`check_ids`).

    Args:
      config: the configuration of the model.
      vocabulary: a vocabulary, ours or SeqIO's.
      name: the name of the vocabulary, for messages.
      is_own: whether the checkpoint carries the vocabulary.
      checkpoint: the model's checkpoint, whose files may name more special tokens.
      option: the option that sets another vocabulary, for messages.

    Returns:
      The number of ids without an embedding: 0 except for a few published models.

    Raises:
      ConfigError: the vocabulary does not fit; the message names all differences.
    """
    if not has_texts(vocabulary):  # rows already have the model's ids, which are checked one by one
        return 0
    folder = None if checkpoint is None else checkpoint_path(checkpoint)
    if misfits := list(_find_misfits(config, vocabulary, name, is_own, folder)):
        problems = ". ".join(problem for problem, _ in misfits)
        new = " ".join(
            f"--gin.config.TransformerConfig.{setting}" for _, setting in misfits if setting
        )
        instead = f"; for a new model, {new}" if new and option == "VOCABULARY" else ""
        raise ConfigError(
            f"{problems}: they do not belong together. Set {option} to the folder or file of the "
            f"model's own tokenizer{instead}."
        )
    return max(0, vocabulary.vocab_size - config.vocab_size)


def _find_misfits(
    config: TransformerConfig,
    vocabulary: Any,
    name: str,
    is_own: bool,
    folder: pathlib.Path | None,
) -> Iterator[tuple[str, str]]:
    """Yields each mismatch, with the setting that a new model would need, if any."""
    size, rows = vocabulary.vocab_size, config.vocab_size
    missing = max(0, size - rows)
    fits = missing < _MORE_IDS if is_own else missing == 0
    if not fits or rows >= size + max(_MORE_IDS, size // 32):
        yield f"The vocabulary has {size} ids ({name}) but the model {rows}", ""
    names = ("pad", "bos", "eos", "unk", "cls", "sep")
    ids = {token: special_id(vocabulary, token) for token in names}
    special = {token: index for token, index in ids.items() if index is not None and index >= 0}
    begin, end, pad = ids["bos"], ids["eos"], ids["pad"]

    def differs(token_name: str, vocabulary_id: int | None, ours: object) -> str:
        id_text = "no such token" if vocabulary_id is None else f"id {vocabulary_id}"
        return f"The vocabulary's {token_name} is {id_text} ({name}) but the model's is id {ours}"

    ends = dict.fromkeys(config.eos_ids)
    begins: tuple[int, ...] = ()
    if folder is not None:
        more = ids_of(read_json_if_any(folder / "generation_config.json").get("eos_token_id"))
        ends |= dict.fromkeys(more)
        begins = ids_of(model_config(folder).get("bos_token_id"))
    # An encoder-only model writes no end token, and some models do not name theirs.
    if not config.is_encoder_only and ends and end not in ends:
        setting = "" if end is None else f"eos_ids=({end},)"
        yield differs("end token", end, " or ".join(map(str, ends))), setting
    # The padding id of a decoder-only model does not matter, as its rows come with their lengths.
    unused = config.pad_id < 0 or (is_own and config.is_decoder_only)
    another = pad is None and config.pad_id in special.values()
    if not unused and pad != config.pad_id and not another:
        yield differs("padding", pad, config.pad_id), "" if pad is None else f"pad_id={pad}"
    if config.is_decoder_only and begins and begin not in (None, -1, begins[0]):
        yield differs("begin token", begin, begins[0]), ""
    start = config.decoder_start_id
    has_decoder_start = not (is_own or config.is_encoder_only or config.is_decoder_only)
    if has_decoder_start and start not in (*special.values(), config.pad_id):
        named = ", ".join(f"{token} {index}" for token, index in special.items())
        yield (
            (
                f"The model's decoder starts with id {start}, which is no special token of the "
                f"vocabulary ({name}: {named})"
            ),
            "",
        )


def check_kept_vocabulary(vocabulary: Any, model_dir: pathlib.Path) -> None:
    """Raises a ConfigError if a run resumes with another tokenizer than it has stored."""
    ours = _our_tokenizer(vocabulary)
    if ours is None or find_tokenizer_file(model_dir) is None:
        return
    kept_tokenizer = load_vocabulary(model_dir)
    if not is_same_vocabulary(ours, kept_tokenizer):
        raise ConfigError(
            f"{model_dir}: this run began with another vocabulary, {kept_tokenizer.model_file}, "
            f"than {ours.model_file}. Give what it began with, or another MODEL_DIR."
        )


def keep_vocabulary(vocabulary: Any, model_dir: pathlib.Path) -> None:
    """Writes a run's tokenizer into MODEL_DIR, unless one is there or it is not of our kinds."""
    ours = _our_tokenizer(vocabulary)
    if ours is None:
        name = name_of(vocabulary)
        logger.warning("The vocabulary %s is of no file that we read: it is not kept", name)
    elif find_tokenizer_file(model_dir) is not None:
        check_kept_vocabulary(ours, model_dir)
    else:
        with report_write_errors(f"{model_dir}: the vocabulary"):
            write_vocabulary(ours, model_dir)


def write_vocabulary(tokenizer: Tokenizer, folder: pathlib.Path) -> None:
    """Writes a tokenizer into a checkpoint's folder, where `load_vocabulary` finds it.

    T5's SentencePiece model becomes spiece.model, any other tokenizer a tokenizer.json.
    tokenizer_config.json holds the rest: the number of extra ids, if it is not T5's usual one, or
    the settings in the tokenizer's folder and its special tokens by name; and the delimiters of
    formats, unless they are the published ones and the vocabulary can write them.
    """
    settings: dict[str, Any] = {}
    if tokenizer.is_t5:
        _write_atomically(folder / "spiece.model", pathlib.Path(tokenizer.model_file).read_bytes())
        if tokenizer.extra_ids != DEFAULT_EXTRA_IDS:
            settings = {"extra_ids": tokenizer.extra_ids}
    elif tokenizer.tokenizer is not None:
        _write_atomically(
            folder / "tokenizer.json", tokenizer.tokenizer.to_str(pretty=True).encode()
        )
        config = read_tokenizer_config(pathlib.Path(tokenizer.model_file).parent)
        ids = {name: getattr(tokenizer, f"{name}_id") for name in NAMES}
        settings = dict(config.options) | {
            f"{name}_token": None if index is None else tokenizer.tokenizer.id_to_token(index)
            for name, index in ids.items()
        }
        if config.tokenizer_class:
            settings.setdefault("tokenizer_class", config.tokenizer_class)
    if tokenizer.notation != PUBLISHED or choose_notation(tokenizer.writes) != PUBLISHED:
        settings[NOTATION] = tokenizer.notation._asdict()
    settings |= tokenizer.settings_beside()
    if settings:
        text = json.dumps(settings, indent=2, ensure_ascii=False) + "\n"
        _write_atomically(folder / "tokenizer_config.json", text.encode())


def _write_atomically(path: pathlib.Path, content: bytes) -> None:
    with atomic_file(path) as beside:
        beside.write_bytes(content)


def _our_tokenizer(vocabulary: Any) -> Tokenizer | None:
    """Returns our tokenizer for a vocabulary, or None if we cannot read it."""
    tokenizer = tokenizer_of(vocabulary)
    return tokenizer if isinstance(tokenizer, Tokenizer) else None
