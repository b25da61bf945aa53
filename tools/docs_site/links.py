"""Checks the links of the built site: each leads to a file of it, and to an anchor that is there.

python tools/docs_site/links.py site
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit


class _Page(HTMLParser):
    """The anchors of a page, and the addresses that it names."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.anchors: set[str] = set()
        self.addresses: list[str] = []

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        for name, value in attributes:
            if value is None:
                continue
            if name == "id" or (name == "name" and tag == "a"):
                self.anchors.add(value)
            elif name in ("href", "src"):
                self.addresses.append(value)


def faults(site: Path) -> list[str]:
    """Returns a line for each link to a file or an anchor of the site that is missing."""
    pages = {file: _read(file) for file in sorted(site.rglob("*.html"))}
    broken = []
    for file, page in pages.items():
        for address in dict.fromkeys(page.addresses):
            parts = urlsplit(address)
            if parts.scheme or parts.netloc:
                continue
            target = (file.parent / unquote(parts.path)).resolve() if parts.path else file
            name = f"{file.relative_to(site)}: {address}"
            if not target.is_file():
                broken.append(f"{name}: no such file")
            elif parts.fragment and target.suffix == ".html" and unquote(parts.fragment) not in pages[target].anchors:
                broken.append(f"{name}: no such anchor")
    return broken


def _read(file: Path) -> _Page:
    page = _Page()
    page.feed(file.read_text(encoding="utf-8"))
    return page


def main(arguments: Sequence[str]) -> int:
    """Prints the faults; returns 1 if there is one, else 0."""
    site = Path(arguments[0]).resolve()
    broken = faults(site)
    for fault in broken:
        print(fault, file=sys.stderr)
    print(f"links: {sum(1 for _ in site.rglob('*.html'))} pages, {len(broken)} faults")
    return int(bool(broken))


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
