"""Statistics of texts: word overlap, passages, covered arguments, and salience of words."""
