"""Control tokens that say how faithful a response is (CTRL: Rashkin 2021; Dziri 2022, section 5.2).

Three tokens precede a generator's input: whether the response uses the first person, how much of it
is in the knowledge, and whether the knowledge entails it. In training they describe the response;
at inference they ask for a response that is objective, close to the knowledge, and entailed.
"""

import itertools
import pathlib
from collections.abc import Callable, Sequence
from typing import Literal, NamedTuple, get_args

from faith_jax.core.errors import ConfigError, InputError
from faith_jax.core.labels import NliLabel
from faith_jax.core.rows import BadRows
from faith_jax.core.words import FIRST_PERSON
from faith_jax.datasets.raw_dataset import Examples, Paths, Reader
from faith_jax.statistics.texts.text_metrics import english_tokens

# Whether a response has a first-person singular pronoun; its third of a file's responses by lexical
# precision; and whether the knowledge entails it according to an NLI model.
_Voice = Literal["<no-first-person>", "<first-person>"]
_Precision = Literal["<low-prec>", "<med-prec>", "<high-prec>"]
_Entailment = Literal["<entailed>", "<non-entailed>"]

# One token of each kind, as in the turns of raw files.
ControlTokens = tuple[_Voice, _Precision, _Entailment]
CONTROL_TOKENS = tuple(map(get_args, (_Voice, _Precision, _Entailment)))
SUFFIX = "_control-tokens"  # as FaithDial's authors' script names files with control tokens
# The tokens that a generator gets at inference.
FAITHFUL_TOKENS: ControlTokens = ("<no-first-person>", "<high-prec>", "<entailed>")


def extra_id_texts(extra_ids: int) -> dict[str, str]:
    """Returns the text of the extra id that replaces each control token in a vocabulary.

    These are the last seven extra ids, which span corruption uses least. With fewer extra ids, the
    result is empty and control tokens stay text.

    >>> extra_id_texts(100)["<no-first-person>"], extra_id_texts(100)["<non-entailed>"]
    ('<extra_id_99>', '<extra_id_93>')
    """
    tokens = [token for kind in CONTROL_TOKENS for token in kind]
    if extra_ids < len(tokens):
        return {}
    return {token: f"<extra_id_{extra_ids - 1 - n}>" for n, token in enumerate(tokens)}


def check_control_tokens(tokens: Sequence[str]) -> None:
    """Raises a ConfigError unless there is one token of each kind, in order."""
    sequence = [tokens] if isinstance(tokens, str) else list(tokens)
    pairs = itertools.zip_longest(sequence, CONTROL_TOKENS, fillvalue=())
    if not all(token in kind for token, kind in pairs):
        expected = ", ".join(" or ".join(kind) for kind in CONTROL_TOKENS)
        raise ConfigError(f"Control tokens: expected {expected}; got {tokens!r}.")


def lexical_precision(response: str, knowledge: str) -> float:
    """Returns the share of a response's tokens that are in the knowledge, from 0 to 1.

    Tokens are spaCy's, as in the authors' code; punctuation and case count. The precision of a
    response without tokens is 0.

    >>> lexical_precision("Tea is a root!", "tea is a leaf!")
    0.6
    """
    tokens, knowledge_tokens = english_tokens(response), set(english_tokens(knowledge))
    return sum(token in knowledge_tokens for token in tokens) / len(tokens) if tokens else 0.0


class Terciles(NamedTuple):
    """The largest lexical precision in the lowest and in the middle third of a file's responses."""

    low: float
    medium: float


def terciles(precisions: Sequence[float]) -> Terciles:
    """Returns the bounds of three parts of equal size; the first ones may be larger by one.

    `precisions` are those of a file's responses. With fewer than three, the last parts are empty.

    >>> terciles([0.9, 0.1, 0.5, 0.4])
    Terciles(low=0.4, medium=0.5)
    """
    size, ordered = len(precisions), sorted(precisions)
    low = -(-size // 3)
    medium = low + -(-(size - low) // 2)
    return Terciles(*(ordered[end - 1] if ordered else 0.0 for end in (low, medium)))


def control_tokens(
    response: str, precision: float, bounds: Terciles, nli: NliLabel | str
) -> ControlTokens:
    """Returns the three tokens that describe a response.

    `precision` is its `lexical_precision`, `bounds` are `terciles` of the responses of its file,
    and `nli` is the label of the knowledge as premise and the response as hypothesis.

    >>> control_tokens("I'm for tea.", 0.4, Terciles(0.2, 0.5), "neutral")
    ('<first-person>', '<med-prec>', '<non-entailed>')
    """
    third: _Precision = "<high-prec>"
    if precision <= bounds.medium:
        third = "<low-prec>" if precision <= bounds.low else "<med-prec>"
    speaks_of_oneself = any(token.lower() in FIRST_PERSON for token in english_tokens(response))
    entailed = NliLabel(nli) is NliLabel.ENTAILMENT
    return (
        "<first-person>" if speaks_of_oneself else "<no-first-person>",
        third,
        "<entailed>" if entailed else "<non-entailed>",
    )


def name_with_tokens(name: str) -> str:
    """Returns the name of the variant of a dialogue file whose turns have control tokens.

    >>> name_with_tokens("train.json")
    'train_control-tokens.json'
    """
    path = pathlib.PurePath(name)
    return f"{path.stem}{SUFFIX}{path.suffix}"


def with_control_tokens(read_turns: Callable[[pathlib.Path, BadRows], Examples]) -> Reader:
    """Returns a reader of turns with control tokens; in test splits these are FAITHFUL_TOKENS.

    `read_turns` yields turns with `id` and `control_tokens`; a turn without tokens is a bad row.
    """

    def read_split(paths: Paths, split: str, bad_rows: BadRows) -> Examples:
        for path in paths.values():
            for turn in read_turns(path, bad_rows):
                if split.startswith("test"):
                    turn["control_tokens"] = list(FAITHFUL_TOKENS)
                if turn["control_tokens"]:
                    yield turn
                else:
                    problem = f"{path}: the turn {turn['id']} has no control_tokens; "
                    bad_rows.add(InputError(f"{problem}faith-jax control-tokens adds them."))

    return read_split
