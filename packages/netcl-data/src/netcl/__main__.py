"""``python -m netcl``: the command of netcl-trainer, else the report of netcl-core, else what to install.

It is here and not in netcl-core because netcl-data is the one layer that is installed without netcl-core.
"""

from __future__ import annotations

import runpy
import sys
from importlib.util import find_spec


def main() -> int:
    """Runs what is installed; returns 1 after a line that says what to install if netcl-data is alone."""
    for module in ("netcl.trainer.cli", "netcl.core"):
        layer = module.rpartition(".cli")[0] or module
        if find_spec(layer) is not None:
            runpy.run_module(module, run_name="__main__", alter_sys=True)
            return 0
    print(
        "netcl: of all layers netcl-data alone is installed, which has no command: pip install "
        '"netcl-trainer[cpu]" brings the others',
        file=sys.stderr,
    )
    return 1


if __name__ == "__main__":
    sys.exit(main())
