"""Writes docs/reference/torch.md: PyTorch's public names by module, and why some are absent."""

from __future__ import annotations

import re
from collections.abc import Iterator

from monorepo import ROOT

import netcl.torch
from netcl.core.tensor.absent import ABSENT as ABSENT_MEMBERS
from netcl.torch import tree
from netcl.torch.placeholders import names_of as names_of_placeholders

PAGE = ROOT / "docs/reference/torch.md"
DIFFERENCES = ROOT / "docs/reference/differences.md"
PLACES = (
    *("torch", "torch.Tensor", "torch.nn", "torch.nn.functional", "torch.nn.init", "torch.nn.utils", "torch.optim"),
    *("torch.optim.lr_scheduler", "torch.utils.data", "torch.autograd.functional", "torch.func", "torch.amp"),
    *("torch.linalg", "torch.signal.windows", "torch.special", "torch.distributions", "torch.cuda"),
    *("torch.accelerator", "torch.distributed"),
)
# Parts of torch's top level that are not for programs: its compiler, serializer and quantizer.
INTERNAL = re.compile(
    r".*(Type|Storage|Graph|Script|JIT|Logg|Guard|Dispatch|Context|Sym[A-Z]|quantize|fbgemm|cudnn|miopen|mkldnn|quint)"
    r"|(bits|float[48]_|fused_|batch_norm_|_).*|[A-Z]+"
)
HEAD = """# PyTorch's names in netcl.torch

Written by `python tools/document_torch.py`. `python -m netcl.torch script.py` runs a program that says `import torch`;
see [how to run a PyTorch script](../how-to/run-a-pytorch-script.md). A name that is absent raises AttributeError at the
line that uses it, with the reason given here; a name that **can be imported** raises UnsupportedError at its first
use, with the reason. **Differs**: the name is there, and its differences are on the [page of
differences](differences.md), which also lists [absent modules](differences.md#modules-that-are-absent).

"""


def there(place: str) -> set[str]:
    """Returns the public names of a module of PyTorch, or of Tensor, that netcl.torch has."""
    known = tree.public_names()[place]
    if place == "torch.Tensor":
        return {name for name in known if hasattr(netcl.torch.Tensor, name)}
    return known & set(tree.names_of(place))


def public(place: str) -> frozenset[str]:
    """Returns the public names of a module of PyTorch without the names of its own machinery."""
    return frozenset(name for name in tree.public_names()[place] if not INTERNAL.fullmatch(name))


def reason(place: str, name: str) -> str:
    """Returns the reason of an absent name, empty if there is none to give."""
    if place == "torch.Tensor":
        return ABSENT_MEMBERS.get(name, "")
    try:
        text = f"{tree.find(place, name).reason}; see"  # of a placeholder
    except AttributeError as error:
        text = str(error)
    match = re.search(r" is not in netcl: (.*); see", text)
    return match.group(1) if match else ""


def _wrapped(names: Iterator[str]) -> str:
    return " ".join(f"`{name}`" for name in names)


def sections() -> Iterator[str]:
    """Yields the text of each module."""
    differing = set(re.findall(r"[A-Za-z_][A-Za-z_0-9]+", " ".join(_first_columns())))
    for place in PLACES:
        known, present = public(place), there(place) & public(place)
        named = known & names_of_placeholders(place)
        yield f"## {place}\n\n{len(present)} of {len(known)}: {len(present) / len(known):.0%}\n"
        yield "There: " + _wrapped(name for name in sorted(present) if name not in differing) + "\n"
        if differs := sorted(present & differing):
            yield "Differs: " + _wrapped(iter(differs)) + "\n"
        for title, names in (("can be imported", named), ("absent", known - present - named)):
            reasons: dict[str, list[str]] = {}
            for name in sorted(names):
                reasons.setdefault(reason(place, name), []).append(name)
            if reasons:
                rows = [f"| {_wrapped(iter(each))} | {why} |" for why, each in sorted(reasons.items())]
                yield "\n".join([f"| {title} | reason, or the form to write |", "|-|-|", *rows]) + "\n"


def _first_columns() -> Iterator[str]:
    for line in DIFFERENCES.read_text(encoding="utf-8").splitlines():
        if line.startswith("| `"):
            yield " ".join(re.findall(r"`([^`]*)`", line.split("|")[1]))


def page() -> str:
    """Returns the page's text."""
    known = sum(len(public(place)) for place in PLACES)
    present = sum(len(there(place) & public(place)) for place in PLACES)
    top = f"**{present / known:.0%}** of {known} public names of these modules are there.\n"
    return HEAD + top + "\n" + "\n".join(sections())


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
    print(PAGE)
