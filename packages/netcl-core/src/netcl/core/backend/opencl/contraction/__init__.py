"""Matrix products and convolutions: problems, kernels and their OpenCL C templates."""

from __future__ import annotations
