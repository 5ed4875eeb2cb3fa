"""SeqIO tasks and mixtures. Importing this package registers all of them."""

from faith_jax.tasks import begin, faithdial, npov  # noqa: F401
