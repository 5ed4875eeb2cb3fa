"""Decoding: search and sampling over one step function."""
