"""Inputs as token ids: rows and pairs of texts, cut by a policy, and the reader of both."""
