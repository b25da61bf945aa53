"""The operators of PyTorch's op_db that are compared, and the exceptions of exceptions.toml."""

from __future__ import annotations

import fnmatch
import sys
from pathlib import Path
from typing import Any

import torch
from torch.testing._internal.common_methods_invocations import op_db

sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "tools"))
from monorepo import tomllib

DTYPES = ("float32", "float16", "bfloat16", "int64", "int32", "uint8", "bool")
# Complex numbers, FFT, sparse and quantized tensors, and entries of the compiler's tests for its own copies.
LEFT_OUT = (
    *("fft.*", "stft", "istft", "view_as_real", "view_as_complex", "real", "imag", "complex", "polar", "conj"),
    *("conj_physical", "resolve_conj", "cdouble", "cfloat", "chalf", "linalg.eig", "linalg.eigvals", "*.complex"),
    *("sparse.*", "to_sparse", "*_copy", "*backward*", "torch._scaled_mm*", "_int_mm", "jiterator_*"),
    *("nn.functional.scaled_grouped_mm", "bmm.triton_optimized"),
)


def name_of(op: Any) -> str:
    return f"{op.name}.{op.variant_test_name}" if op.variant_test_name else op.name


def entries() -> dict[str, Any]:
    """The operators by name and variant."""
    covered = {getattr(torch, name) for name in DTYPES}
    return {
        name_of(op): op
        for op in op_db
        if not any(fnmatch.fnmatchcase(name_of(op), pattern) for pattern in LEFT_OUT)
        and not isinstance(op.op, (torch._ops.OpOverload, torch._ops.OpOverloadPacket))  # torch.ops.aten.x
        and covered & op.dtypes
    }


class Exceptions:
    """The differences that are known, each with a reason; collects the keys of those that are used."""

    def __init__(self, path: Path) -> None:
        lists = tomllib.loads(path.read_text(encoding="utf-8"))
        self.unspecified: set[str] = set(lists.get("unspecified", {}).get("names", []))
        self.missing: set[str] = {name for family in lists.get("missing", []) for name in family["names"]}
        self.different: list[dict[str, Any]] = lists.get("different", [])
        self.used: set[str] = set()

    def key(self, record: Any) -> str | None:
        """The key of the exception that covers a difference, for ``used``; None if it is not known."""
        if record.state == "missing" and record.op in self.missing:
            return str(record.op)

        def fits(text: str, patterns: list[str]) -> bool:
            return any(fnmatch.fnmatchcase(text, pattern) for pattern in patterns)

        for i, known in enumerate(self.different):
            if (
                fits(record.op, known["names"])
                and record.state in known["states"]
                and fits(record.form, known.get("forms", ["*"]))
                and fits(record.text, known.get("texts", ["*"]))
                and fits(record.sample, known.get("samples", ["*"]))
                and record.dtype in known.get("dtypes", DTYPES)
            ):
                return str(i)
        return None

    def stale(self) -> list[str]:
        """The entries that nothing used."""
        unused = sorted(self.missing - self.used)
        return unused + [", ".join(x["names"]) for i, x in enumerate(self.different) if str(i) not in self.used]
