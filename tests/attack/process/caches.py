"""Caches that others have written: entries flipped, cut, swapped, given away, opened to all, replaced by links.

Each case fills a cache by one process, damages it, and starts a second one. That one has the right numbers, no error,
and no entry that another user could have written.
"""

from __future__ import annotations

import os
import random
import shutil
import stat
import subprocess
import sys
from pathlib import Path

from registry import Run, attack

from process.environment import installed

PRODUCTS = """
import numpy as np
from netcl import ops
from netcl.core import Tensor
from netcl.core.device import manager
queue = manager.default().queue
x = Tensor.from_host(queue, np.arange(6, dtype=np.float32).reshape(2, 3))
print([f(x).to_host().tolist() for f in (lambda x: ops.add(x, x), lambda x: ops.mul(x, 3.0), lambda x: ops.sum(x))])
"""


def started(cache: Path, device: str) -> subprocess.CompletedProcess[str]:
    """Runs PRODUCTS with a cache and a driver."""
    environment = {**os.environ, "NETCL_CACHE_DIR": str(cache), "NETCL_DEVICE": device}
    environment.pop("OCL_ICD_VENDORS", None)
    command = [sys.executable, "-c", PRODUCTS]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=False)


def damage(rng: random.Random, cache: Path) -> str:
    """Damages a file or folder of a cache; returns what it did."""
    files = sorted(path for path in cache.rglob("*") if path.is_file() and not path.is_symlink())
    if not files:
        return "nothing"
    path, other = rng.choice(files), rng.choice(files)
    content = path.read_bytes()
    kind = rng.choice(("flip", "cut", "swap", "fifo", "link", "open", "folder", "given", "foreign", "empty"))
    if kind == "flip" and content:
        at = rng.randrange(len(content))
        path.write_bytes(content[:at] + bytes([content[at] ^ 1 << rng.randrange(8)]) + content[at + 1 :])
    elif kind == "cut":
        path.write_bytes(content[: rng.randrange(len(content) + 1)])
    elif kind == "swap":
        path.write_bytes(other.read_bytes())
    elif kind in ("fifo", "link"):
        path.unlink()
        os.mkfifo(path) if kind == "fifo" else path.symlink_to("/dev/zero")
    elif kind == "open":
        path.chmod(0o666)
    elif kind == "folder":
        path.parent.chmod(0o777)
    elif kind == "given" and os.geteuid() == 0:
        os.chown(path, 54321, 54321)
    elif kind == "foreign":
        path.write_bytes(rng.randbytes(rng.randrange(500)))
    else:
        path.write_bytes(b"")
    return f"{kind} of {path.relative_to(cache)}"


@attack("process.caches", weight=2.0, least=6.0, needs=lambda: "" if os.name == "posix" else "POSIX")
def caches(run: Run) -> None:
    """A cache that is damaged between two processes."""
    drivers = sorted(installed() - {"cpu"}) or ["cpu"]
    whole: dict[str, tuple[Path, str]] = {}
    for rng in run.cases():
        device = rng.choice(drivers)
        if device not in whole:
            cache = run.folder / f"whole-{device}"
            whole[device] = cache, started(cache, device).stdout
        cache, expected = whole[device]
        copy = run.folder / "copy"
        shutil.rmtree(copy, ignore_errors=True)
        shutil.copytree(cache, copy)
        copy.chmod(0o700)
        done_to = [damage(rng, copy) for _ in range(rng.randrange(1, 4))]
        run.count(device)
        try:
            done = started(copy, device)
        except subprocess.TimeoutExpired:
            run.fail("a process with a damaged cache does not end", reproducer="; ".join(done_to))
            continue
        if done.returncode or done.stdout != expected:
            text = f"{device}: {'; '.join(done_to)}: {done.returncode} {done.stdout[:200]} {done.stderr[-300:]}"
            run.fail("a damaged cache changes the result", reproducer=text)
        folders = [path for path in copy.rglob("*") if path.is_dir() and not path.is_symlink()]
        for folder in folders:
            if stat.S_IMODE(folder.stat().st_mode) & 0o022:
                continue  # ignored as a whole
            for path in folder.glob("*.clbin"):
                if path.is_file() and not path.is_symlink() and path.stat().st_mode & 0o022:
                    run.fail("an entry that others may write was left", reproducer="; ".join(done_to))
