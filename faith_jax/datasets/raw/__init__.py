"""The raw formats, one file each: what the authors published, read row by row."""
