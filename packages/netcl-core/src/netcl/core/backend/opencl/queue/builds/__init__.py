"""Builds of programs in other processes, and the launches that wait for them."""

from __future__ import annotations
