"""Writes a profile as a trace in the JSON format that Perfetto and chrome://tracing read (Trace Event Format, Google).

Process 1 is Python with a track for each thread; process 2 is the device, with a track for kernels and one for copies.
An arrow points from the launch to the kernel. Times are microseconds since the beginning of the profile.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Protocol

from netcl.profiling.records import LaunchRecord, Span

_PYTHON, _DEVICE = 1, 2
_TRACKS = {"kernel": 1, "copy": 2}


class Profile(Protocol):
    """The parts of a finished ``profile`` that a trace needs."""

    device: str
    spans: list[Span]
    launches: list[LaunchRecord]
    began: float
    memory: bool

    def memory_timeline(self) -> list[tuple[float, int]]:
        """Returns (seconds since the beginning, bytes in use)."""
        ...


def trace_json(seen: Profile) -> str:
    """Returns the text of the file."""
    events = [*_names(seen), *_spans(seen), *_launches(seen), *_memory(seen)]
    return json.dumps({"traceEvents": events, "displayTimeUnit": "ms", "otherData": {"device": seen.device}})


def _names(seen: Profile) -> Iterator[dict[str, Any]]:
    for pid, name in ((_PYTHON, "Python"), (_DEVICE, seen.device)):
        yield {"ph": "M", "name": "process_name", "pid": pid, "tid": 0, "args": {"name": name}}
        yield {"ph": "M", "name": "process_sort_index", "pid": pid, "tid": 0, "args": {"sort_index": pid}}
    for thread in sorted({span.thread for span in seen.spans} | {launch.thread for launch in seen.launches}):
        yield {"ph": "M", "name": "thread_name", "pid": _PYTHON, "tid": thread.number, "args": {"name": thread.name}}
    for kind, number in _TRACKS.items():
        name = {"kernel": "kernels", "copy": "copies"}[kind]
        yield {"ph": "M", "name": "thread_name", "pid": _DEVICE, "tid": number, "args": {"name": name}}


def _spans(seen: Profile) -> Iterator[dict[str, Any]]:
    for span in seen.spans:
        yield {
            "ph": "X",
            "name": span.name,
            "cat": span.kind,
            "pid": _PYTHON,
            "tid": span.thread.number,
            "ts": (span.began - seen.began) * 1e6,
            "dur": (span.ended - span.began) * 1e6,
        }


def _launches(seen: Profile) -> Iterator[dict[str, Any]]:
    for number, launch in enumerate(seen.launches):
        start = (launch.start - seen.began) * 1e6
        details: dict[str, Any] = {"op": launch.op, "bytes": launch.nbytes}
        if launch.kind == "kernel":
            details["shapes"] = [size.shape for size in launch.sizes]
            details["flops"] = "unknown" if launch.flops is None else launch.flops
        track = {"pid": _DEVICE, "tid": _TRACKS[launch.kind]}
        duration = (launch.end - launch.start) * 1e6
        yield {
            "ph": "X",
            "name": launch.name,
            "cat": launch.kind,
            **track,
            "ts": start,
            "dur": duration,
            "args": details,
        }
        asked = (launch.asked - seen.began) * 1e6
        arrow = {"name": "launch", "cat": "launch", "id": number}
        yield {"ph": "s", **arrow, "pid": _PYTHON, "tid": launch.thread.number, "ts": asked}
        yield {"ph": "f", "bp": "e", **arrow, **track, "ts": start}


def _memory(seen: Profile) -> Iterator[dict[str, Any]]:
    for seconds, in_use in seen.memory_timeline() if seen.memory else ():
        yield {
            "ph": "C",
            "name": "memory",
            "pid": _DEVICE,
            "tid": 0,
            "ts": seconds * 1e6,
            "args": {"bytes in use": in_use},
        }
