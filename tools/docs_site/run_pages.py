"""Runs the samples of the pages and stores what they print, for pages and sources that changed since the last time.

    python tools/docs_site/run_pages.py [PAGE ...]

A page is a Markdown file; its blocks of Python run in one process, in order. A block that computes for more than 5 s is
a fault.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from monorepo import FOLDERS, ROOT

DOCS = ROOT / "docs"
OUTPUTS = DOCS / "generated" / "outputs"
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
LIMIT = 5.0  # seconds of computing for a block, of all threads, so that a busy machine does not count
# Pages with blocks that are parts of other files: modules of a package, a program of PyTorch next to its port.
NOT_RUN = ("how-to/write-a-backend.md", "how-to/add-an-op.md", "explanation/waist.md", "adr/")


def pages() -> list[Path]:
    """Returns the pages of docs with samples that run."""
    return [
        file
        for file in sorted(DOCS.rglob("*.md"))
        if not file.relative_to(DOCS).as_posix().startswith((*NOT_RUN, "generated/"))
        and BLOCK.search(file.read_text(encoding="utf-8"))
    ]


def execute(blocks: list[str]) -> list[dict[str, object]]:
    """Runs blocks one after the other with common names; returns what each printed, and its seconds of computing."""
    names: dict[str, object] = {"__name__": "page"}
    results: list[dict[str, object]] = []
    for block in blocks:
        printed, start = io.StringIO(), time.process_time()
        with contextlib.redirect_stdout(printed):
            exec(compile(block, "page", "exec"), names)
        results.append({"output": printed.getvalue(), "seconds": round(time.process_time() - start, 2)})
    return results


def state() -> str:
    """Returns a hash of the packages' sources: if it changes, samples may print something else."""
    digest = hashlib.sha256()
    for file in sorted(file for folder in FOLDERS for file in (ROOT / folder).glob("*/src/**/*")):
        if file.suffix in (".py", ".cl"):
            digest.update(file.read_bytes())
    return digest.hexdigest()


def run(page: Path, sources: str) -> list[str]:
    """Runs a page in a process if it changed, stores its outputs, and returns its faults."""
    blocks = BLOCK.findall(page.read_text(encoding="utf-8"))
    key = hashlib.sha256(json.dumps([blocks, sources, os.environ.get("NETCL_DEVICE", "")]).encode()).hexdigest()
    name = page.relative_to(DOCS).with_suffix("").as_posix()
    stored = OUTPUTS / f"{name.replace('/', '.')}.json"
    if stored.is_file() and json.loads(stored.read_text(encoding="utf-8"))["key"] == key:
        return []
    with tempfile.TemporaryDirectory() as folder:
        request = Path(folder, "blocks.json")
        request.write_text(json.dumps(blocks), encoding="utf-8")
        command = [sys.executable, str(Path(__file__).resolve()), "--blocks", str(request)]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, timeout=300)
    if done.returncode:
        return [f"{name}: {done.stderr.strip()}"]
    results = json.loads(done.stdout.splitlines()[-1])
    slow = [
        f"{name}: block {at} took {result['seconds']} s, more than {LIMIT:g} s"
        for at, result in enumerate(results, 1)
        if result["seconds"] > LIMIT
    ]
    text = json.dumps({"key": key, "outputs": [result["output"] for result in results]}, indent=1)
    OUTPUTS.mkdir(parents=True, exist_ok=True)
    stored.write_text(text, encoding="utf-8")
    return slow


def main() -> int:
    if sys.argv[1:2] == ["--blocks"]:
        print("\n" + json.dumps(execute(json.loads(Path(sys.argv[2]).read_text(encoding="utf-8")))))
        return 0
    sources = state()
    chosen = [Path(argument).resolve() for argument in sys.argv[1:]] or pages()
    faults = [fault for page in chosen for fault in run(page, sources)]
    for fault in faults:
        print(fault, file=sys.stderr)
    return int(bool(faults))


if __name__ == "__main__":
    raise SystemExit(main())
