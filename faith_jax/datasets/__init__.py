"""Data: raw formats, their TFDS builders and the embedded sample."""
