"""Data: raw formats, their TFDS builders, vocabularies and the embedded sample."""
