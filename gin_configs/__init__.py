"""Gin files of the experiments: models/, prompts/, runs/, decoding/ and the recipes.

This folder is on the gin search path of `t5x` and `faith-jax` by default.
"""
