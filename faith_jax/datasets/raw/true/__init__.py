"""The corpora of TRUE (Honovich 2022), each read from its authors' files into one schema.

Labels are derived as TRUE derives them; 1 = consistent.
"""
