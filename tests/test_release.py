"""The rehearsal of a release: what refuses one, the index of its own, and breaks of the public API."""

from __future__ import annotations

import re
import urllib.request
from pathlib import Path

import public_api
import pytest
import rehearse_release
from local_index import served, write_index
from monorepo import FOLDER_OF, load_packages, load_released


def test_a_release_needs_a_repository_and_the_tag_of_a_version(root: Path, tmp_path: Path) -> None:
    for file in ("pyproject.toml", *(f"{folder}/{name}/pyproject.toml" for name, folder in FOLDER_OF.items())):
        (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
        text = (root / file).read_text(encoding="utf-8")
        (tmp_path / file).write_text(re.sub("^repository = .*$", 'repository = ""', text, flags=re.M), encoding="utf-8")
    for package in load_released(tmp_path).values():
        package.about.parent.mkdir(parents=True)
        package.about.write_text('__version__ = "0.1.3"\n', encoding="utf-8")
    assert "set repository in [tool.netcl]" in rehearse_release.refusal(True, None, tmp_path)
    assert rehearse_release.refusal(False, None, tmp_path) == ""
    for name in ("netcl-nn", "torch-netcl"):
        assert rehearse_release.refusal(False, f"{name}-v0.1.3", tmp_path) == ""
    assert "netcl-nn-v0.1.4 is none of" in rehearse_release.refusal(False, "netcl-nn-v0.1.4", tmp_path)
    settings = (tmp_path / "pyproject.toml").read_text(encoding="utf-8")
    named = settings.replace('repository = ""', 'repository = "https://example.org/netcl"')
    (tmp_path / "pyproject.toml").write_text(named, encoding="utf-8")
    assert rehearse_release.refusal(True, None, tmp_path) == ""


def test_the_index_serves_what_it_was_given(tmp_path: Path) -> None:
    wheel = tmp_path / "netcl_core-0.1.0-py3-none-any.whl"
    wheel.write_bytes(b"content")
    write_index([wheel], tmp_path / "index")
    with served(tmp_path / "index") as address:
        page = urllib.request.urlopen(f"{address}/netcl-core/").read().decode()
        (link,) = re.findall(
            r'href="([^"#]+)#sha256=ed7002b439e9ac845f22357d822bac1444730fbdb6016d3ec9432297b9ec9f73"', page
        )
        assert urllib.request.urlopen(f"{address}/netcl-core/{link}").read() == b"content"


STUB = "def kept(a, b=1): ...\nclass Layer:\n    def forward(self, x): ...\nLIMIT = ...\n"


@pytest.mark.parametrize(
    ("new", "said"),
    [
        (STUB, []),
        (STUB + "def added(): ...\n", []),
        (STUB.replace("b=1", "b=1, c=2"), []),
        (STUB.replace("b=1", "b=2"), ["kept: Parameter default was changed"]),
        (STUB.replace("a, b=1", "a, c=1"), ["kept: Parameter was removed"]),
        (STUB.replace("a, b=1", "a, b"), ["kept: Parameter is now required"]),
        (STUB.replace("LIMIT = ...\n", ""), ["LIMIT: Public object was removed"]),
        (STUB.replace("forward", "ahead"), ["Layer.forward: Public object was removed"]),
    ],
)
def test_a_break_of_the_api_is_named(new: str, said: list[str]) -> None:
    found = public_api.breaks("netcl.made_up", STUB, new)
    assert len(found) == len(said), found
    assert all(f"netcl.made_up.{text}" in line for text, line in zip(said, found)), found


def test_a_break_needs_a_version_of_another_series() -> None:
    assert public_api.series("0.1.0") == public_api.series("0.1.9") != public_api.series("0.2.0")
    assert public_api.series("1.0.0") == public_api.series("1.4.0") != public_api.series("2.0.0")


def test_the_stored_api_has_every_module_and_is_python(root: Path) -> None:
    stored = {
        path.name.removesuffix(".pyi"): path.read_text(encoding="utf-8") for path in public_api.BASELINE.iterdir()
    }
    assert set(stored) == {module for modules in public_api.MODULES.values() for module in modules}
    for module, text in stored.items():
        compile(text, module, "exec")
    assert "class Linear(Module):" in stored["netcl.nn"]


def test_the_citation_has_the_version_of_core(root: Path) -> None:
    version = load_packages(root)["netcl-core"].version
    assert f"\nversion: {version}\n" in (root / "CITATION.cff").read_text(encoding="utf-8")


def test_the_release_workflow_publishes_by_trust_after_the_rehearsal(root: Path) -> None:
    text = (root / ".github/workflows/release.yml").read_text(encoding="utf-8")
    assert "nox -s release -- --final --tag" in text
    assert "needs: rehearse" in text
    assert "id-token: write" in text
    assert "password" not in text
    assert "secrets." not in text
