"""Rows of SeqIO tasks as batches: cut by a policy, shuffled by index, resumable at any step."""
