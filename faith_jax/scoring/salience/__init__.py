"""Scorers by gradient salience: which input tokens each output token stands on."""
