"""The error of a request, in the shape of OpenAI's."""

from __future__ import annotations

from typing import Any

__all__ = ["ApiError"]


class ApiError(Exception):
    """A request that is refused: what was expected and what came, the wrong field, a word for programs, the status."""

    def __init__(self, message: str, param: str | None = None, code: str | None = None, status: int = 400) -> None:
        super().__init__(message)
        self.status: int = status
        self.message: str = message
        self.param: str | None = param
        self.code: str | None = code

    def body(self) -> dict[str, Any]:
        """Returns the JSON of the answer."""
        kinds = {401: "authentication_error", 429: "rate_limit_error"}
        kind = kinds.get(self.status, "invalid_request_error" if self.status < 500 else "server_error")
        return {"error": {"message": self.message, "type": kind, "param": self.param, "code": self.code}}
