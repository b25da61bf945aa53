"""Devices: discovery, selectors, capabilities, and the drivers that pip installed."""

from __future__ import annotations

from netcl.siblings import refuse_stranger

refuse_stranger(__name__)

from netcl.core.device.discovery import *  # noqa: E402, F403
