"""Deferred execution of traced functions: regions of calls that become one kernel when a value is read."""

from __future__ import annotations
