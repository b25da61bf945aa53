"""The Python examples of the READMEs and the guide run, links lead to files, and named source files exist."""

from __future__ import annotations

import importlib
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from docs_site.names import every_name
from docs_site.notebooks import TUTORIALS, notebook
from docs_site.run_pages import BLOCK, pages
from monorepo import load_packages, load_released

ROOT = Path(__file__).resolve().parent.parent
PAGES = [*(package.folder / "README.md" for package in load_packages().values()), *pages()]
LINKED = [
    *sorted(ROOT.glob("*.md")),
    *(page for page in sorted(ROOT.glob("docs/**/*.md")) if "generated" not in page.parts),
    *(page for package in load_released().values() for page in sorted(package.folder.glob("*.md"))),
    *sorted(ROOT.glob("alternatives/*/*.md")),
]
# Pages for users: their code names objects of today; decisions name objects of their time.
DESCRIBING = [
    *(page for page in LINKED if page.parent.name in ("start", "tutorials", "how-to", "explanation", "design")),
    ROOT / "README.md",
]
# Pages that name source files and folders, relative to a folder of SOURCES; names without a folder are not checked.
NAMING = [
    ROOT / "CONTRIBUTING.md",
    ROOT / "docs/how-to/add-an-op.md",
    *(ROOT / f"docs/explanation/{name}.md" for name in ("capture", "glossary", "jit", "waist")),
    *(page for page in sorted(ROOT.glob("docs/design/*.md")) if page.name != "index.md"),
]
FOLDERS = {
    "alternatives",
    "amp",
    "autograd",
    "checks",
    "core",
    "data",
    "distributed",
    "distributions",
    "extensions",
    "io",
    "llm",
    "nn",
    "ops",
    "optim",
    "packages",
    "profiling",
    "runtime",
    "tests",
    "tools",
    "torch",
    "torch_vision",
    "trainer",
}
SOURCES = [ROOT, *(package.source for package in load_packages().values()), ROOT / "packages/netcl-core"]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_examples_run(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    blocks = BLOCK.findall(page.read_text(encoding="utf-8"))
    assert blocks
    names: dict[str, object] = {"__name__": "page"}
    for block in blocks:
        exec(compile(block, str(page), "exec"), names)


@pytest.mark.parametrize("page", sorted(TUTORIALS.glob("*.md")), ids=lambda page: page.stem)
def test_the_notebook_of_a_tutorial_has_its_samples(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    blocks = BLOCK.findall(text)
    made = notebook(text, [f"printed {at}\n" for at in range(len(blocks))])
    code = [cell for cell in made["cells"] if cell["cell_type"] == "code"]
    assert ["".join(cell["source"]) for cell in code] == [block.strip() for block in blocks]
    assert [cell["outputs"][0]["text"] for cell in code] == [[f"printed {at}\n"] for at in range(len(blocks))]
    assert len({cell["id"] for cell in made["cells"]}) == len(made["cells"])
    words = "\n".join("".join(cell["source"]) for cell in made["cells"] if cell["cell_type"] == "markdown")
    assert words.startswith(text.splitlines()[0])
    assert "](../" not in words


def test_the_readme_network_has_the_same_numbers_twice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    network, loop = BLOCK.findall((ROOT / "README.md").read_text(encoding="utf-8"))
    runs: list[dict[str, Any]] = [{"__name__": "page"}, {"__name__": "page"}]
    for names in runs:
        exec(compile(network, "README.md", "exec"), names)
    assert (tmp_path / "digits.netcl").is_file()
    first, second = ([weight.numpy() for weight in names["model"].parameters()] for names in runs)
    assert all(np.array_equal(a, b) for a, b in zip(first, second, strict=True))
    assert runs[0]["trainer"].evaluate(runs[0]["test"])["accuracy"] > 0.95
    exec(compile(loop, "README.md", "exec"), runs[1])


@pytest.mark.parametrize("page", [*PAGES, ROOT / "README.md"], ids=lambda page: str(page.relative_to(ROOT)))
def test_samples_have_one_spelling(page: Path) -> None:
    """nc.tensor, nc.relu, x.numpy(), nc.no_grad: each name had two in the pages."""
    others = re.compile(
        r"Tensor\.from_host\(|\.to_host\(\)|netcl\.data\.readers import|"
        r"\bag\.(?:no_grad|relu|sum|mean|reshape|matmul|cross_entropy|tensor)\b"
    )
    found = [line for block in BLOCK.findall(page.read_text(encoding="utf-8")) for line in block.splitlines()]
    assert [line for line in found if others.search(line)] == []


def test_the_readme_is_short() -> None:
    assert len((ROOT / "README.md").read_text(encoding="utf-8").split()) <= 900


def _folders_of(name: str) -> list[str]:
    """Returns the folders of a distribution and of the layers that it needs."""
    packages = load_packages()
    below = [found[0] for line in packages[name].dependencies if (found := re.match(r"netcl-\w+", line))]
    folders = [folder for other in below for folder in _folders_of(other)]
    own = packages[name].folder.relative_to(ROOT).as_posix()
    return list(dict.fromkeys([*folders, own]))


@pytest.mark.parametrize("name", load_packages())
def test_the_page_says_how_a_layer_is_installed_from_a_checkout(name: str) -> None:
    """Lines may begin with the line of another layer, and need no shell that expands a pattern."""
    page = (ROOT / "docs/start/install.md").read_text(encoding="utf-8")
    rows = dict(re.findall(r"^\| (netcl-\w+)(?:, all layers)? \| (.*`) \|$", page, re.MULTILINE))

    def line(layer: str) -> list[str]:
        before = re.match(r"the line of (netcl-\w+), and", rows[layer])
        return [
            *(line(before[1]) if before else []),
            *re.findall(r"\./((?:packages|extensions)/netcl-\w+)", rows[layer]),
        ]

    assert set(line(name)) == set(_folders_of(name))


def test_the_page_lists_each_extra() -> None:
    page = (ROOT / "docs/start/install.md").read_text(encoding="utf-8")
    table = page[page.index("| extra |") : page.index("Without one of the first three")]
    extras = {extra for package in load_released().values() for extra in package.project["optional-dependencies"]}
    assert [extra for extra in sorted(extras - {"test"}) if f"`{extra}`" not in table] == []


@pytest.mark.parametrize("page", LINKED, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#\s]+)\)", page.read_text(encoding="utf-8")):
        generated = "generated/" in target  # written by tools/docs_site; the session docs checks its links
        assert target.startswith("https://") or generated or (page.parent / target).exists(), target


def test_code_in_pages_names_public_objects() -> None:
    short = {"nc": "netcl", "ag": "netcl.autograd", "nn": "netcl.nn", "netcl": "netcl"}
    named = re.compile(r"(?<!`)`(netcl|nc|ag|nn)((?:\.[A-Za-z_]\w*)+)(?:\([^`]*\))?`")
    absent = []
    # An op that a page adds; groups of entry points.
    made_up = {
        "netcl.autograd.cube",
        "netcl.cube",
        "netcl.backends",
        "netcl.commands",
        "netcl.gradients",
        "netcl.numbers",
    }
    for page in (page for page in DESCRIBING if page.is_file()):
        for found in named.finditer(page.read_text(encoding="utf-8")):
            name = short[found[1]] + found[2]
            if name.rsplit(".", 1)[-1] not in ("py", "toml", "cl", "md") and name not in made_up and not _exists(name):
                absent.append(f"{page.relative_to(ROOT)}: {name}")
    assert not absent


def _exists(name: str) -> bool:
    """True if a name can be reached by imports and attributes."""
    parts = name.split(".")
    for end in range(len(parts), 0, -1):
        try:
            value = importlib.import_module(".".join(parts[:end]))
        except ImportError:
            continue
        return all((value := getattr(value, part, None)) is not None for part in parts[end:])
    return False


def test_names_of_the_reference_are_many() -> None:
    assert len(set(every_name())) > 2000


@pytest.mark.parametrize("page", NAMING, ids=lambda page: str(page.relative_to(ROOT)))
def test_named_source_files_exist(page: Path) -> None:
    named = re.findall(r"`((?:[\w-]+/)+(?:[\w.-]+\.(?:py|cl))?)`", page.read_text(encoding="utf-8"))
    paths = [path for path in named if path.split("/")[0] in FOLDERS]
    assert paths
    for path in paths:
        assert any((folder / path).exists() for folder in SOURCES), path
