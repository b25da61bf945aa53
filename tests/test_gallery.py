"""The pictures of the site are small, in their table, and on its gallery page."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / "docs" / "pictures"
TABLE = json.loads((FOLDER / "pictures.json").read_text(encoding="utf-8"))


def test_every_picture_has_a_row() -> None:
    pictures = {file.relative_to(FOLDER).with_suffix("").as_posix() for file in FOLDER.rglob("*.png")}
    assert pictures == set(TABLE)


def test_every_job_has_a_picture() -> None:
    jobs = {f"jobs/{file.stem}" for file in (ROOT / "examples/jobs").glob("*.py")}
    assert jobs == {name for name in TABLE if name.startswith("jobs/")}


@pytest.mark.parametrize("name", TABLE)
def test_a_picture_is_that_of_its_row(name: str) -> None:
    data = (FOLDER / f"{name}.png").read_bytes()
    assert hashlib.sha256(data).hexdigest() == TABLE[name]["sha256"]
    assert len(data) < 60 * 1024
    assert f"../pictures/{name}.png" in (ROOT / "docs/start/gallery.md").read_text(encoding="utf-8")
