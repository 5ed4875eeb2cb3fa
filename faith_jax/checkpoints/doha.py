"""DoHA: a BART whose decoder has a second cross-attention, over the knowledge.

Prabhumoye 2021, section 3.2. Each decoder layer attends to itself, then to the first encoder input
(the dialogue alone), then to the second (the dialogue with its knowledge, as with `experiment_type
= chat_document` in the authors' code); both inputs use the same encoder. The second attention is
initialised as a copy of the first.

The authors' code (github.com/shrimai/Focused-Attention-Improves-Document-Grounded-Generation) does
the same, but starts its decoder with <s>, while BART's own start token is </s>; here the caller
chooses. It puts the dialogue before the document and cuts the end of both inputs; here the input
has its usual form, and CUT_POLICY cuts it.
"""

import numpy as np

from faith_jax.checkpoints.checkpoint import Checkpoint, flatten, unflatten
from faith_jax.checkpoints.lazy_arrays import LazyArray
from faith_jax.core.errors import CheckpointError
from faith_jax.models.config import TransformerConfig

# Parts of a decoder layer, and the parts of DoHA's second attention initialised as their copies.
COPIED = {
    "encoder_decoder_attention": "knowledge_attention",
    "pre_cross_attention_layer_norm": "pre_knowledge_attention_layer_norm",
    "post_cross_attention_layer_norm": "post_knowledge_attention_layer_norm",
}


def check_becomes_doha(config: TransformerConfig, source: str) -> None:
    """Raises a CheckpointError if a model has no cross-attention to copy."""
    if config.is_decoder_only or config.is_encoder_only:
        raise CheckpointError(
            f"{source}: DoHA is made of an encoder-decoder model (BART), but this one has "
            f"{config.num_encoder_layers} encoder and {config.num_decoder_layers} decoder layers."
        )


def doha_from_bart(checkpoint: Checkpoint) -> Checkpoint:
    """Returns a DoHA model whose knowledge attention is a copy of its first cross-attention."""
    config = checkpoint.config
    source = checkpoint.metadata.get("source", "checkpoint")
    check_becomes_doha(config, source)
    if config.knowledge_attention:
        raise CheckpointError(f"{source}: is DoHA already; it needs no second knowledge attention.")
    params = flatten(checkpoint.params)
    for name, array in list(params.items()):
        path = name.split("/")
        copied = [COPIED.get(part, part) for part in path]
        if copied != path:
            is_read_anew = isinstance(array, LazyArray)
            params["/".join(copied)] = array if is_read_anew else np.array(array)
    config = config.replace(knowledge_attention=True)
    return Checkpoint(config, unflatten(params), checkpoint.metadata)
