"""The result of a run: for each level the number of checks that held, and the faults."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field

__all__ = ["LevelReport", "Report"]


@dataclass
class LevelReport:
    """The checks of one level: how many held, faults by name, and what was left out for which reason."""

    held: int = 0
    faults: dict[str, str] = field(default_factory=dict)
    left_out: dict[str, str] = field(default_factory=dict)


@dataclass
class Report:
    """All levels of a run on one core; true if there is no fault."""

    core: str
    device: str
    declared: list[str]
    levels: dict[str, LevelReport] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return not any(level.faults for level in self.levels.values())

    def __str__(self) -> str:
        lines = [f"{self.core} on {self.device}"]
        for name, level in self.levels.items():
            lines.append(f"  {name}: {level.held} held, {len(level.faults)} failed")
            lines += [f"    {fault}: {reason}" for fault, reason in level.faults.items()]
            lines += [f"    not checked: {what}: {reason}" for what, reason in level.left_out.items()]
        absent = [name for name in self.levels if name not in self.declared]
        lines.append("green" if self else f"red{': not declared: ' + ', '.join(absent) if absent else ''}")
        return "\n".join(lines)

    def to_json(self) -> str:
        """The report as JSON, for other programs."""
        return json.dumps({**asdict(self), "green": bool(self)}, indent=1)
