"""compile_training_step under its public path; see ``netcl.autograd.compiler.training_step``."""

from __future__ import annotations

from netcl.autograd.compiler.training_step import CompiledTrainingStep, compile_training_step

__all__ = ["CompiledTrainingStep", "compile_training_step"]
