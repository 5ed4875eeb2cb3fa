"""SeqIO tasks and mixtures. Importing this package registers all of them."""
