"""Evaluation: figures from texts, scores and labels, without a model or TensorFlow."""
