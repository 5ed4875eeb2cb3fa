"""The scorers: what judges whether responses say only what their groundings support."""
