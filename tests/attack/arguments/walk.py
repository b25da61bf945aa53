"""Calls public functions with wrong arguments; run as a program by ``wrong.py``, in a child that may be killed.

    python tests/attack/arguments/walk.py types|integers FIRST STEP [NAME ...]

Prints a line of JSON before and after each target: its name, and the symptoms that its calls showed.
"""

from __future__ import annotations

import dis
import json
import os
import sys
import warnings
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from arguments.public import calls, targets

RAISE = (dis.opmap["RAISE_VARARGS"], dis.opmap["RERAISE"])
WRONG: dict[str, tuple[Any, ...]] = {
    "types": (3, None, "text", ["a", "b"], {"a": 1}, object(), 2.5),
    "integers": (2**31, 10**30, -1),
}
MEMORY = 6 << 30


def symptom(error: BaseException) -> str:
    """Returns "" for an error that netcl raises by a statement, else the place that raised it."""
    last = error.__traceback__
    assert last is not None
    # Python compares a call with the signature, and names the function; or netcl has cut the frames below.
    text = str(error)
    if getattr(error, "_shortened", False) or "positional argument" in text or "keyword argument" in text:
        return ""
    while last.tb_next is not None:
        last = last.tb_next
    name = str(last.tb_frame.f_globals.get("__name__", ""))
    if type(error).__module__.startswith("netcl"):
        return ""
    if name.startswith("netcl") and last.tb_frame.f_code.co_code[last.tb_lasti] in RAISE:
        return ""
    kind = type(error).__name__
    return kind if kind in ("AttributeError", "TypeError", "ValueError", "IndexError", "KeyError") else f"other {kind}"


def main() -> None:
    kind, first, step, *names = sys.argv[1:]
    warnings.simplefilter("ignore")
    if kind == "integers":
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    out = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    for number, (name, function) in enumerate(targets().items()):
        if number % int(step) != int(first) or (names and name not in names):
            continue
        made, found = 0, {}
        for text, call in calls(name, function, WRONG[kind]):
            print(json.dumps({"calls": text, "target": name}), file=out)
            made += 1
            try:
                call()
            except Exception as error:
                if seen := symptom(error):
                    found[text] = [seen, str(error)[:120]]
            except BaseException as error:
                found[text] = [f"other {type(error).__name__}", str(error)[:120]]
        print(json.dumps({"target": name, "made": made, "found": found}), file=out)
    print(json.dumps({"end": True}), file=out)
    os._exit(0)


if __name__ == "__main__":
    main()
