"""CompiledGraph under its public path; see ``netcl.autograd.compiler.captured_graph``."""

from __future__ import annotations

from netcl.autograd.compiler.captured_graph import CompiledGraph

__all__ = ["CompiledGraph"]
