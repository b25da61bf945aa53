"""Hand-written kernels: KernelSpec and its helpers, and the OpenCL C files of the contractions."""

from __future__ import annotations

from netcl.siblings import refuse_stranger

refuse_stranger(__name__)
