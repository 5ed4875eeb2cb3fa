"""Tables of papers, each a Snakemake workflow of public commands (TABLE.smk)."""
