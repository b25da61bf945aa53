"""The choice of kernels: the selector, measurements kept on disk, and measurements that are shipped."""

from __future__ import annotations
