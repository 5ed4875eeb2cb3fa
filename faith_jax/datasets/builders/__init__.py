"""TFDS builders of all data sets, made from their cards and readers."""
