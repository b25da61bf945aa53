"""``python -m netcl.trainer.cli``: the command ``netcl`` if its script is not on the path."""

from __future__ import annotations

import sys

from netcl.trainer.cli import main

if __name__ == "__main__":
    sys.exit(main())
