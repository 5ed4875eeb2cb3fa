"""`python -m faith_jax` is the command `faith-jax`."""

import sys

from faith_jax.command import main

if __name__ == "__main__":
    sys.exit(main())
