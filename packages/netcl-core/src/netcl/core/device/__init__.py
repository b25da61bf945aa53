"""Devices: discovery, selectors, capabilities, and the drivers that pip installed."""

from __future__ import annotations

from netcl.core.device.discovery import *  # noqa: F403
