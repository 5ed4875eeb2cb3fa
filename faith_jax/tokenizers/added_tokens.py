"""Tokens that were added to a vocabulary, with the ids that the files beside it give them.

They are in tokenizer_config.json (`added_tokens_decoder`), added_tokens.json and tokenizer.json. A
text is cut at them, as Transformers does, and the parts between are encoded each by itself.
"""

import pathlib
import re
from collections.abc import Iterator, Mapping

from faith_jax.core.errors import ConfigError
from faith_jax.core.rows import read_json
from faith_jax.tokenizers.special_tokens import Token, tokens_by_id


class AddedTokens:
    """Tokens by their ids; without any, a text is one part."""

    def __init__(self, tokens: Mapping[int, Token]):
        self.tokens = dict(sorted(tokens.items()))
        self.texts = {index: token["content"] for index, token in self.tokens.items()}
        self._ids = {text: index for index, text in self.texts.items()}
        forms = []
        # Of two that begin alike, the longer one is taken.
        for token in sorted(tokens.values(), key=lambda token: -len(token["content"])):
            form = re.escape(token["content"])
            forms.append(rf"(?<!\w){form}(?!\w)" if token.get("single_word") else form)
        self._pattern = re.compile("|".join(forms)) if forms else None

    @property
    def size(self) -> int:
        """Number of ids that a vocabulary with them has at least."""
        return max(self.texts, default=-1) + 1

    def parts(self, text: str) -> Iterator[tuple[int, str, int | None]]:
        """Yields the parts of a text, with their start and, for an added token, its id."""
        end = 0
        for match in self._pattern.finditer(text) if self._pattern else ():
            if end < match.start():
                yield end, text[end : match.start()], None
            yield match.start(), match.group(), self._ids[match.group()]
            end = match.end()
        if end < len(text) or not text:
            yield end, text[end:], None


def read_added_tokens(
    folder: pathlib.Path, pieces: Mapping[int, str], name: str
) -> dict[int, Token]:
    """Reads the tokens that lie behind a vocabulary's own pieces, extra ids among these.

    Args:
      folder: of the vocabulary and the files beside it.
      pieces: by id.
      name: the vocabulary's file, for messages.

    Raises:
      ConfigError: a file is broken, or two files give an id to different tokens, or a token
        different ids.
    """
    # Ours have the space in front that SeqIO's extra ids have.
    texts = {
        index: piece[1:] if piece.startswith("\u2581<extra_id_") else piece
        for index, piece in pieces.items()
    }
    ids = {text: index for index, text in texts.items()}
    added: dict[int, Token] = {}
    origin: dict[int, str] = {}
    for file, tokens in _tokens_of_files(folder):
        for index, token in tokens.items():
            text, problem = token["content"], ""
            text_before, id_before = texts.get(index), ids.get(text)
            if text_before is None and id_before is None:
                added[index], origin[index] = token, file
                texts[index], ids[text] = text, index
            elif text_before is None and id_before is not None:
                first = origin.get(id_before, name)
                problem = f"{text!r} has the id {index} in {file} but {id_before} in {first}"
            elif text not in (text_before, pieces.get(index)):
                first = origin.get(index, name)
                problem = f"the id {index} is {text!r} in {file} but {text_before!r} in {first}"
            if problem:
                raise ConfigError(
                    f"Vocabulary {folder}: its files disagree: {problem}; keep those of the "
                    "model's training."
                )
    return added


def _tokens_of_files(folder: pathlib.Path) -> Iterator[tuple[str, dict[int, Token]]]:
    """Yields each file beside a vocabulary that there is, and its tokens by id."""
    for file in ("tokenizer_config.json", "added_tokens.json", "tokenizer.json"):
        if not (folder / file).is_file():
            continue
        content = read_json(folder / file)
        if file == "tokenizer_config.json":
            tokens = tokens_by_id(content.get("added_tokens_decoder") or {}, folder)
        elif file == "added_tokens.json":
            tokens = tokens_by_id({index: text for text, index in content.items()}, folder)
        else:
            try:
                vocabulary = content["model"].get("vocab", [])
                if isinstance(vocabulary, dict):
                    pieces = {index: text for text, index in vocabulary.items()}
                else:
                    pieces = {index: text for index, (text, _) in enumerate(vocabulary)}
                added = {
                    token["id"]: {name: value for name, value in token.items() if name != "id"}
                    for token in content.get("added_tokens") or []
                }
            except (AttributeError, KeyError, TypeError, ValueError):
                raise ConfigError(
                    f"Vocabulary {folder}: tokenizer.json: expected a tokenizer of Hugging Face's, "
                    "got a file without its fields; copy it again, or remove it."
                ) from None
            tokens = tokens_by_id(pieces, folder) | tokens_by_id(added, folder)
        yield file, tokens
