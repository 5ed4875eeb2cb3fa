"""TFDS builders, one file a data set."""
