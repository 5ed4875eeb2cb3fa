"""SeqIO tasks and mixtures. Importing this package registers all of them."""

from faith_jax.tasks import begin, dialfact, faithdial, nli, npov, true_benchmark  # noqa: F401
