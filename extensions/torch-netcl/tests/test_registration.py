"""The hook that `import torch` calls: cheap, silent, and without netcl until the device is used."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import torch_netcl

HOOK = """
import time, torch
begun = time.process_time()
import torch_netcl
torch_netcl.register()
print((time.process_time() - begun) * 1e3)
"""


def output_of(code: str, **environment: str) -> str:
    env = {**os.environ, **environment}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=env, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_import_torch_alone_gives_the_device() -> None:
    code = "import torch; x = torch.randn(3, device='ocl'); print(x.device, (x + x).shape)"
    assert output_of(code).strip() == "ocl:0 torch.Size([3])"


def test_import_torch_loads_neither_netcl_nor_pyopencl() -> None:
    code = (
        "import torch, sys; torch.device('ocl'); torch.manual_seed(3); torch.ocl.is_available();"
        "print(sorted(m for m in sys.modules if m.partition('.')[0] in ('netcl', 'pyopencl', 'numpy.linalg')))"
    )
    assert "netcl" not in output_of(code)
    assert "pyopencl" not in output_of(code)


@pytest.mark.parametrize("core", ["netcl-core", "netcl-core-torch"])
def test_the_hook_with_its_imports_takes_less_than_two_milliseconds(tmp_path: Path, core: str) -> None:
    # The first process writes bytecode, as pip does at the installation.
    env = {"PYTHONPYCACHEPREFIX": str(tmp_path), "PYTHONDONTWRITEBYTECODE": "", "TORCH_DEVICE_BACKEND_AUTOLOAD": "0"}
    if core != "netcl-core":
        folder = Path(__file__).resolve().parents[3] / "alternatives" / core / "src"
        if not folder.is_dir():
            pytest.skip("a tree without the other cores")
        env["PYTHONPATH"] = os.pathsep.join([str(folder), os.environ.get("PYTHONPATH", "")])
    times = [float(output_of(HOOK, **env)) for _ in range(6)]
    assert min(times) < 2, times


REFUSED = "import warnings, torch_netcl\ntorch_netcl.LOWEST = (99, 0)\n"


def test_the_hook_never_raises_and_warns() -> None:
    code = REFUSED + (
        "with warnings.catch_warnings(record=True) as seen:\n    warnings.simplefilter('always')\n    import torch\n"
        "print(type(torch_netcl.refused).__name__)\n"
        "print([str(w.message) for w in seen if 'ocl' in str(w.message)], torch.ones(2).sum().item())\n"
    )
    kind, text = output_of(code, TORCH_DEVICE_BACKEND_AUTOLOAD="1").splitlines()
    assert kind == "ImportError"
    assert 'pip install "torch>=99.0,<2.15"' in text
    assert text.endswith("2.0")
    code = REFUSED + "warnings.simplefilter('error', UserWarning)\nimport torch; print(torch.ones(2).sum().item())"
    assert output_of(code, TORCH_DEVICE_BACKEND_AUTOLOAD="1").strip() == "2.0"


@pytest.mark.parametrize(
    "call",
    [
        "torch_netcl.device.setup()",
        "torch_netcl.device.loaded()",
        "torch.compile(lambda x: x + 1, backend='netcl')(torch.ones(2))",
    ],
)
def test_a_use_with_a_torch_outside_the_range_is_an_import_error(call: str) -> None:
    code = REFUSED + (
        f"import torch, torch_netcl.device\ntry: {call}\nexcept Exception as error:\n"
        "    while error.__cause__ is not None: error = error.__cause__\n"
        "    print(type(error).__name__, error)"
    )
    said = output_of(code, TORCH_DEVICE_BACKEND_AUTOLOAD="1")
    assert "ImportError" in said
    assert 'pip install "torch>=99.0,<2.15"' in said


def test_a_process_without_the_hook_compiles() -> None:
    code = "import torch; print(torch.compile(lambda x: x + 1, backend='netcl')(torch.ones(2)).tolist())"
    assert output_of(code, TORCH_DEVICE_BACKEND_AUTOLOAD="0").strip() == "[2.0, 2.0]"


def test_the_place_of_the_backend_may_be_taken() -> None:
    code = (
        "import torch; torch.utils.rename_privateuse1_backend('other'); import torch_netcl; torch_netcl.register();"
        "print(type(torch_netcl.refused).__name__)"
    )
    assert output_of(code, TORCH_DEVICE_BACKEND_AUTOLOAD="0").strip() == "RuntimeError"


@pytest.mark.parametrize(("cuda", "there", "expected"), [("13.0", True, "RuntimeError"), ("13.0", False, "NoneType"),
                                                         (None, True, "NoneType")])  # fmt: skip
def test_a_gpu_of_pytorch_itself_keeps_the_device_out(cuda: str | None, there: bool, expected: str) -> None:
    """With both, PyTorch 2.11's backward pass on CUDA fails an assertion of its own (one H200, 2026-11-30)."""
    code = (
        f"import os, torch, torch_netcl; torch.version.cuda = {cuda!r}; files = os.path.exists;"
        f"os.path.exists = lambda path: {there} if path == '/dev/nvidiactl' else files(path);"
        "torch_netcl.register(); print(type(torch_netcl.refused).__name__)"
    )
    assert output_of(code, TORCH_DEVICE_BACKEND_AUTOLOAD="0").strip() == expected


