"""Tokenizers: SentencePiece and Hugging Face's `tokenizers` behind one interface."""
