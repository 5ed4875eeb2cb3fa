"""A smaller model that drafts for a larger one, see `decoding.speculation`.

`Drafted` takes the place of the larger model's module, and `Both` that of its parameters and of all
that decoding remembers. Both models read the same inputs, and with PMI-Decode the same branches.
"""

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

from faith_jax.core.errors import ConfigError
from faith_jax.core.types import Array, PyTree
from faith_jax.decoding.steps import Prefilled
from faith_jax.models.config import TransformerConfig
from faith_jax.models.transformer import Transformer

# What two models must have in common to write the same tokens behind the same inputs.
_ALIKE = (
    "vocab_size",
    "is_decoder_only",
    "is_encoder_only",
    "knowledge_attention",
    "pad_id",
    "decoder_start_id",
    "decoder_prompt_length",
)


class Both(NamedTuple):
    """Something of the model that decodes, and the same of the one that drafts."""

    model: Any
    draft: Any


class Drafted(NamedTuple):
    """A model whose tokens another one drafts."""

    model: Transformer
    draft: Transformer

    @property
    def config(self) -> TransformerConfig:
        """That of the model that decodes."""
        return self.model.config


def check_draft(model: TransformerConfig, draft: TransformerConfig, name: str) -> None:
    """Checks that a model can draft for another one.

    Raises:
      ConfigError: naming the first property in which they differ.
    """
    for field in _ALIKE:
        ours, its = getattr(model, field), getattr(draft, field)
        if ours != its:
            raise ConfigError(
                f"speculation: the model {name} has {field} = {its}; expected {ours}, as the model "
                "that it drafts for. Name a smaller model of the same tokenizer and kind, or "
                "'ngram'."
            )
    if draft.positions == "learned" and draft.max_positions < (model.max_positions or 1 << 30):
        raise ConfigError(
            f"speculation: the model {name} has {draft.max_positions} positions; expected as many "
            "as the model that it drafts for, or positions without a limit."
        )


def reads_both(read: Callable[..., tuple[PyTree, PyTree]]) -> Callable[..., tuple[PyTree, PyTree]]:
    """Lets a family's `read` take `Drafted` and `Both` in place of a module and its parameters."""

    @functools.wraps(read)
    def read_both(module: Any, params: PyTree, *args: Any, **options: Any) -> tuple[PyTree, PyTree]:
        if not isinstance(module, Drafted):
            return read(module, params, *args, **options)
        model = read(module.model, params.model, *args, **options)
        draft = read(module.draft, params.draft, *args, **options)
        # The memories of both, and the caches of both.
        return Both(model[0], draft[0]), Both(model[1], draft[1])

    return read_both


def opens_both(opened: Callable[..., Prefilled]) -> Callable[..., Prefilled]:
    """Lets a family's `opened` take the same."""

    @functools.wraps(opened)
    def open_both(
        module: Any, params: PyTree, memory: PyTree, cache: PyTree, *args: Any, **options: Any
    ) -> Prefilled:
        if not isinstance(module, Drafted):
            return opened(module, params, memory, cache, *args, **options)
        # In refilling the cache comes with each call of the step.
        caches = Both(None, None) if cache is None else cache
        model = opened(module.model, params.model, memory.model, caches.model, *args, **options)
        draft = opened(module.draft, params.draft, memory.draft, caches.draft, *args, **options)
        return with_draft(model, draft)

    return open_both


def with_draft(model: Prefilled, draft: Prefilled) -> Prefilled:
    """Returns a model with another one that drafts; the cache is that of both."""

    def step(tokens: Array, cache: Both) -> tuple[Any, Both]:
        scored, updated = model.step(tokens, cache.model)
        return scored, cache._replace(model=updated)

    def take_back(cache: Both, tokens: Array) -> Both:
        assert model.take_back is not None
        assert draft.take_back is not None
        return Both(model.take_back(cache.model, tokens), draft.take_back(cache.draft, tokens))

    def reorder(cache: Both, rows: Array) -> Both:
        return Both(model.reorder(cache.model, rows), draft.reorder(cache.draft, rows))

    return model._replace(
        step=step,
        cache=Both(model.cache, draft.cache),
        reorder=reorder,
        take_back=take_back,
        draft=draft.step,
    )
