"""Scorers by gradient salience: how much each output token depends on each input token."""
