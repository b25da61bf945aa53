"""The error of a request, in the shape of OpenAI's."""

from __future__ import annotations

from typing import Any

__all__ = ["ApiError"]


class ApiError(Exception):
    """A request that is refused, with the status of its answer.

    Attributes:
        status: HTTP status, 400 to 503.
        message: what was expected and what came.
        param: the field of the request, if one is wrong.
        code: a word for programs, such as "context_length_exceeded".
    """

    status: int
    message: str
    param: str | None
    code: str | None

    def __init__(self, message: str, param: str | None = None, code: str | None = None, status: int = 400) -> None:
        super().__init__(message)
        self.status, self.message, self.param, self.code = status, message, param, code

    def body(self) -> dict[str, Any]:
        """Returns the JSON of the answer."""
        kinds = {401: "authentication_error", 429: "rate_limit_error"}
        kind = kinds.get(self.status, "invalid_request_error" if self.status < 500 else "server_error")
        return {"error": {"message": self.message, "type": kind, "param": self.param, "code": self.code}}
