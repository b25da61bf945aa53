"""Writes the reference of the modules named as HTML (pdoc), with names that are imported on demand and types of ops."""

from __future__ import annotations

import argparse
import inspect
import typing
import warnings
from collections import abc
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import numpy.typing as npt
import pdoc

import netcl.core
from netcl.core import Tensor
from netcl.core.dtypes import DTypeLike

TEMPLATES = Path(__file__).parent / "reference"
# The types in the signatures of ops, which are made from the rows of the table: an Expr stands for a tensor there.
NAMES: dict[str, Any] = {
    **{name: getattr(typing, name) for name in typing.__all__},
    **{name: getattr(abc, name) for name in abc.__all__},
    **{name: getattr(netcl.core, name) for name in netcl.core.__all__},
    **dict.fromkeys(("Axis", "Axes", "Ints"), Any),
    "np": np,
    "npt": npt,
    "DTypeLike": DTypeLike,
    "Expr": Tensor,
}


def resolved(annotation: Any) -> Any:
    """The type that an annotation in a text names; the text itself where a module keeps the name to itself."""
    if not isinstance(annotation, str):
        return annotation
    try:
        return eval(annotation, NAMES)
    except NameError:
        return annotation


def complete(module: ModuleType) -> None:
    """Import what the module gives on demand, and let its functions say types, and ops their own source."""
    for name in getattr(module, "__all__", ()):
        value = getattr(module, name)
        if not isinstance(value, ModuleType):
            setattr(module, name, value)
        if not inspect.isfunction(value):
            continue
        signature = inspect.signature(value)
        parameters = [p.replace(annotation=resolved(p.annotation)) for p in signature.parameters.values()]
        row = getattr(value, "row", None)
        own = row and (row.composite or row.call)
        if inspect.isfunction(own):
            value.__wrapped__ = own  # type: ignore[attr-defined]
        value.__signature__ = signature.replace(  # type: ignore[attr-defined]
            parameters=parameters, return_annotation=resolved(signature.return_annotation)
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, help="where the pages go")
    parser.add_argument("modules", nargs="+", help="such as netcl.ops")
    options = parser.parse_args()
    for name in options.modules:
        complete(import_module(name))
    # A public name that pdoc does not find would be missing from the pages; a type that it cannot follow is text there.
    warnings.filterwarnings("error", message="Found '")
    warnings.filterwarnings("ignore", message="Error parsing type annotation")
    pdoc.render.configure(template_directory=TEMPLATES, docformat="markdown")
    pdoc.pdoc(*options.modules, output_directory=options.folder)


if __name__ == "__main__":
    main()
