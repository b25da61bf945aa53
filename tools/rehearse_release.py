"""Rehearses a release: changelogs, two builds, checks of archives, installs from its own index, upgrades, suites, API.

Each step prints one line with its time. It reads the files that git tracks; nothing is uploaded.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import project_urls
from local_index import served, write_index
from monorepo import FOLDER_OF, FOLDERS, ROOT, SETTINGS, load_packages, load_released

PACKAGES, RELEASED = load_packages(), load_released()
# Requires all layers; TOPS are all extensions.
TOP = "netcl-torch"
TOPS = tuple(SETTINGS["tool"]["netcl"]["extensions"])
# Checks any netcl-core and depends on none: released with the layers, not one of them.
KIT = "netcl-conformance"
# Wheels of all packages together; the issue of the release sets the limit.
WHEELS_MAX_BYTES = 10 * 1024 * 1024


class Refused(Exception):
    """The release cannot be made; the message says why."""


def call(*command: str | Path, cwd: Path = ROOT, env: dict[str, str] | None = None, fails: bool = False) -> str:
    """Runs a command and returns what it wrote; raises Refused if it fails, or if it must fail and does not."""
    environment = {**os.environ, **(env or {})}
    environment.pop("PYTHONPATH", None)
    done = subprocess.run(
        [*map(str, command)], cwd=cwd, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    if bool(done.returncode) != fails:
        raise Refused(f"{' '.join(map(str, command))}\n{done.stdout[-6000:]}")
    return done.stdout


class Rehearsal:
    """The steps, in order, and their working folder."""

    def __init__(self, folder: Path, suites: Sequence[str]) -> None:
        self.folder, self.suites = folder, suites
        self.dist, self.index = folder / "dist", folder / "index"
        self.address = project_urls.repository()

    def tree(self, name: str, edit: Callable[[Path], None] | None = None) -> Path:
        """Returns a copy of the tracked files, with new times, changed by ``edit``, with the links of a release."""
        copy = self.folder / name
        others = ("alternatives", "pyproject.toml", "LICENSE", "tools/write_stubs.py")
        for file in call("git", "ls-files", *FOLDERS, *others).splitlines():
            (copy / file).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(ROOT / file, copy / file)
        settings = copy / "pyproject.toml"
        address = self.address or "https://example.org/netcl"
        text = re.sub(
            '^repository = ".*"$', f'repository = "{address}"', settings.read_text("utf-8"), flags=re.MULTILINE
        )
        settings.write_text(text, encoding="utf-8")
        project_urls.check(copy, fix=True)
        if edit is not None:
            edit(copy)
        return copy

    def build(self, tree: Path, out: Path, *names: str) -> list[Path]:
        """Builds source archive and wheel of each package and the kit, the wheel from the source archive."""
        for name in names or (*RELEASED, KIT):
            folder = tree / FOLDER_OF.get(name, "alternatives") / name
            call("python", "-m", "build", "--no-isolation", "--outdir", out, folder)
        return sorted(out.iterdir())

    def python(self, name: str) -> Path:
        """Makes an empty environment; returns its Python."""
        call("uv", "venv", "--quiet", "--clear", "--python", sys.executable, self.folder / name)
        return self.folder / name / ("Scripts/python.exe" if sys.platform == "win32" else "bin/python")

    def install(self, python: Path, *wanted: str, fails: bool = False, more: Sequence[str] = ()) -> str:
        """Installs from the session's index, libraries from the public one."""
        with served(self.index) as address:
            # uv asks this index first, and takes a project from the first index that has it.
            index = ("--index", address, "--no-cache-dir" if fails else "--quiet")
            return call("uv", "pip", "install", "--python", python, *index, *more, *wanted, fails=fails)

    # -- steps ---------------------------------------------------------------------------------------------------------

    def changelogs(self) -> str:
        """Returns towncrier puts every file of `changes/` into the changelog of its package."""
        count = 0
        for package in RELEASED.values():
            draft = call("towncrier", "build", "--draft", "--version", package.version, cwd=package.folder)
            for file in sorted(package.folder.glob("changes/*.md")):
                count += 1
                if "".join(file.read_text(encoding="utf-8").split())[:60] not in "".join(draft.split()):
                    raise Refused(f"{package.name}: towncrier leaves out {file.name}:\n{draft}")
        return f"towncrier writes {len(RELEASED)} changelogs, with {count} changes since the last release"

    def builds(self) -> str:
        """Builds twice, in different folders and at different times; the bits are equal."""
        first = self.build(self.tree("first"), self.dist)
        time.sleep(2)  # the times in archives have steps of two seconds
        second = self.build(self.tree("second/elsewhere"), self.folder / "again")
        digests = [
            {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in run} for run in (first, second)
        ]
        if digests[0] != digests[1]:
            different = sorted(name for name in digests[0] if digests[0][name] != digests[1].get(name))
            raise Refused(f"two builds differ: {', '.join(different)}")
        size = sum(path.stat().st_size for path in first if path.suffix == ".whl")
        if size > WHEELS_MAX_BYTES:
            raise Refused(f"the wheels have {size / 1e6:.1f} MB, more than {WHEELS_MAX_BYTES / 1e6:.1f}")
        return f"{len(first)} archives, equal bits in two builds; wheels {size / 1e6:.2f} MB"

    def metadata(self) -> str:
        """Returns twine and check-wheel-contents accept the archives, and hatch reads the versions and builds."""
        archives = sorted(self.dist.iterdir())
        call("twine", "check", "--strict", *archives)
        wheels = [path for path in archives if path.suffix == ".whl"]
        # W002: py.typed and short modules are alike in several packages. W004: PyInstaller reads its hook by path.
        call("check-wheel-contents", "--ignore", "W002,W004", *wheels)
        # An interrupted run leaves broken environments; nox names its own to uv, and hatch's uv would install there.
        own = {"HATCH_DATA_DIR": str(self.folder / "hatch_data"), "UV_PYTHON": ""}
        for package in RELEASED.values():
            said = call("hatch", "--no-color", "version", cwd=package.folder, env=own).split()
            if said[-1:] != [package.version]:
                raise Refused(
                    f"{package.name}: hatch version prints {said}, {package.about.name} has {package.version}"
                )
        call("hatch", "build", "-t", "wheel", self.folder / "hatch", cwd=PACKAGES["netcl-optim"].folder, env=own)
        return f"twine accepts {len(archives)} archives, check-wheel-contents {len(wheels)} wheels"

    def installs(self) -> str:
        """Returns each package alone brings what it declares and does a smallest job; all together agree."""
        write_index(self.dist.iterdir(), self.index)
        for name in PACKAGES:
            python = self.python(f"alone/{name}")
            self.install(python, name)
            call(python, "-I", ROOT / "checks/alone" / f"{name.removeprefix('netcl-')}.py", cwd=self.folder)
        call("uv", "pip", "check", "--python", python)
        self.install(python, KIT)
        levels = ("--level", "tensor", "--level", "ops-basic")
        said = call(python, "-I", "-m", "netcl_conformance", "--device", "cpu", *levels).splitlines()
        return f"each package alone, {TOP} with all; {KIT} on these: {said[-1]}"

    def devices(self) -> str:
        """Trains README's example on PoCL with the extra `cpu`; without it one line says what to install."""
        readme = (ROOT / "README.md").read_text(encoding="utf-8")
        example = re.findall(r"^```python\n(.*?)^```$", readme, re.MULTILINE | re.DOTALL)[0]
        program = self.folder / "example.py"
        program.write_text(example + "print(model[0].weight.engine.handle.platform_name)\n", encoding="utf-8")
        python = self.python("device")
        self.install(python, f"{TOP}[cpu]")
        printed = call(python, "-I", program, cwd=self.folder, env={"NETCL_DEVICE": "auto"})
        if "Portable Computing Language" not in printed:
            raise Refused(f"{TOP}[cpu] does not train on PoCL:\n{printed}")
        plain = self.folder / "alone/netcl-trainer/bin/python"
        lines = call(plain, "-I", "-c", "import netcl as nc; nc.zeros(2); nc.ones(2)").strip().splitlines()
        if len(lines) != 1 or "computing with NumPy" not in lines[0] or "netcl-core[cpu]" not in lines[0]:
            raise Refused(f"without an extra the first use says {lines}")
        return f"PoCL: {printed.splitlines()[-2]}; without: {lines[0]}"

    def upgrades(self) -> str:
        """Returns 0.1.0 takes netcl-core 0.1.1; 0.2.0 is refused by the resolver, and by the import if it is forced."""
        current = PACKAGES["netcl-core"].version
        major, minor = map(int, current.split(".")[:2])
        patch, beyond = f"{major}.{minor}.{int(current.split('.')[2]) + 1}", f"{major}.{minor + 1}.0"

        def raised(version: str) -> Callable[[Path], None]:
            about = Path("packages/netcl-core/src/netcl/core/__about__.py")

            def edit(tree: Path) -> None:
                text = (tree / about).read_text(encoding="utf-8")
                (tree / about).write_text(text.replace(f'"{current}"', f'"{version}"'), encoding="utf-8")

            return edit

        python = self.python("upgrade")
        self.install(python, "netcl-nn")
        for version in (patch, beyond):
            write_index(
                self.build(self.tree(version, raised(version)), self.folder / "newer" / version, "netcl-core"),
                self.index,
            )
        self.install(python, "netcl-nn", "netcl-core", more=("--upgrade",))
        name_version = "from importlib.metadata import version; print(version('netcl-core'))"
        if (taken := call(python, "-I", "-c", f"import netcl.nn; {name_version}").strip()) != patch:
            raise Refused(f"expected an upgrade to netcl-core {patch}, got {taken}")
        said = self.install(python, "netcl-nn", f"netcl-core=={beyond}", fails=True)
        if "netcl-nn" not in said or f"netcl-core=={beyond}" not in said:
            raise Refused(f"the refusal of netcl-core {beyond} does not name the layers:\n{said}")
        self.install(python, f"netcl-core=={beyond}", more=("--no-deps",))
        said = call(python, "-I", "-c", "import netcl.nn", fails=True).splitlines()[-1]
        if f"netcl-core {beyond} is installed: pip install" not in said:
            raise Refused(f"netcl-nn next to netcl-core {beyond} says {said}")
        for version in (patch, beyond):
            for file in (self.index / "netcl-core").glob(f"netcl_core-{version}*"):
                file.unlink()
        write_index(self.dist.iterdir(), self.index)
        return f"{current} to {patch}; {beyond} is refused: {said}"

    def locks(self) -> str:
        """Returns uv, PDM and Poetry resolve all packages and write a lock file, if they can lock NumPy alone here."""
        said = []
        with served(self.index) as address:
            for tool, (settings, command) in _LOCKS.items():
                try:
                    self._lock(f"{tool}-alone", _PROJECT.format(needs="numpy>=1.24"), command)
                except Refused as error:
                    if tool == "uv":
                        raise
                    said.append(f"{tool} cannot lock NumPy here ({str(error).strip().splitlines()[-1]})")
                    continue
                text = _PROJECT.format(needs='", "'.join(f"{top}[cpu]" for top in TOPS)) + settings.replace(
                    "ADDRESS", address
                )
                locked = self._lock(tool, text, command)
                missing = [name for name in (*PACKAGES, "pyopencl") if f'name = "{name}"' not in locked]
                if missing:
                    raise Refused(f"{tool}'s lock file lacks {', '.join(missing)}")
                said.append(f"{tool} locks {len(PACKAGES)} packages")
        return "; ".join(said)

    def _lock(self, name: str, settings: str, command: Sequence[str]) -> str:
        project = self.folder / "locks" / name
        project.mkdir(parents=True, exist_ok=True)
        (project / "pyproject.toml").write_text(settings, encoding="utf-8")
        call("uv", "tool", "run", "--quiet", "--python", sys.executable, *command, cwd=project)
        (lock,) = project.glob("*.lock")
        return lock.read_text(encoding="utf-8").lower()

    def sources(self) -> str:
        """Returns the suites in the source archives pass on the installed wheels, on the NumPy engine."""
        python = self.python("suites")
        self.install(python, *(f"{name}[test]" for name in PACKAGES))
        lines = []
        settings = ROOT / "pyproject.toml"
        for name in self.suites:
            (archive,) = self.dist.glob(f"{name.replace('-', '_')}-*.tar.gz")
            with tarfile.open(archive) as opened:
                opened.extractall(self.folder / "sources", filter="data")
            tests = self.folder / "sources" / archive.name.removesuffix(".tar.gz") / "tests"
            how = ("-q", "-p", "no:cacheprovider", "-m", "not deep and not timing", "-n", "2", "-c", settings)
            command = (python.parent / "pytest", *how, f"--rootdir={tests}", tests)
            lines.append(f"{name} {call(*command, cwd=tests, env={'NETCL_DEVICE': 'cpu'}).strip().splitlines()[-1]}")
        return "; ".join(lines)

    def inventory(self) -> str:
        """Returns a CycloneDX list of all that is installed with the extra `cpu`."""
        target = self.dist / "netcl.cdx.json"
        python = self.folder / "device/bin/python"
        call("cyclonedx-py", "environment", python, "--output-format", "JSON", "--output-file", target)
        names = {entry["name"] for entry in json.loads(target.read_text(encoding="utf-8"))["components"]}
        missing = {*PACKAGES, "numpy", "pyopencl"} - names
        if missing:
            raise Refused(f"{target.name} lacks {', '.join(sorted(missing))}")
        return f"{target.name}: {len(names)} components"

    def api(self) -> str:
        """Refuses changes that break the API of the last release within its series."""
        self.install(Path(sys.executable), *PACKAGES, more=("--reinstall-package", "netcl-core"))
        call("python", "tools/public_api.py", env={"NETCL_DEVICE": "cpu"})
        return "no break of checks/public_api"


