"""``python -m netcl.torch script.py``: see ``netcl.torch.runner``."""

from __future__ import annotations

import sys

from netcl.torch.runner import main

sys.exit(main())
