"""Report: tables and pictures of scores, for people and for papers."""