@pytest.mark.parametrize("version", ["2.10.1", "1.13", "2.15.0", "3.0"])
def test_a_torch_outside_the_range_is_refused_with_the_line_for_pip(version: str) -> None:
    with pytest.raises(ImportError, match='pip install "torch>=2.11,<2.15"'):
        torch_netcl.check_version(version)


@pytest.mark.parametrize("version", ["2.11.0", "2.13.0+cpu", "2.14.1"])
def test_a_torch_within_the_range_is_taken(version: str) -> None:
    torch_netcl.check_version(version)


def test_a_seed_before_the_first_use_is_kept() -> None:
    code = "import torch; torch.manual_seed(7); print(torch.randn(3, device='ocl').tolist())"
    assert output_of(code) == output_of(code)


@pytest.mark.parametrize("zipped", [True, False])
def test_a_file_is_loaded_by_a_process_that_has_not_used_the_device(tmp_path: Path, zipped: bool) -> None:
    path = tmp_path / "x.pt"
    save = f"torch.save(torch.arange(3, device='ocl'), {str(path)!r}, _use_new_zipfile_serialization={zipped})"
    output_of(f"import torch; {save}")
    code = f"import torch; x = torch.load({str(path)!r}); print(x.device, x.tolist())"
    assert output_of(code).strip() == "ocl:0 [0, 1, 2]"


def test_storages_are_made_without_an_allocator_in_cpp() -> None:
    code = (
        "import torch; x = torch.UntypedStorage(8, device='ocl'); y = torch.UntypedStorage([1, 2], device='ocl');"
        "z = torch.arange(2, dtype=torch.uint8).untyped_storage().to(device='ocl');"
        "print(x.nbytes(), y.tolist(), z.tolist(), z.to(device='cpu').tolist(), z.to(device='ocl') is z)"
    )
    assert output_of(code).strip() == "8 [1, 2] [0, 1] [0, 1] True"


def test_the_device_is_that_of_the_environment() -> None:
    code = "import torch; print(torch.ocl.device_name())"
    assert "NumPy" in output_of(code, NETCL_DEVICE="cpu")


def test_the_command_prints_device_versions_and_share() -> None:
    done = subprocess.run([sys.executable, "-m", "torch_netcl"], capture_output=True, text=True, check=True)
    assert "device" in done.stdout
    assert "torch " in done.stdout
    assert "overloads" in done.stdout
    *_, algebra = done.stdout.splitlines()
    assert {"_fft_r2c", "linalg_qr", "linalg_lu"} <= set(algebra.split())
    assert not {"mm", "dot", "linalg_vector_norm", "linear_backward"} & set(algebra.split())


def test_a_forked_process_that_seeds_is_left_alone() -> None:
    code = (
        "import torch, os\ntorch.ones(2, device='ocl')\npid = os.fork()\n"
        "if pid == 0:\n    torch.manual_seed(1); os._exit(0)\nprint(os.waitpid(pid, 0)[1])"
    )
    if not hasattr(os, "fork"):
        pytest.skip("the system has no fork")
    assert output_of(code).strip() == "0"
