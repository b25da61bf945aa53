# For type checkers in a checkout; netcl-core ships the real module, so wheels leave this file out.
from typing import Any

def __getattr__(name: str) -> Any: ...
