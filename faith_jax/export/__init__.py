"""Export: scores and generations to JSONL and TFDS."""
