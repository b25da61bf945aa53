"""The table of PyTorch's modules, modules.txt: where each finds its names in netcl, and names spelled otherwise.

A module has the public names of PyTorch's module (names.txt) and the names that a source lists in ``TORCH_NAMES``, as
far as one of its ``sources`` has them, and the names of ``names``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from importlib import resources


@dataclass(frozen=True)
class Part:
    """A module of PyTorch.

    ``sources`` are modules of netcl, of which the first that has a name wins; ``names`` are other names with the paths
    ``module:object`` of what they are; ``kind`` is the path of a class of modules, for one with settings.
    """

    sources: tuple[str, ...] = ()
    names: Mapping[str, str] = field(default_factory=dict)
    kind: str = ""


_OWN = "netcl.torch.parts"


def rows_of(file: str, package: str = "netcl.torch") -> Iterator[tuple[str, str]]:
    """Yields (place, text) of each row ``place: text`` of a table, and its headings as ("=", text)."""
    text = resources.files(package).joinpath(file).read_text(encoding="utf-8")
    for line in text.replace("\n    ", " ").splitlines():
        if line.startswith("= "):
            yield "=", line[2:]
        elif not line.startswith("#"):
            place, _, words = line.partition(":")
            yield place, words


def _part(text: str) -> Part:
    """Returns the module that a row of modules.txt describes."""
    sources, names, kind = [], {}, ""
    for word in text.split():
        name, _, path = word.removeprefix("@").rpartition("=")
        path = _OWN + path if path.startswith(".") else path
        if word.startswith("@"):
            kind = path
        elif name or ":" in path:
            names[name or path.partition(":")[2]] = path
        else:
            sources.append(path)
    return Part(tuple(sources), names, kind)


PARTS: dict[str, Part] = {place: _part(text) for place, text in rows_of("modules.txt")}

# Functions with the name of the module that they are in; the attribute of the parent is the function.
FUNCTIONS = frozenset(
    (
        "torch.autograd.gradcheck",
        "torch.nn.parallel.data_parallel",
        "torch.nn.utils.spectral_norm",
        "torch.nn.utils.weight_norm",
    )
)

# Modules that repeat names of the one above them: torch.nn.modules.conv, torch.optim.adam, torch.distributions.normal.
_REPEATED = ("torch.nn.modules.", "torch.optim.", "torch.distributions.")


def repeated(places: Mapping[str, object]) -> Iterator[tuple[str, Part]]:
    """The modules among ``places`` that repeat names of the one above them, and are not in the table."""
    for place in places:
        prefix = next((prefix for prefix in _REPEATED if place.startswith(prefix)), None)
        if prefix and place not in PARTS:
            yield place, Part(PARTS[prefix.removesuffix(".")].sources)


# Why modules, or all absent names of one, are not there; netcl.core has the reasons of single functions.
ABSENT: dict[str, str] = {
    **dict.fromkeys(("torch.ao", "torch.quantization"), "there are no quantized dtypes"),
    "torch.export": "write netcl.io.export_onnx",
    "torch.fft": "there are no complex dtypes",
    "torch.nested": "there are no nested tensors; pad the parts and stack them",
}
