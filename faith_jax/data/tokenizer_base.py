"""What every tokenizer of ours does alike: special tokens around one text or two."""

from collections.abc import Sequence


class TokenizerBase:
    """The part of `faith_jax.types.Tokenizer` that follows from its other part."""

    prefix_ids: tuple[int, ...]
    suffix_ids: tuple[int, ...]
    pair_ids: tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]

    def encode(self, s: str) -> list[int]:
        """Returns the ids of a text, without special tokens around it."""
        raise NotImplementedError

    def add_special_tokens(
        self, ids: Sequence[int], pair_ids: Sequence[int] | None = None
    ) -> list[int]:
        """Returns the ids of one or two texts with special tokens around them.

        Args:
          ids: of the first text, as `encode` gives them, cut where need be.
          pair_ids: of the second text; None = there is none, an empty list = it is empty.

        Returns:
          The ids that the model was trained with.
        """
        if pair_ids is None:
            return [*self.prefix_ids, *ids, *self.suffix_ids]
        front, between, behind = self.pair_ids
        return [*front, *ids, *between, *pair_ids, *behind]

    def encode_with_special_tokens(self, text: str, pair: str | None = None) -> list[int]:
        """Returns the ids of one or two texts with the model's special tokens around them.

        Args:
          text: the first text, such as an NLI premise.
          pair: the second one; None = there is none. An empty one is a text (Transformers takes
            it for none).

        Returns:
          What Transformers' `tokenizer(text, pair)` gives.
        """
        second = None if pair is None else self.encode(pair)
        return self.add_special_tokens(self.encode(text), second)
