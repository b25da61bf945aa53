"""Chat templates: programs in Jinja that come with models of strangers, rendered in a process with limits."""

from __future__ import annotations

import atexit
import json
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

__all__ = ["ChatTemplate", "ChatTemplateError"]

# Limits of one rendering: seconds, characters of the source and of the text, bytes of memory.
_SECONDS, _SOURCE, _TEXT, _MEMORY = 1.5, 1 << 20, 16 << 20, 512 << 20

_WORKER = Path(__file__).with_name("chat_template_worker.py")
# The worker sees the modules of this process: PYTHONPATH, or a folder added by a program.
_START = (
    "import sys, json, runpy; sys.path[:] = json.loads(sys.argv[1]); runpy.run_path(sys.argv[2], run_name='__main__')"
)


class ChatTemplateError(ValueError):
    """A chat template raised an error, reached a limit, or refused the messages."""


class ChatTemplate:
    """A Jinja template in the variables that Hugging Face's templates use.

    It runs in jinja2's immutable sandbox, in another process that ends at a limit: neither a loop without end nor a
    text without end holds up the program.
    """

    def __init__(self, source: str) -> None:
        """Keeps the source; errors in it are raised by `render`."""
        self.source = source

    def render(self, messages: Sequence[Mapping[str, Any]], **variables: Any) -> str:
        """Returns the text for messages and variables, which must fit into JSON."""
        if len(self.source) > _SOURCE:
            raise ChatTemplateError(f"expected a chat template of at most {_SOURCE} characters, got {len(self.source)}")
        try:
            line = json.dumps({"source": self.source, "variables": {**variables, "messages": list(messages)}})
        except (TypeError, ValueError, RecursionError) as error:
            raise ChatTemplateError(f"expected messages of texts, numbers, lists and dicts, got {error}") from None
        answer = _worker.ask(line)
        if answer is None:
            raise ChatTemplateError(
                f"expected a chat template that ends within {_SECONDS} s and {_MEMORY >> 20} MiB, got one that does not"
            )
        if "error" in answer:
            raise ChatTemplateError(f"the chat template failed: {answer['error']}")
        return str(answer["text"])


class _Worker:
    """The process that renders, started at the first use, again after one was ended at a limit."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process: subprocess.Popen[str] | None = None

    def ask(self, line: str) -> dict[str, Any] | None:
        """Returns the answer to a line of JSON, None if the process had to be ended or broke down."""
        with self._lock:
            process = self._started()
            assert process.stdin is not None
            assert process.stdout is not None
            # Ending the process is what ends the wait for its answer.
            timer = threading.Timer(_SECONDS, process.kill)
            timer.daemon = True
            timer.start()
            try:
                process.stdin.write(line + "\n")
                process.stdin.flush()
                answer = process.stdout.readline()
            except OSError:
                answer = ""
            finally:
                timer.cancel()
            if not answer.endswith("\n"):
                self._end()
                return None
            decoded: dict[str, Any] = json.loads(answer)
            return decoded

    def close(self) -> None:
        """Ends the process, if there is one."""
        with self._lock:
            self._end()

    def _started(self) -> subprocess.Popen[str]:
        if self._process is not None and self._process.poll() is None:
            return self._process
        self._end()
        limits = (str(_MEMORY), str(_TEXT))
        command = [sys.executable, "-I", "-c", _START, json.dumps(sys.path), str(_WORKER), *limits]
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            encoding="utf-8",
            # Ctrl-C at a terminal is for the program, not for its worker.
            start_new_session=sys.platform != "win32",
        )
        if self._process.stdout is None or self._process.stdout.readline() != "ready\n":
            self._end()
            raise RuntimeError("expected a Python with jinja2 to render chat templates; install jinja2")
        return self._process

    def _end(self) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        process.kill()
        with suppress(OSError, ValueError):  # unwritten text of a process that ended
            process.communicate()


_worker = _Worker()
atexit.register(_worker.close)
