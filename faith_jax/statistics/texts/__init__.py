"""What texts are made of: words, passages, shared arguments, and where words come from."""
