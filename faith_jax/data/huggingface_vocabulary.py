"""Vocabularies of published Hugging Face folders, without Transformers and TensorFlow."""

import dataclasses
import functools
import pathlib
from collections.abc import Iterable
from typing import TYPE_CHECKING

from faith_jax.data.huggingface_tokenizers import build_tokenizer
from faith_jax.data.special_tokens import (
    NAMES,
    USUAL_NAMES,
    TokenizerConfig,
    read_tokenizer_config,
)
from faith_jax.data.tokenizer_base import TokenizerBase

if TYPE_CHECKING:
    import tokenizers

Ids = tuple[int, ...]


class HuggingFaceVocabulary(TokenizerBase):
    """A published tokenizer; satisfies `faith_jax.types.Tokenizer`.

    Ids are those that Transformers' AutoTokenizer gives for the same folder, special tokens that
    stand in a text included: they become their ids. Nothing is loaded from a network, and no code
    of the folder runs. Instances of one file share one tokenizer, which threads may use at once.

    Attributes:
      model_file: tokenizer.json, vocab.json or a SentencePiece model; files beside it say which
        tokens are special.
      extra_ids: 0; only T5's vocabularies have extra ids.
      tokenizer: the `tokenizers.Tokenizer`; leave its settings as they are.
      pad_id: the id of padding, None = there is none (GPT-2, Llama); so the other ids:
      bos_id: begins a sequence.
      eos_id: ends a sequence.
      unk_id: unknown text.
      cls_id: its encoding is what a classifier reads.
      sep_id: stands between two texts.
      mask_id: a masked token.
      prefix_ids: special ids in front of a single text.
      suffix_ids: special ids behind a single text.
      pair_ids: special ids in front of, between and behind two texts.
    """

    extra_ids = 0

    def __init__(self, model_file: str):
        """Loads the tokenizer, once for each file.

        Args:
          model_file: tokenizer.json, vocab.json with merges.txt beside it, or the SentencePiece
            model of DeBERTa, Llama or Gemma.

        Raises:
          ConfigError: a file is broken, foreign, or lacks what its kind needs.
        """
        self.model_file = model_file
        loaded = _load(model_file)
        self.tokenizer = loaded.tokenizer
        self._size = loaded.vocab_size
        self._silent = loaded.silent
        self.pad_id, self.bos_id = loaded.ids.get("pad"), loaded.ids.get("bos")
        self.eos_id, self.unk_id = loaded.ids.get("eos"), loaded.ids.get("unk")
        self.cls_id, self.sep_id = loaded.ids.get("cls"), loaded.ids.get("sep")
        self.mask_id = loaded.ids.get("mask")
        self.prefix_ids, self.suffix_ids = loaded.single
        self.pair_ids = loaded.pair

    @property
    def vocab_size(self) -> int:
        """Number of ids, special and added ones included."""
        return self._size

    def encode(self, s: str) -> list[int]:
        """Returns the ids of a text, without special tokens around it."""
        return self.tokenizer.encode(s, add_special_tokens=False).ids

    def encode_with_offsets(self, text: str) -> tuple[list[int], list[tuple[int, int]]]:
        """Returns the ids as `encode` does, and the characters that each stands for.

        Returns:
          The ids, and for each the offset of its first character and that behind its last, as
          the tokenizer has them: whether white space in front belongs to a token differs between
          families (GPT-2: yes, RoBERTa: no). Bytes of one character have its offsets.
        """
        encoding = self.tokenizer.encode(text, add_special_tokens=False)
        return encoding.ids, encoding.offsets

    def decode(self, ids: Iterable[int]) -> str:
        """Returns the text of the ids up to the first end token, without special tokens.

        Args:
          ids: integers [length]; those outside the vocabulary become nothing, such as the rows
            that pad a model's embeddings, and -1, the padding of models without a pad token.

        Returns:
          The text; white space as the tokens have it, nothing is tidied up.
        """
        known = [int(i) for i in ids if 0 <= i < self._size]
        if self.eos_id in known:
            known = known[: known.index(self.eos_id)]
        known = [i for i in known if i not in self._silent]
        return self.tokenizer.decode(known, skip_special_tokens=True)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, HuggingFaceVocabulary):
            return NotImplemented
        return self.model_file == other.model_file

    def __hash__(self) -> int:
        return hash(self.model_file)

    def __reduce__(self):
        return (HuggingFaceVocabulary, (self.model_file,))

    def __repr__(self) -> str:
        return f"HuggingFaceVocabulary({self.model_file!r})"


@dataclasses.dataclass(frozen=True)
class _Loaded:
    tokenizer: "tokenizers.Tokenizer"
    vocab_size: int
    ids: dict[str, int]
    silent: frozenset[int]
    single: tuple[Ids, Ids]
    pair: tuple[Ids, Ids, Ids]


@functools.cache
def _load(model_file: str) -> _Loaded:
    file = pathlib.Path(model_file)
    config = read_tokenizer_config(file.parent)
    tokenizer, tokenizer_class = build_tokenizer(file, config)
    ids = _special_ids(tokenizer, config, tokenizer_class)
    front, _, behind = _around(tokenizer, pair=False)
    return _Loaded(
        tokenizer,
        _vocab_size(tokenizer),
        ids,
        frozenset(ids.values()),
        (front, behind),
        _around(tokenizer, pair=True),
    )


def _vocab_size(tokenizer: "tokenizers.Tokenizer") -> int:
    # Ids of added tokens may leave gaps behind the vocabulary.
    added = max(tokenizer.get_added_tokens_decoder(), default=-1)
    return max(tokenizer.get_vocab_size(with_added_tokens=True), added + 1)


def _special_ids(
    tokenizer: "tokenizers.Tokenizer", config: TokenizerConfig, tokenizer_class: str
) -> dict[str, int]:
    """Returns the ids of the special tokens by name."""
    tokens = config.named(tokenizer_class)
    found = {}
    for name, token in tokens.items():
        index = tokenizer.token_to_id(token.content)
        if index is not None:
            found[name] = index
    if any(name in tokens for name in ("bos", "eos", "cls")):
        return found
    # No file names tokens: the model's own ids, and at last the usual names.
    present = {t.content: i for i, t in tokenizer.get_added_tokens_decoder().items()}
    for name in NAMES:
        if name in config.tokens:
            continue
        usual = [present[text] for text in USUAL_NAMES[name] if text in present]
        given = config.model_ids.get(name)
        if given is not None and tokenizer.id_to_token(given) is not None:
            found[name] = given
        elif usual:
            found[name] = usual[0]
    return found


def _around(tokenizer: "tokenizers.Tokenizer", pair: bool) -> tuple[Ids, Ids, Ids]:
    """Returns the ids that the tokenizer puts in front of, between and behind texts.

    The post-processor is tried on texts of one known token, since those of the vocabulary may
    have no text that gives a single token.
    """
    from tokenizers import Tokenizer, models

    probe = Tokenizer(models.WordLevel({"text": 0}, unk_token="text"))
    if tokenizer.post_processor is not None:
        probe.post_processor = tokenizer.post_processor
    encoding = probe.encode("text", "text" if pair else None)
    where = [i for i, text in enumerate(encoding.sequence_ids) if text is not None]
    first, last = where[0], where[-1]
    ids = encoding.ids
    return tuple(ids[:first]), tuple(ids[first + 1 : last]), tuple(ids[last + 1 :])
