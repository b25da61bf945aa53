"""The server of a language model with OpenAI's addresses; needs the extra ``serve``."""

from __future__ import annotations

from netcl.llm.server.app import Limits, application, serve

__all__ = ["Limits", "application", "serve"]
