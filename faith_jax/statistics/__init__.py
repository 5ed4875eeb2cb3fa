"""Evaluation: numbers from texts, scores and labels alone (no model, no TensorFlow)."""
