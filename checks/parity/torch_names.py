"""The public names of PyTorch by module, which netcl.torch keeps in names.txt; ``--write`` writes them again."""

from __future__ import annotations

import importlib
import pkgutil
import re
import sys
import warnings
from pathlib import Path
from types import ModuleType
from typing import Any, TypeVar

import torch

FILE = Path(__file__).parents[2] / "extensions/netcl-torch/src/netcl/torch/names.txt"

# Packages for other hardware, compilers of graphs, quantization and experiments, and what only PyTorch itself imports.
_LEFT_OUT = re.compile(
    r"""torch\.(ao|contrib|export|fx|library|masked\.\w+|monitor|mtia|nativert|nested|numa|package|quantization|signal\.windows\.\w+|xpu)\b
    |.*\.(expanded_weights|experimental|flex_attention|intrinsic|qat|quantizable|quantized|varlen|thnn|xeon)\b
    |torch\.distributed\.(?!(constants|distributed_c10d)\b)
    |torch\.(onnx|multiprocessing|jit|compiler|mps|accelerator|sparse|testing|profiler|nn\.backends)\..*
    |torch\.utils\.(?!(data|checkpoint|dlpack|hooks|model_zoo|cpp_extension|flop_counter|collect_env)\b)
    |torch\.utils\.data\.(datapipes|graph|graph_settings|backward_compatibility)\b
    |torch\.cuda\.(?!(amp|memory|random|nvtx|streams|graphs|comm|nccl|profiler)\b)
    |torch\.backends\.(cusparselt|kleidiai|miopen|nnpack|python_native|xnnpack|mkldnn\.|cudnn\.)
    |torch\.autograd\.(profiler_legacy|profiler_util|variable)|torch\.nn\.cpp|torch\.quasirandom""",
    re.VERBOSE,
)
_ALSO = ("torch.distributed.optim", "torch.distributed.fsdp", "torch.distributed.algorithms.join", "torch._dynamo")


def modules() -> list[str]:
    """The modules that a program may import from."""
    found = [module.name for module in pkgutil.walk_packages(torch.__path__, "torch.", onerror=lambda name: None)]
    kept = [name for name in found if "._" not in name and not _LEFT_OUT.match(name)]
    return ["torch", *kept, *_ALSO]


def _is_public(module: ModuleType, name: str, value: Any) -> bool:
    if name.startswith("_") or isinstance(value, (ModuleType, TypeVar)):
        return False
    home, own = getattr(value, "__module__", None), module.__name__
    if not isinstance(home, str) or home.startswith("torch._C"):
        return True
    return home == own or (home.startswith("torch") and (hasattr(module, "__path__") or own == "torch.nn.functional"))


def names_of(module: ModuleType) -> set[str]:
    """The public names of a module of PyTorch: those of ``__all__``, and others that PyTorch defines in it."""
    listed = {
        name for name in getattr(module, "__all__", ()) if not isinstance(getattr(module, name, None), ModuleType)
    }
    found = listed | {name for name, value in vars(module).items() if _is_public(module, name, value)}
    return found - {"tqdm"}  # defined only if the package is not installed


def table() -> dict[str, list[str]]:
    """The names by module, and the public members of Tensor."""
    found: dict[str, list[str]] = {}
    for name in modules():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                module = importlib.import_module(name)
            except Exception as error:  # noqa: BLE001  # a package that PyTorch's extras need
                print(f"{name} is left out: {error}", file=sys.stderr)
                continue
            found[name] = sorted(names_of(module))
    found["torch.Tensor"] = sorted(name for name in dir(torch.Tensor) if not name.startswith("_"))
    return found


def text() -> str:
    """The contents of the file."""
    version = torch.__version__.split("+")[0]
    lines = [f"# The public names of PyTorch {version} by module, written by checks/parity/torch_names.py --write"]
    return "\n".join([*lines, *(" ".join([f"{module}:", *names]) for module, names in table().items())]) + "\n"


def test_the_file_has_the_names_of_pytorch() -> None:
    assert FILE.read_text(encoding="utf-8") == text()


if __name__ == "__main__" and "--write" in sys.argv:
    FILE.write_text(text(), encoding="utf-8")
