"""Parts of texts: words, passages, shared arguments, and where words come from."""
