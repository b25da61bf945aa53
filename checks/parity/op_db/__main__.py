"""Compares every operator of PyTorch's op_db with netcl: ``python checks/parity/op_db [--op PATTERN] [--dtype NAME]``.

The operators run in processes that are forked after op_db is loaded, and replaced if they end. The session fails on a
difference that ``exceptions.toml`` does not name, and on an exception that nothing uses.
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import dataclasses
import fnmatch
import multiprocessing
import multiprocessing.connection
import os
import sys
import time
import traceback
from pathlib import Path
from typing import Any

import torch

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

from entries import DTYPES, Exceptions, entries  # noqa: E402

SECONDS = {"cpu": 120.0, "pocl": 400.0}  # of one operator
# Samples of one operator, else 3: all dtypes on both devices end within an hour on two cores.
SAMPLES = {("cpu", "float32"): 10}
# Forms in which PyTorch 2.13 itself ends the process: divisions by zero and reads beyond memory in its gradients.
ENDS = {"native_batch_norm": "empty*", "nn.functional.pdist": "empty*"}
WRONG = ("value", "dtype", "shape", "structure")
ORDER = ("value", "dtype", "shape", "structure", "raises", "ended", "missing", "right", "none")


@dataclasses.dataclass
class Record:
    op: str
    device: str
    dtype: str
    form: str
    state: str
    text: str
    sample: str
    count: int = 1
    known: str | None = None  # the key of the exception that covers it


def work(pipe: Any, device: str) -> None:
    """Answer each job that the pipe brings by the records of its operator, on one device."""
    os.environ["NETCL_DEVICE"] = device
    import forms

    forms.quiet()
    torch.set_num_threads(1)
    while (job := pipe.recv()) is not None:
        pipe.send(operator_records(forms, *job))


def operator_records(forms: Any, name: str, device: str, dtypes: list[str], count: int, patterns: str) -> list[Record]:
    """Compare one operator; records of the same dtype, form, state and exception are one, with the first message."""
    records: dict[Any, Record] = {}
    ends = ENDS.get(name, "")

    def wanted(form: str) -> bool:
        asked = any(fnmatch.fnmatchcase(form, part) for part in patterns.split(","))
        return asked and not fnmatch.fnmatchcase(form, ends)

    for dtype in dtypes:
        if getattr(torch, dtype) not in TABLE[name].dtypes:
            continue
        try:
            samples = count or SAMPLES.get((device, dtype), 3)
            for form, state, text, sample in forms.cases(TABLE[name], getattr(torch, dtype), samples, wanted):
                record = Record(name, device, dtype, form, state, text, sample, 0)
                record.known = KNOWN.key(record)
                records.setdefault((dtype, form, state, record.known), record).count += 1
        except Exception:  # noqa: BLE001
            text = traceback.format_exc(limit=-3)
            records[dtype, "", "ended"] = Record(name, device, dtype, "samples", "ended", text, "")
    return list(records.values())


class Worker:
    """A process that compares operators one after the other."""

    def __init__(self, device: str) -> None:
        context = multiprocessing.get_context("fork")
        self.pipe, theirs = context.Pipe()
        self.process = context.Process(target=work, args=(theirs, device), daemon=True)
        self.process.start()
        theirs.close()
        self.job: Any = None
        self.start = 0.0

    def give(self, job: Any) -> None:
        self.job, self.start = job, time.monotonic()
        self.pipe.send(job)

    def ended(self, text: str) -> list[Record]:
        """The record of an operator that the process did not survive."""
        self.process.kill()
        self.process.join()
        return [Record(self.job[0], self.job[1], "", "process", "ended", text, "")]


def run_all(jobs: list[Any], device: str, processes: int, table: Any) -> list[Record]:
    """The records of all jobs ``(operator, device, dtypes, samples, forms)``; a process that ends is replaced. Writes
    a line for each operator into ``table``, if that is not None.
    """
    records: list[Record] = []
    workers = [Worker(device) for _ in range(min(processes, len(jobs)))]
    waiting, done = jobs[::-1], 0
    for worker in workers:
        worker.give(waiting.pop())
    while workers:
        ready = multiprocessing.connection.wait([worker.pipe for worker in workers], timeout=1.0)
        for i, worker in reversed(list(enumerate(workers))):
            if worker.pipe in ready:
                try:
                    found = worker.pipe.recv()
                except (EOFError, ConnectionError):
                    worker.process.join()
                    found = worker.ended(f"the process ended with {worker.process.exitcode}")
                    worker = workers[i] = Worker(device)
            elif time.monotonic() - worker.start > SECONDS[device]:
                found = worker.ended(f"more than {SECONDS[device]:g} s")
                worker = workers[i] = Worker(device)
            else:
                continue
            done += 1
            records += found
            if table is not None and found:
                print(line_of(found), file=table, flush=True)
            if done % 50 == 0:
                print(f"  {done} of {len(jobs)}, {time.monotonic() - START:.0f} s", flush=True)
            if waiting:
                worker.give(waiting.pop())
            else:
                worker.process.kill()
                worker.process.join()
                workers.pop(i)
    return records


def report(records: list[Record], whole: bool) -> int:
    """Print counts by device, and what no exception covers; returns the number of faults."""
    faults = []
    for device in sorted({record.device for record in records}):
        worst: dict[str, str] = {}
        excused: dict[str, bool] = {}
        counts: collections.Counter[str] = collections.Counter()
        for record in records:
            if record.device != device:
                continue
            counts[record.state] += record.count
            state = record.state
            if state != "right":
                if record.known is None:
                    faults.append(record)
                else:
                    KNOWN.used.add(record.known)
                    if state != "missing":
                        excused[record.op] = True
                        continue
            if record.op not in worst or ORDER.index(state) < ORDER.index(worst[record.op]):
                worst[record.op] = state
        for name in excused:
            worst.setdefault(name, "right")
        by_state = collections.Counter(worst.values())
        right = by_state["right"]
        print(
            f"{device}: {len(worst)} operators, {right} right ({right / max(1, len(worst)):.1%}; "
            f"{len(excused)} with an exception), {by_state['value']} wrong numbers, "
            f"{sum(by_state[s] for s in WRONG[1:])} other dtype or shape, "
            f"{by_state['raises'] + by_state['ended']} raise, "
            f"{by_state['missing']} missing"
        )
        print(f"  calls: {', '.join(f'{counts[s]} {s}' for s in ORDER if counts[s])}")
    for record in sorted(faults, key=lambda r: (ORDER.index(r.state), r.op)):
        print(f"{record.state:9} {record.device} {record.op} [{record.form}] {record.dtype} x{record.count}: "
              f"{record.text} {record.sample[:160]}")  # fmt: skip
    stale = KNOWN.stale() if whole else []
    for name in stale:
        print(f"no difference needs the exception {name}")
    return len(faults) + len(stale)


def line_of(records: list[Record]) -> str:
    """One line for an operator: its worst state, the forms that are not right and the first message."""
    worst = sorted(records, key=lambda r: ORDER.index(r.state))[0]
    forms = ",".join(dict.fromkeys(r.form for r in records if r.state != "right"))
    text = f"[{forms}] {worst.text} {worst.sample}"[:400] if forms else ""
    return f"{worst.state:9} {worst.op:45} {text}".rstrip()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--op", action="append", help="names or patterns of operators (all)")
    parser.add_argument("--dtype", action="append", choices=DTYPES)
    parser.add_argument("--device", action="append", choices=tuple(SECONDS))
    parser.add_argument("--samples", type=int, default=0, help="of each operator and dtype (3, of float32 on NumPy 10)")
    parser.add_argument("--forms", default="*", help="patterns with commas, such as 'function,gradient'")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--part", default="1/1", help="a part of the operators, such as 2/3")
    parser.add_argument("--table", help="write one line for each operator to this file")
    options = parser.parse_args()
    names = [n for n in TABLE if not options.op or any(fnmatch.fnmatchcase(n, p) for p in options.op)]
    part, parts = map(int, options.part.split("/"))
    names = names[part - 1 :: parts]
    for name in KNOWN.unspecified & TABLE.keys():
        TABLE[name].has_nondeterministic_output = True
    records = []
    for device in options.device or list(SECONDS):
        dtypes = options.dtype or (list(DTYPES) if device == "cpu" else ["float32", "bfloat16"])
        jobs = [(name, device, dtypes, options.samples, options.forms) for name in names]
        with Path(options.table).open("a") if options.table else contextlib.nullcontext() as table:
            records += run_all(jobs, device, options.processes, table)
    whole = not (options.op or options.dtype or options.device or options.samples or options.forms != "*" or parts > 1)
    faults = report(records, whole)
    print(f"{faults} differences that no exception names, {time.monotonic() - START:.0f} s")
    return 1 if faults else 0


TABLE: dict[str, Any] = entries()
KNOWN = Exceptions(HERE / "exceptions.toml")
START = time.monotonic()

if __name__ == "__main__":
    sys.exit(main())
