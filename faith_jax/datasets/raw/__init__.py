"""The raw formats as the authors published them, one module for each, read row by row."""
