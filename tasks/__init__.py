"""SeqIO tasks and mixtures. Importing this package registers all of them."""

from faith_jax.tasks import (  # noqa: F401
    dialfact,
    dialogue,
    faithdial,
    judging,
    nli,
    npov,
    text_to_text,
)
