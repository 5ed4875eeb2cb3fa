"""ByT5's tokenizer: bytes shifted by three special ids, without a file of pieces."""

import hashlib
import pathlib
from collections.abc import Iterable
from typing import Any

from faith_jax.core.errors import ConfigError
from faith_jax.tokenizers.base import Tokenizer
from faith_jax.tokenizers.special_tokens import (
    BYT5,
    AddedTokens,
    model_config,
    read_added_tokens,
    read_json_if_any,
)

# The files that may name a folder's tokenizer as ByT5's, in the order of the search.
DESCRIPTIONS = ("tokenizer_config.json", "config.json", "model.json")
EXTRA_IDS = 125  # as in the published ByT5 models, which have 384 ids
_SPECIAL = ("<pad>", "</s>", "<unk>")
_BYTES = 256


class ByteVocabulary(Tokenizer):
    """Ids of bytes after padding 0, end 1 and unknown 2, as in `seqio.ByteVocabulary`.

    The extra ids follow the bytes. They stand for no text, unless files in the folder name tokens
    with their ids (`<extra_id_0>` in newer folders of Transformers).

    Raises:
      ConfigError: a file in the folder is broken, or two files disagree.
    """

    def __init__(self, model_file: str, extra_ids: int):
        first = len(_SPECIAL)
        pieces = dict(enumerate(_SPECIAL)) | {first + i: f"<0x{i:02X}>" for i in range(_BYTES)}
        path = pathlib.Path(model_file)
        self._added = AddedTokens(read_added_tokens(path.parent, pieces, "ByT5's tokenizer"))
        self.added_tokens = self._added.texts
        special = {"pad": 0, "eos": 1, "unk": 2}
        size = max(first + _BYTES + extra_ids, self._added.size)
        around, pair = ((), (1,)), ((), (1,), (1,))
        super().__init__(None, model_file, size, special, around, pair, extra_ids)

    def text_ids(self, text: str) -> list[int]:
        return self.text_ids_with_offsets(text)[0]

    def text_ids_with_offsets(self, text: str) -> tuple[list[int], list[tuple[int, int]]]:
        ids: list[int] = []
        spans: list[tuple[int, int]] = []
        for start, part, token in self._added.parts(text):
            if token is not None:
                ids.append(token)
                spans.append((start, start + len(part)))
                continue
            for place, character in enumerate(part, start):
                # A lone half of a surrogate pair has no bytes, and is replaced.
                coded = character.encode("utf-8", "replace")
                ids += [len(_SPECIAL) + byte for byte in coded]
                spans += [(place, place + 1)] * len(coded)
        return ids, spans

    def decode(self, ids: Iterable[int]) -> str:
        decoded = bytearray()
        for token in map(int, ids):
            if token == self.eos_id:
                break
            if token in self.added_tokens:
                decoded += self.added_tokens[token].encode()
            elif len(_SPECIAL) <= token < len(_SPECIAL) + _BYTES:
                decoded.append(token - len(_SPECIAL))
        return decoded.decode("utf-8", "ignore")

    def stored_piece(self, token: int) -> str | None:
        if token < len(_SPECIAL):
            return _SPECIAL[token]
        byte = token - len(_SPECIAL)
        if byte < _BYTES:
            return chr(byte) if byte < 128 else f"<0x{byte:02X}>"
        return self.added_tokens.get(token)

    def settings_beside(self) -> dict[str, Any]:
        tokens = {str(index): token for index, token in self._added.tokens.items()}
        settings: dict[str, Any] = {"tokenizer_class": BYT5, "extra_ids": self.extra_ids}
        return settings | ({"added_tokens_decoder": tokens} if tokens else {})

    def fingerprint(self) -> str:
        content = BYT5, self.extra_ids, sorted(self.added_tokens.items())
        return hashlib.sha256(repr(content).encode()).hexdigest()


def byt5_file(folder: pathlib.Path) -> pathlib.Path | None:
    """Returns the file that names a folder's tokenizer as ByT5's, or None if it is another."""
    options = read_json_if_any(folder / DESCRIPTIONS[0])
    try:
        model = model_config(folder)
    except ConfigError:  # reported when the model is opened
        model = {}
    name = options.get("tokenizer_class") or model.get("tokenizer_class")
    if name is None and options and model.get("model_type") == "t5":
        name = BYT5 if model.get("vocab_size") == len(_SPECIAL) + _BYTES + EXTRA_IDS else None
    if name != BYT5:
        return None
    return next(folder / file for file in DESCRIPTIONS if (folder / file).is_file())


def describes(file: pathlib.Path) -> bool:
    """Returns whether a file is the one that names its folder's tokenizer as ByT5's."""
    return file.name in DESCRIPTIONS and byt5_file(file.parent) == file
