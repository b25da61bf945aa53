"""Builds the site: writes generated pages, runs samples, runs Sphinx with warnings as errors, checks the links.

python tools/docs_site/build.py site
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from monorepo import ROOT

from docs_site import copies, coverage, links, notebooks, pages, run_pages

GENERATED = ROOT / "docs" / "generated"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("site", type=Path, help="folder of the site")
    parser.add_argument(
        "--cache", type=Path, default=ROOT / ".nox" / "doctrees", help="what Sphinx keeps between builds"
    )
    options = parser.parse_args()
    start = time.perf_counter()
    copies.write(GENERATED)
    pages.write(GENERATED / "api")
    _say(start, "wrote the reference")
    sys.argv[1:] = []
    failed = run_pages.main()
    notebooks.write(GENERATED / "notebooks")
    _say(start, "ran the samples of changed pages, wrote the notebooks")
    command = [sys.executable, "-m", "sphinx", "-b", "html", "-W", "--keep-going", "-q", "-j", "auto"]
    failed |= subprocess.run([*command, "-d", options.cache, ROOT / "docs", options.site], check=False).returncode
    _say(start, "ran Sphinx")
    if not failed:
        failed |= links.main([str(options.site)])
        failed |= coverage.main([str(options.site)])
        _say(start, f"open {options.site / 'index.html'}")
    return int(bool(failed))


def _say(start: float, text: str) -> None:
    print(f"{time.perf_counter() - start:6.1f} s  {text}", flush=True)


if __name__ == "__main__":
    raise SystemExit(main())
