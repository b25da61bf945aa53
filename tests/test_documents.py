"""The Python examples of the READMEs and the guide run, links lead to files, and named source files exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PAGES = [
    *sorted(ROOT.glob("packages/*/README.md")),
    *sorted(path for path in ROOT.glob("docs/guide/*.md") if path.name != "README.md"),
    ROOT / "docs/how-to/port-a-pytorch-script.md",
    ROOT / "docs/how-to/exchange-model-files.md",
    ROOT / "docs/how-to/build-on-netcl-core.md",
]
LINKED = [
    *sorted(ROOT.glob("*.md")),
    *sorted(ROOT.glob("docs/**/*.md")),
    *sorted(ROOT.glob("packages/*/*.md")),
    *sorted(ROOT.glob("alternatives/*/*.md")),
]
# Pages that name source files and folders, relative to a folder of SOURCES; names without a folder are not checked.
NAMING = [
    ROOT / "CONTRIBUTING.md",
    ROOT / "docs/how-to/add-an-op.md",
    *(ROOT / f"docs/explanation/{name}.md" for name in ("capture", "glossary", "jit", "waist")),
]
FOLDERS = {
    "alternatives",
    "amp",
    "autograd",
    "core",
    "distributions",
    "io",
    "nn",
    "ops",
    "optim",
    "packages",
    "profiling",
    "runtime",
    "tests",
    "tools",
}
SOURCES = [ROOT, *sorted(ROOT.glob("packages/*/src/netcl")), ROOT / "packages/netcl-core"]
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_examples_run(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    blocks = BLOCK.findall(page.read_text(encoding="utf-8"))
    assert blocks
    names: dict[str, object] = {"__name__": "page"}
    for block in blocks:
        exec(compile(block, str(page), "exec"), names)


def test_the_readme_network_learns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    network, step = BLOCK.findall((ROOT / "README.md").read_text(encoding="utf-8"))
    names: dict[str, object] = {"__name__": "page"}
    exec(compile(network, "README.md", "exec"), names)
    assert (tmp_path / "digits.netcl").is_file()
    # The second block is the body of a loop over what the first one made.
    exec(
        "import netcl.autograd as ag\nfrom netcl.core import Tensor\nxb, yb = map(Tensor.from_host, next(iter(train)))",
        names,
    )
    exec("optimizer = AdamW(model.parameters())", names)
    exec(compile(step, "README.md", "exec"), names)


@pytest.mark.parametrize("page", LINKED, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#\s]+)\)", page.read_text(encoding="utf-8")):
        assert target.startswith("https://") or (page.parent / target).exists(), target


@pytest.mark.parametrize("page", NAMING, ids=lambda page: str(page.relative_to(ROOT)))
def test_named_source_files_exist(page: Path) -> None:
    named = re.findall(r"`((?:[\w-]+/)+(?:[\w.-]+\.(?:py|cl))?)`", page.read_text(encoding="utf-8"))
    paths = [path for path in named if path.split("/")[0] in FOLDERS]
    assert paths
    for path in paths:
        assert any((folder / path).exists() for folder in SOURCES), path
