"""A package index of local files (PEP 503): written as pages, and served on this machine while a `with` block runs."""

from __future__ import annotations

import hashlib
import re
import shutil
import threading
from collections import defaultdict
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path


def write_index(archives: Iterable[Path], folder: Path) -> None:
    """Copies wheels and source archives into ``folder``, with a page for each project and one of all projects."""
    projects: dict[str, list[Path]] = defaultdict(list)
    for archive in archives:
        name = re.match(r"[A-Za-z0-9_.]+?(?=-\d)", archive.name)
        if name is None:
            raise ValueError(f"{archive.name} does not begin with <project>-<version>")
        projects[re.sub(r"[-_.]+", "-", name[0]).lower()].append(archive)
    for project, files in projects.items():
        page = folder / project
        page.mkdir(parents=True, exist_ok=True)
        lines = []
        for file in files:
            shutil.copy(file, page / file.name)
        for file in sorted(entry for entry in page.iterdir() if entry.suffix != ".html"):
            digest = hashlib.sha256(file.read_bytes()).hexdigest()
            lines.append(f'<a href="{file.name}#sha256={digest}">{file.name}</a><br>')
        (page / "index.html").write_text("<!doctype html>\n" + "\n".join(lines) + "\n", encoding="utf-8")
    links = (f'<a href="{page.name}/">{page.name}</a><br>' for page in sorted(folder.iterdir()) if page.is_dir())
    (folder / "index.html").write_text("<!doctype html>\n" + "\n".join(links) + "\n", encoding="utf-8")


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *arguments: object) -> None:
        """Writes no line for a request."""


@contextmanager
def served(folder: Path) -> Iterator[str]:
    """Serves ``folder`` on a free port of this machine; yields the address, without a slash at the end."""
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(_Quiet, directory=str(folder))) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()
