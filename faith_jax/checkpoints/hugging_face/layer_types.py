"""Which layers attend within a window, as a config.json says it."""

from collections.abc import Sequence

from faith_jax.checkpoints.hugging_face.family import ConfigFields

SLIDING, FULL = "sliding_attention", "full_attention"


def sliding_layers(fields: ConfigFields, default: Sequence[str]) -> tuple[int, ...]:
    """Returns the numbers of the layers with a sliding window.

    Args:
      fields: of config.json.
      default: the kinds of all layers where it has no `layer_types`.

    Raises:
      CheckpointError: `layer_types` are not one of the two kinds for each layer.
    """
    types = fields.fields.get("layer_types") or default
    are_known = isinstance(types, Sequence) and all(kind in (SLIDING, FULL) for kind in types)
    if not are_known or len(types) != len(default):
        expected = f"one of {[SLIDING, FULL]} for each of the {len(default)} layers"
        raise fields.error("layer_types", expected)
    return tuple(number for number, kind in enumerate(types) if kind == SLIDING)
