"""SeqIO tasks and mixtures. Importing this package registers all of them."""

from faith_jax.tasks import (  # noqa: F401
    begin,
    benchmarks,
    dialfact,
    dialogue,
    faithdial,
    labelled_responses,
    nli,
    npov,
    text_to_text,
    true_benchmark,
)
