"""Converts scraped ProCon.org pages to the raw NPOV format, for `prepare_procon.py`."""
