"""The process of `netcl.llm.chat_template`: reads lines of JSON, renders their templates and answers line by line."""

from __future__ import annotations

import json
import sys
from datetime import datetime
from typing import Any

from jinja2 import TemplateError, nodes
from jinja2.ext import Extension
from jinja2.sandbox import ImmutableSandboxedEnvironment

__all__ = ["answers"]


class Generation(Extension):
    """The tag ``{% generation %}``: marks the assistant's text, which rendering does not need."""

    tags: set[str] = {"generation"}

    def parse(self, parser: Any) -> Any:
        """Returns the nodes between the tags."""
        line = next(parser.stream).lineno
        body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
        return nodes.Scope(body, lineno=line)


class Sandbox(ImmutableSandboxedEnvironment):
    """jinja2's immutable sandbox, with products of texts and numbers bounded before they take memory."""

    intercepted_binops: frozenset[str] = frozenset(("*", "**"))

    def call_binop(self, context: Any, operator: str, left: Any, right: Any) -> Any:
        """Returns a product or power; raises an error for one of a great text or number."""
        sized = next((len(side) for side in (left, right) if hasattr(side, "__len__")), 64)
        times = next((side for side in (right, left) if isinstance(side, int)), 1)
        if operator == "**" and abs(times) > 1024 or operator == "*" and sized * abs(times) > 1 << 24 and sized != 64:
            raise ValueError("expected a product that fits the limits of chat templates")
        return super().call_binop(context, operator, left, right)


def refused(message: Any) -> None:
    """Raises the error of a template that refuses its messages."""
    raise TemplateError(str(message))


def as_json(value: Any, indent: int | None = None, **options: Any) -> str:
    """Returns JSON that keeps characters as they are: the filter ``tojson`` of chat templates."""
    return json.dumps(value, ensure_ascii=False, indent=indent, **options)


def environment() -> Sandbox:
    """Returns the environment in which templates are compiled; there are no others to import."""
    made = Sandbox(trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.loopcontrols", Generation])
    made.filters["tojson"] = as_json
    made.globals["raise_exception"] = refused
    made.globals["strftime_now"] = lambda form: datetime.now().astimezone().strftime(form)
    return made


def answers(request: dict[str, Any], made: Sandbox, longest: int) -> dict[str, str]:
    """Returns the text of a request, or the error of its template."""
    try:
        parts, size = [], 0
        for part in made.from_string(request["source"]).generate(request["variables"]):
            size += len(part)
            if size > longest:
                raise ValueError(f"expected at most {longest} characters of text")
            parts.append(part)
        return {"text": "".join(parts)}
    except MemoryError:
        return {"error": "it needs more memory than a chat template may use"}
    except Exception as error:  # noqa: BLE001 (a template may raise anything)
        return {"error": f"{type(error).__name__}: {error}"[:500]}


def main() -> None:
    """Answers until the input ends, within the memory that the arguments name."""
    memory, longest = int(sys.argv[3]), int(sys.argv[4])
    try:
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
    except (ImportError, ValueError, OSError):  # no such limit on this system
        pass
    made = environment()
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    for line in sys.stdin:  # ASCII, as JSON is written by default
        sys.stdout.write(json.dumps(answers(json.loads(line), made, longest)) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
