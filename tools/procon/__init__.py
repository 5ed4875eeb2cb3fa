"""Makes the raw NPOV format of scraped ProCon.org pages, for `prepare_procon.py`."""
