"""Benchmarks of judges of faithfulness, each in one form: grounding, response, label 1 = faithful.

Most are a card alone, whose `row` says which raw field holds what (`described_rows`). RAGTruth and
FaithBench have spans that people marked, and a file each.
"""
