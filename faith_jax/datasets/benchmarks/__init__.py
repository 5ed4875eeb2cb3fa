"""Benchmarks of faithfulness judges, all in one form: grounding, response, label 1 = faithful.

Most need only a card, whose `row` describes the raw fields (`described_rows`). RAGTruth and
FaithBench have spans marked by people, and a module each.
"""
