"""docs/how-to/write-a-netcl-core.md, followed from an empty folder: its core is green, small, and red with a fault."""

from __future__ import annotations

import ast
import io
import os
import re
import shutil
import subprocess
import sys
import tokenize
from pathlib import Path

import pytest
from check_wheels import KIT
from hatchling.builders.wheel import WheelBuilder

LONGEST = 900
BASIC = ("--level", "tensor", "--level", "ops-basic")


def test_the_page_has_the_commands_that_these_tests_run(root: Path) -> None:
    page = (root / "docs/how-to/write-a-netcl-core.md").read_text(encoding="utf-8")
    (commands,) = re.findall(r"^```sh\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    assert [line.split()[-1] for line in commands.splitlines()] == [
        ".",
        "netcl_front.py",
        ".",
        f'"$CHECKOUT/alternatives/{KIT}"',
        "ops-basic",
    ]
    assert f"{LONGEST} lines of code" in page


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Returns the core and the kit, from wheels that are built in an empty folder."""
    root = Path(__file__).resolve().parent.parent
    folder = tmp_path_factory.mktemp("core")
    shutil.copytree(root / "examples/small_core", folder, dirs_exist_ok=True)
    shutil.copyfile(root / "packages/netcl-core/src/netcl/__init__.py", folder / "netcl_front.py")
    for source in (folder, root / "alternatives" / KIT):
        (wheel,) = WheelBuilder(str(source)).build(directory=str(folder / "dist"), versions=["standard"])
        shutil.unpack_archive(wheel, folder / "site", format="zip")
    return folder / "site"


def conformance(site: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Runs the kit with the core of ``site`` alone: -S leaves out the .pth files, which would put a checkout first."""
    code = (
        "import sys, numpy; sys.path.insert(0, sys.argv.pop(1))\n"
        "from netcl_conformance.__main__ import main\n"
        "import netcl.core; assert netcl.core.__file__.startswith(sys.path[0]), netcl.core.__file__\n"
        "sys.exit(main(sys.argv[1:]))"
    )
    libraries = [path for path in sys.path if path.endswith("-packages")]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(libraries), "NETCL_DEVICE": "cpu"}
    command = [sys.executable, "-S", "-c", code, str(site), *arguments]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=110)


def test_its_two_levels_are_green(site: Path) -> None:
    done = conformance(site, *BASIC)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.splitlines()[-1] == "green"


def test_levels_that_it_does_not_declare_are_red(site: Path) -> None:
    done = conformance(site)
    assert done.returncode == 1
    assert "red: not declared: ops-full, gradient, expressions" in done.stdout


def test_a_product_that_is_off_by_a_thousandth_is_red(site: Path, tmp_path: Path) -> None:
    shutil.copytree(site, tmp_path / "site")
    module = tmp_path / "site/netcl/ops/reductions.py"
    text = module.read_text(encoding="utf-8")
    module.write_text(text.replace("np.matmul(left, right)", "np.matmul(left, right) * 1.001"), encoding="utf-8")
    done = conformance(tmp_path / "site", *BASIC)
    assert done.returncode == 1
    assert "values of matmul" in done.stdout


def lines_of_code(path: Path) -> int:
    """Lines with code: no blank lines, comments and docstrings."""
    text = path.read_text(encoding="utf-8")
    docstrings: set[int] = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            docstrings.update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    kinds = (tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER)
    found: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in kinds:
            found.update(range(token.start[0], token.end[0] + 1))
    return len(found - docstrings)


def test_it_is_short_enough_to_be_written_in_a_day(root: Path) -> None:
    modules = list((root / "examples/small_core/src").rglob("*.py"))
    assert sum(map(lines_of_code, modules)) <= LONGEST
    assert not [path for path in modules if path.parts[-2:] == ("netcl", "__init__.py")]
