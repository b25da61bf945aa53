"""Writes the tutorials as notebooks for download: the text in cells, the samples with what they printed.

python tools/docs_site/notebooks.py FOLDER
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from monorepo import ROOT

from docs_site.pages import keep
from docs_site.run_pages import BLOCK, OUTPUTS

TUTORIALS = ROOT / "docs" / "tutorials"
# Links to other pages lead nowhere from a notebook: their text stays.
_LINK = re.compile(r"\[([^\]]+)\]\((?!https?:)[^)]+\)")


def notebook(text: str, outputs: Sequence[str] = ()) -> dict[str, Any]:
    """Returns a page as a notebook of format 4.5, with what its samples printed."""
    cells: list[dict[str, Any]] = []
    # Text and samples take turns, since BLOCK has one group.
    for at, part in enumerate(BLOCK.split(text)):
        if not part.strip():
            continue
        source = part.strip() if at % 2 else _LINK.sub(r"\1", part.strip())
        cell: dict[str, Any] = {"id": f"cell-{at}", "metadata": {}, "source": source.splitlines(keepends=True)}
        if at % 2 == 0:
            cells.append({"cell_type": "markdown", **cell})
            continue
        printed = outputs[at // 2] if at // 2 < len(outputs) else ""
        shown = [{"output_type": "stream", "name": "stdout", "text": printed.splitlines(keepends=True)}]
        cells.append({"cell_type": "code", **cell, "execution_count": None, "outputs": shown if printed else []})
    metadata = {
        "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
        "language_info": {"name": "python"},
    }
    return {"cells": cells, "metadata": metadata, "nbformat": 4, "nbformat_minor": 5}


def write(folder: Path) -> None:
    """Writes the notebook of each tutorial to a folder."""
    for page in sorted(TUTORIALS.glob("*.md")):
        stored = OUTPUTS / f"tutorials.{page.stem}.json"
        outputs = json.loads(stored.read_text(encoding="utf-8"))["outputs"] if stored.is_file() else ()
        made = notebook(page.read_text(encoding="utf-8"), outputs)
        keep(folder / f"{page.stem}.ipynb", json.dumps(made, indent=1, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    write(Path(sys.argv[1]))
