"""The runs that score responses, compare scores and show them."""
