"""The process of one peer: makes the work of a row, a training step or an inference when asked, and runs it in bursts.

A peer has the functions ``row(row)``, ``step(name)`` and ``infer(name, size, file)`` that it can do; they return None
for a work that it cannot do.

``python -m peers.worker NAME`` in benchmarks/, with the peer's library; a line of JSON in, a line of JSON out.
"""

from __future__ import annotations

import json
import os
import sys
from importlib import import_module
from typing import Any

from bursts import Burst, here
from rows import Row


def main() -> None:
    # The output of libraries must not be mixed with the answers.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    peer = import_module(f"peers.{sys.argv[1]}")
    run: Burst | None = None
    for line in sys.stdin:
        request = json.loads(line)
        answer: Any
        if "seconds" in request:
            assert run is not None
            answer = run(request["seconds"])
        else:
            given = {"row": Row(**request["row"])} if "row" in request else request
            make = getattr(peer, next(iter(request)), None)
            work = make(*given.values()) if make is not None else None
            run = None if work is None else here(work)
            answer = run is not None
        print(json.dumps(answer), file=answers, flush=True)


if __name__ == "__main__":
    main()
