"""Hand-written kernels: KernelSpec and its helpers, and the OpenCL C files of the contractions."""
