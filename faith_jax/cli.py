"""The commands `faith-jax` and `t5x`."""