STEPS = ("changelogs", "builds", "metadata", "installs", "devices", "upgrades", "locks", "sources", "inventory", "api")

_PROJECT = """[project]
name = "program"
version = "1.0"
requires-python = ">=3.10,<3.14"
dependencies = ["{needs}"]
"""
_LOCKS = {
    "uv": (
        '[[tool.uv.index]]\nname = "here"\nurl = "ADDRESS"\n',
        ("uv", "lock", "--quiet"),
    ),
    "pdm": (
        '[[tool.pdm.source]]\nname = "here"\nurl = "ADDRESS"\ninclude_packages = ["netcl-*"]\n',
        ("pdm", "lock", "--quiet"),
    ),
    "poetry": (
        '[[tool.poetry.source]]\nname = "here"\nurl = "ADDRESS"\npriority = "supplemental"\n',
        ("poetry", "lock", "--no-interaction"),
    ),
}


def refusal(final: bool, tag: str | None, root: Path = ROOT) -> str:
    """Returns why this tree cannot be released under the tag; "" if it can."""
    if final and not project_urls.repository(root):
        return 'set repository in [tool.netcl] of pyproject.toml, which is ""'
    tags = [f"{name}-v{package.version}" for name, package in load_released(root).items()]
    if tag is not None and tag not in tags:
        return f"the tag {tag} is none of {', '.join(tags)}"
    return ""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", action="append", choices=STEPS, help="run this step, and the steps that it needs")
    parser.add_argument("--suites", nargs="*", default=["netcl-optim", "netcl-data"], help="suites of the step sources")
    parser.add_argument("--final", action="store_true", help="refuse if no repository is set, as a release does")
    parser.add_argument("--out", type=Path, help="copy the archives and the list of components here")
    parser.add_argument("--tag", help="refuse if the tag is not that of a package's version (netcl-core-v0.1.0)")
    chosen = parser.parse_args()
    if problem := refusal(chosen.final, chosen.tag):
        print(f"no release: {problem}", file=sys.stderr)
        return 1
    wanted = [step for step in STEPS if not chosen.only or step in chosen.only or step in ("builds", "installs")]
    with tempfile.TemporaryDirectory(prefix="netcl-release-") as folder:
        rehearsal = Rehearsal(Path(folder), chosen.suites)
        for step in wanted:
            start = time.monotonic()
            try:
                said = getattr(rehearsal, step)()
            except Refused as error:
                print(f"{step}: no release: {error}", file=sys.stderr)
                return 1
            print(f"{step} ({time.monotonic() - start:.0f} s): {said}", flush=True)
        if chosen.out:
            shutil.copytree(rehearsal.dist, chosen.out, dirs_exist_ok=True)
    if not project_urls.repository():
        print("rehearsed with an address of example.org: set repository in [tool.netcl] of pyproject.toml to release")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
