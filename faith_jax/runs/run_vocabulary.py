"""The vocabulary of a run: the one that its checkpoint carries, or the one that is given."""

import dataclasses
import logging
import pathlib
from typing import Any

from faith_jax.data.carried_vocabulary import (
    carried_vocabulary,
    is_same_vocabulary,
    write_vocabulary,
)
from faith_jax.data.tokenizer_folders import find_tokenizer_file
from faith_jax.data.vocabularies import (
    EMBEDDED,
    VocabularySetting,
    default_vocabulary,
    default_vocabulary_setting,
    set_default_vocabulary,
)
from faith_jax.data.vocabulary_match import SaidTokens, check_vocabulary
from faith_jax.errors import ConfigError
from faith_jax.models.config import TransformerConfig

logger = logging.getLogger("faith_jax")


@dataclasses.dataclass(frozen=True)
class RunVocabulary:
    """What is known of a run's vocabulary.

    Attributes:
      checkpoint: the checkpoint that the model is read from; None = there is none.
      carried: what that carries; None = nothing.
    """

    checkpoint: str | None = None
    carried: VocabularySetting | None = None

    @classmethod
    def choose(
        cls, given: str | None, checkpoint: str | None, macro: str = "CHECKPOINT_PATH"
    ) -> "RunVocabulary":
        """Sets the default vocabulary for a run.

        Args:
          given: VOCABULARY; None = what the checkpoint carries, or else the embedded one.
          checkpoint: the checkpoint that the model is read from; None = there is none.
          macro: the one that names it.

        Raises:
          ConfigError: there is no such vocabulary, or the checkpoint carries another one.
        """
        carried = None if checkpoint is None else carried_vocabulary(checkpoint)
        if given is not None:
            set_default_vocabulary(given)
            if carried is not None and not is_same_vocabulary(
                default_vocabulary_setting(), carried
            ):
                raise ConfigError(
                    f"VOCABULARY = {given!r} is not what {macro} = {checkpoint!r} carries, "
                    f"{carried.model_file}: their files differ. Leave VOCABULARY out to take the "
                    "latter."
                )
        elif carried is not None:
            set_default_vocabulary(pathlib.Path(carried.model_file), carried.extra_ids)
            logger.info("VOCABULARY: %s, which the checkpoint carries", carried.model_file)
        else:
            set_default_vocabulary(EMBEDDED)
            why = "" if checkpoint is None else f", because {checkpoint} carries none"
            logger.info("VOCABULARY: %s%s", EMBEDDED, why)
        return cls(checkpoint, carried)

    def check(self, config: TransformerConfig, vocabulary: Any) -> int:
        """Checks that a vocabulary can be the model's.

        Args:
          config: the model's.
          vocabulary: ours, or a task's.

        Returns:
          How many of its ids the model has no embedding for, 0 but for few published models; then
          `check_ids` has to look at the texts.

        Raises:
          ConfigError: naming what differs.
        """
        setting = vocabulary_setting_of(vocabulary)
        is_own = (
            setting is not None
            and self.carried is not None
            and is_same_vocabulary(setting, self.carried)
        )
        said = None if self.checkpoint is None else SaidTokens.read(self.checkpoint)
        name = str(vocabulary) if setting is None else setting.model_file
        if self.carried is None and self.checkpoint is not None:
            name += f"; {self.checkpoint} carries none"
        missing = check_vocabulary(config, _resolved(vocabulary), name, is_own, said)
        if missing:
            logger.warning(
                "The tokenizer has %d ids that the model has no embedding for, from %d on: texts "
                "that make them are refused",
                missing,
                config.vocab_size,
            )
        return missing


def _resolved(vocabulary: Any) -> Any:
    """Returns our vocabulary where a task's stands for it."""
    from faith_jax.data.seqio_vocabularies import DefaultVocabulary

    return default_vocabulary() if isinstance(vocabulary, DefaultVocabulary) else vocabulary


def vocabulary_setting_of(vocabulary: Any) -> VocabularySetting | None:
    """Returns the file of a vocabulary, ours or SeqIO's; None for one that is of no such file."""
    found = _resolved(vocabulary)
    file = getattr(found, "model_file", None) or getattr(found, "sentencepiece_model_file", None)
    if not file or not pathlib.Path(str(file)).is_file():
        return None
    return VocabularySetting(str(file), int(getattr(found, "extra_ids", 0) or 0))


def check_kept_vocabulary(vocabulary: Any, model_dir: pathlib.Path) -> None:
    """Checks that a run goes on with the vocabulary that it began with, where that was kept.

    Raises:
      ConfigError: it is another one.
    """
    setting = vocabulary_setting_of(vocabulary)
    if setting is None or find_tokenizer_file(model_dir) is None:
        return
    carried = carried_vocabulary(model_dir)
    if carried is not None and not is_same_vocabulary(setting, carried):
        raise ConfigError(
            f"{model_dir}: this run began with another vocabulary, {carried.model_file}, than "
            f"{setting.model_file}. Give what it began with, or another MODEL_DIR."
        )


def keep_vocabulary(vocabulary: Any, model_dir: pathlib.Path) -> None:
    """Writes a run's vocabulary into MODEL_DIR, where it is not there yet.

    Args:
      vocabulary: ours, or a task's; one that is of no file on this machine is not written.
      model_dir: of the run.

    Raises:
      ConfigError: it cannot be written.
    """
    setting = vocabulary_setting_of(vocabulary)
    if setting is None:
        logger.warning("The vocabulary %s is of no local file: it is not kept", vocabulary)
        return
    if find_tokenizer_file(model_dir) is not None:
        check_kept_vocabulary(vocabulary, model_dir)
        return
    try:
        write_vocabulary(setting, model_dir)
    except OSError as error:
        raise ConfigError(
            f"{model_dir}: the vocabulary cannot be written ({error.strerror or error})."
        ) from None
