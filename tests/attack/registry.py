"""The registry of attacks, and their argument: random numbers for each case, a deadline, and a place to report.

An attack is a function ``attack(run)`` under ``@attack("group.name")`` in any module of a folder of tests/attack. It
tries cases until ``run.deadline``, which ``run.cases()`` does for it:

    @attack("formats.csv")
    def csv(run: Run) -> None:
        for rng in run.cases():
            ...
            run.count("refused")
            run.fail("TypeError instead of ValueError", data=mutant, suffix=".csv")

Each case draws from ``random.Random`` of (seed, name of the attack, number of the case), so that ``--only NAME --seed S
--case K`` repeats one. An attack runs in a process of its own, so it may crash it, exhaust its memory or send itself
signals; the runner reports that as a failure of the case at which it happened.
"""

from __future__ import annotations

import json
import random
import time
import zlib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Attack:
    """A registered attack: ``least`` is the time that it needs (with less it is left out), and ``weight`` its part of
    the time that is left when all have their least; ``needs()`` returns the name of missing hardware or of a missing
    package, or an empty text.
    """

    name: str
    function: Callable[[Run], None]
    weight: float
    least: float
    needs: Callable[[], str]
    environment: Mapping[str, str]


ATTACKS: dict[str, Attack] = {}


def attack(
    name: str,
    *,
    weight: float = 1.0,
    least: float = 0.0,
    needs: Callable[[], str] = str,
    environment: Mapping[str, str] | None = None,
) -> Callable[[Callable[[Run], None]], Callable[[Run], None]]:
    """Registers a function under ``group.name``; ``environment`` is added to its process's."""

    def registered(function: Callable[[Run], None]) -> Callable[[Run], None]:
        if name in ATTACKS:
            raise ValueError(f"two attacks are called {name}")
        ATTACKS[name] = Attack(name, function, weight, least, needs, dict(environment or {}))
        return function

    return registered


@dataclass
class Failure:
    """A case that broke a promise: symptom, number of the case, how to repeat it, and its file if there is one."""

    symptom: str
    case: int
    reproducer: str
    file: str = ""


@dataclass
class Run:
    """One run of one attack. ``folder`` is empty at the start and removed at the end."""

    name: str
    seed: int
    deadline: float  # of time.monotonic()
    folder: Path
    kept: Path  # for the files of failures
    only_case: int | None = None
    first: int = 0
    number: int | None = None  # of cases, whatever the time; None: until the deadline
    counts: Counter[str] = field(default_factory=Counter)
    began: float = field(default_factory=time.monotonic)
    largest: dict[str, float] = field(default_factory=dict)
    failures: list[Failure] = field(default_factory=list)
    case: int = -1
    journal: Any = None

    def rng(self, case: int) -> random.Random:
        """Returns the random numbers of a case."""
        return random.Random(zlib.crc32(self.name.encode()) << 64 | self.seed << 32 | case & 0xFFFFFFFF)

    @property
    def seconds(self) -> float:
        """The time that the run was given."""
        return self.deadline - self.began

    def cases(self, least: int = 1) -> Iterator[random.Random]:
        """Yields the random numbers of case after case until the deadline; at least ``least`` cases."""
        if self.only_case is not None:
            self.case = self.only_case
            yield self.rng(self.only_case)
            return
        self.case += self.first
        end = self.first + (least if self.number is None else self.number)
        while self.case + 1 < end or (self.number is None and time.monotonic() < self.deadline):
            self.case += 1
            if self.journal is not None:
                # Overwritten in place: the runner reads it if the process dies.
                self.journal.seek(0)
                self.journal.write(f"{self.case}\n{self.report()}\n")
                self.journal.truncate()
                self.journal.flush()
            yield self.rng(self.case)

    def count(self, what: str, number: int = 1) -> None:
        """Adds to a counter of the report."""
        self.counts[what] += number

    def measure(self, unit: str, value: float) -> None:
        """Keeps the largest value of a unit for the report."""
        self.largest[unit] = max(value, self.largest.get(unit, value))

    def fail(self, symptom: str, *, reproducer: str = "", data: bytes | None = None, suffix: str = ".bin") -> None:
        """Reports a broken promise; ``data`` is the smallest file that shows it, ``reproducer`` a line of Python.

        Each symptom is kept once, the others are counted.
        """
        self.counts["failures"] += 1
        if any(one.symptom == symptom for one in self.failures):
            return
        again = f"python tests/attack --only {self.name} --seed {self.seed} --case {self.case}"
        failure = Failure(symptom, self.case, f"{again}\n    {reproducer}" if reproducer else again)
        if data is not None:
            self.kept.mkdir(parents=True, exist_ok=True)
            path = self.kept / f"{self.name}-{self.seed}-{self.case}{suffix}"
            path.write_bytes(data)
            failure.file = str(path)
        self.failures.append(failure)

    def report(self) -> str:
        """Returns counts, largest values and failures as one line of JSON."""
        failures = [vars(failure) for failure in self.failures]
        return json.dumps({"counts": self.counts, "largest": self.largest, "failures": failures})
