"""`python -m attributionlab`: the command line."""

import sys

from attributionlab.cli.app import main

if __name__ == "__main__":
    sys.exit(main())
