"""`python -m antecast_executor`."""

import sys

from antecast_executor.cli import main

if __name__ == "__main__":
    sys.exit(main())
