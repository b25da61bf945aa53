"""A tiny random model, and servers in threads."""

from __future__ import annotations

import http.client
import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import netcl as nc
from netcl.llm import Model
from netcl.llm.config import Config, Rope
from netcl.llm.decoder import Decoder
from netcl.llm.tokenizer import from_gguf

ROWS = json.loads((Path(__file__).parents[1] / "references/tokenizers.json").read_text(encoding="utf-8"))["byte_level"]
KEYS = {
    "tokenizer.ggml.model": "gpt2",
    "tokenizer.ggml.pre": "smollm",
    "tokenizer.ggml.tokens": ROWS["tokens"],
    "tokenizer.ggml.merges": ROWS["merges"],
    "tokenizer.ggml.token_type": [3] + [1] * (len(ROWS["tokens"]) - 1),
    "tokenizer.ggml.eos_token_id": 0,
    "tokenizer.chat_template": "{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}assistant:",
}


@pytest.fixture(scope="session")
def tiny() -> Model:
    """A random model of 520 tokens with a context of 2048; with temperature 0 it never ends by itself."""
    nc.manual_seed(5)
    tokenizer = from_gguf(KEYS)
    config = Config(
        family="llama",
        vocab_size=len(tokenizer),
        hidden_size=32,
        layers=2,
        heads=4,
        kv_heads=2,
        head_dim=8,
        intermediate_size=64,
        rope=Rope(8),
        context_length=2048,
    )
    return Model(config, Decoder(config).eval(), tokenizer, frozenset(), KEYS)


class Served:
    """A server in a thread, on a free port."""

    def __init__(self, model: Any, **options: Any) -> None:
        import uvicorn

        from netcl.llm.server import application

        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        app = application(model, "tiny", **options)
        self.server = uvicorn.Server(uvicorn.Config(app, port=self.port, log_level="critical"))
        self.thread = threading.Thread(target=self.server.run)
        self.thread.start()
        while not self.server.started:
            time.sleep(0.01)

    def stop(self) -> None:
        self.server.should_exit = True
        self.thread.join()

    def connect(self) -> http.client.HTTPConnection:
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=120)

    def ask(self, path: str, body: Any = None, method: str | None = None, **headers: str) -> tuple[int, Any]:
        """Returns the status and the JSON of an answer."""
        connection = self.connect()
        data = body if isinstance(body, (bytes, type(None))) else json.dumps(body).encode()
        connection.request(method or ("GET" if body is None else "POST"), path, data, headers)
        response = connection.getresponse()
        answer = json.loads(response.read())
        connection.close()
        return response.status, answer

    def events(self, path: str, body: Any) -> list[Any]:
        """Returns the events of a stream, but the last one, which must be [DONE]."""
        connection = self.connect()
        connection.request("POST", path, json.dumps({**body, "stream": True}))
        response = connection.getresponse()
        assert response.headers["content-type"].startswith("text/event-stream")
        lines = response.read().decode().split("\n\n")
        connection.close()
        assert lines.pop() == ""
        assert lines[-1] == "data: [DONE]"
        return [json.loads(line.removeprefix("data: ")) for line in lines[:-1]]


@pytest.fixture(scope="module")
def serve() -> Iterator[Callable[..., Served]]:
    """Returns a function that starts a server for a model; all end with the module."""
    servers: list[Served] = []

    def start(model: Any, **options: Any) -> Served:
        servers.append(Served(model, **options))
        return servers[-1]

    yield start
    for server in servers:
        server.stop()


@pytest.fixture(scope="session")
def until() -> Callable[..., bool]:
    """Returns a function that waits for a condition: True once it holds, False after so many seconds."""

    def wait(condition: Callable[[], Any], seconds: float = 20) -> bool:
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if condition():
                return True
            time.sleep(0.02)
        return False

    return wait
