"""The runs that certify judges on this machine, and export them to score without faith_jax."""
