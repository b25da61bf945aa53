"""The server over an engine of the test: OpenAI's answers, errors with a status 4xx, streams, cancelled clients."""

from __future__ import annotations

import http.client
import json
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

pytest.importorskip("starlette", reason="the extra serve is not installed")
import uvicorn

from netcl.llm.sampling import Piece, Sampling
from netcl.llm.server import Limits, application
from netcl.llm.server.errors import ApiError
from netcl.llm.server.scheduler import Job, Scheduler
from netcl.llm.tokenizer import from_gguf

ROWS = json.loads((Path(__file__).parent / "references/tokenizers.json").read_text(encoding="utf-8"))["byte_level"]
TEMPLATE = "{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}assistant:"
TOKENIZER = from_gguf(
    {
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.pre": "smollm",
        "tokenizer.ggml.tokens": ROWS["tokens"],
        "tokenizer.ggml.merges": ROWS["merges"],
        "tokenizer.ggml.token_type": [3] + [1] * (len(ROWS["tokens"]) - 1),
        "tokenizer.ggml.eos_token_id": 0,
        "tokenizer.chat_template": TEMPLATE,
    }
)


class FakeSession:
    """Answers with the prompt's ids in reverse, without end if the prompt has "forever" in it."""

    def __init__(self, model: FakeModel) -> None:
        self.model = model

    def generate(self, ids: list[int], rule: Sampling) -> Iterator[Piece]:
        text = TOKENIZER.decode(ids)
        if "fail" in text:
            raise MemoryError("no room on the device")
        self.model.begun += 1
        stream = TOKENIZER.stream()
        answer = ids[::-1] * (10**6 if "forever" in text else 1)
        try:
            for count, token in enumerate(answer, 1):
                time.sleep(self.model.delay)
                self.model.made += 1
                last = count == min(rule.max_tokens, len(answer))
                reason = None if not last else "length" if count == rule.max_tokens else "stop"
                top = tuple((other, -1.0 - other) for other in range(5, 5 + rule.logprobs))
                yield Piece(stream.push(token), token, -0.5 if rule.logprobs else None, top, reason)
                if last:
                    return
        finally:
            self.model.ended += 1


class FakeModel:
    """What the server asks of a model."""

    def __init__(self, delay: float = 0.0) -> None:
        self.config = SimpleNamespace(context_length=200, hidden_size=3)
        self.tokenizer = TOKENIZER
        self.delay, self.begun, self.ended, self.made = delay, 0, 0, 0

    def session(self) -> FakeSession:
        return FakeSession(self)

    def embed(self, ids: list[int]) -> Any:
        return np.array([len(ids), ids[0], 0.5], np.float32)


class Served:
    """A server in a thread, on a free port."""

    def __init__(self, model: Any, **options: Any) -> None:
        self.model = model
        options.setdefault("limits", Limits(body=20_000, parallel=2, waiting=3, max_tokens=50, body_seconds=1.0))
        app = application(model, "tiny", **options)
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.server = uvicorn.Server(uvicorn.Config(app, port=self.port, log_level="critical"))
        self.thread = threading.Thread(target=self.server.run)
        self.thread.start()
        while not self.server.started:
            time.sleep(0.01)

    def stop(self) -> None:
        self.server.should_exit = True
        self.thread.join()

    def ask(self, path: str, body: Any = None, method: str | None = None, **headers: str) -> tuple[int, Any]:
        """Returns the status and the JSON of an answer."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        data = body if isinstance(body, (bytes, type(None))) else json.dumps(body).encode()
        connection.request(method or ("GET" if body is None else "POST"), path, data, headers)
        response = connection.getresponse()
        answer = json.loads(response.read())
        connection.close()
        return response.status, answer

    def events(self, path: str, body: Any) -> list[Any]:
        """Returns the events of a stream, with the last one as its text."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        connection.request("POST", path, json.dumps({**body, "stream": True}))
        response = connection.getresponse()
        assert response.headers["content-type"].startswith("text/event-stream")
        lines = response.read().decode().split("\n\n")
        connection.close()
        assert lines.pop() == ""
        assert lines[-1] == "data: [DONE]"
        return [json.loads(line.removeprefix("data: ")) for line in lines[:-1]]


@pytest.fixture(scope="module")
def served() -> Iterator[Served]:
    server = Served(FakeModel(), hosts=["127.0.0.1", "localhost"])
    yield server
    server.stop()


@pytest.fixture
def slow() -> Iterator[Served]:
    server = Served(FakeModel(delay=0.01))
    yield server
    server.stop()


def answer_to(prompt: str, most: int = 50) -> str:
    """Returns the text that the engine of the test makes of a prompt."""
    return TOKENIZER.decode(TOKENIZER.encode(prompt)[::-1][:most])


CHAT = [{"role": "user", "content": "the quick fox"}]
CHAT_PROMPT = "user: the quick fox\nassistant:"


def test_models_and_health(served: Served) -> None:
    status, answer = served.ask("/v1/models")
    assert (status, [row["id"] for row in answer["data"]]) == (200, ["tiny"])
    assert served.ask("/v1/models/tiny")[1]["object"] == "model"
    assert served.ask("/v1/models/other")[0] == 404
    status, answer = served.ask("/health")
    assert (status, answer) == (200, {"status": "ok", "model": "tiny", "running": 0, "waiting": 0})


def test_a_chat_is_answered(served: Served) -> None:
    status, answer = served.ask("/v1/chat/completions", {"model": "tiny", "messages": CHAT})
    text = answer_to(CHAT_PROMPT)
    count = len(TOKENIZER.encode(CHAT_PROMPT))
    assert status == 200
    assert answer["object"] == "chat.completion"
    assert answer["choices"][0]["message"] == {"role": "assistant", "content": text, "refusal": None}
    assert answer["choices"][0]["finish_reason"] == "stop"
    assert answer["usage"] == {"prompt_tokens": count, "completion_tokens": count, "total_tokens": 2 * count}


def test_content_in_parts_is_joined(served: Served) -> None:
    parts = [{"type": "text", "text": "the quick"}, {"type": "text", "text": " fox"}]
    body = {"messages": [{"role": "user", "content": parts}]}
    assert served.ask("/v1/chat/completions", body)[1]["choices"][0]["message"]["content"] == answer_to(CHAT_PROMPT)


def test_a_stream_has_the_text_of_the_whole_answer(served: Served) -> None:
    options = {"messages": CHAT, "stream_options": {"include_usage": True}}
    events = served.events("/v1/chat/completions", options)
    choices = [event["choices"][0] for event in events if event["choices"]]
    assert choices[0]["delta"]["role"] == "assistant"
    assert "".join(choice["delta"].get("content", "") for choice in choices) == answer_to(CHAT_PROMPT)
    assert [choice["finish_reason"] for choice in choices].count("stop") == 1
    assert events[-1]["usage"]["completion_tokens"] == len(TOKENIZER.encode(CHAT_PROMPT))
    assert {event["object"] for event in events} == {"chat.completion.chunk"}


def test_completions_of_several_prompts(served: Served) -> None:
    body = {"prompt": ["the quick", [40, 41, 42]], "n": 2, "max_tokens": 2}
    choices = served.ask("/v1/completions", body)[1]["choices"]
    assert [choice["index"] for choice in choices] == [0, 1, 2, 3]
    texts = [answer_to("the quick", 2)] * 2 + [TOKENIZER.decode([42, 41])] * 2
    assert [choice["text"] for choice in choices] == texts
    events = served.events("/v1/completions", body)
    for index, text in enumerate(texts):
        assert "".join(e["choices"][0]["text"] for e in events if e["choices"][0]["index"] == index) == text


def test_log_probabilities(served: Served) -> None:
    body = {"messages": CHAT, "logprobs": True, "top_logprobs": 2, "max_tokens": 3}
    rows = served.ask("/v1/chat/completions", body)[1]["choices"][0]["logprobs"]["content"]
    assert [row["logprob"] for row in rows] == [-0.5] * 3
    assert bytes(byte for row in rows for byte in row["bytes"]).decode() == answer_to(CHAT_PROMPT, 3)
    assert [top["logprob"] for top in rows[0]["top_logprobs"]] == [-6.0, -7.0]
    rows = served.ask("/v1/completions", {"prompt": "the quick fox", "logprobs": 1})[1]["choices"][0]["logprobs"]
    text = answer_to("the quick fox")
    assert [text[at:][: len(token)] for at, token in zip(rows["text_offset"], rows["tokens"])] == rows["tokens"]


@pytest.mark.parametrize("form", ["float", "base64"])
def test_embeddings(served: Served, form: str) -> None:
    import base64

    status, answer = served.ask("/v1/embeddings", {"input": ["a", [7, 8]], "encoding_format": form})
    assert status == 200
    found = [row["embedding"] for row in answer["data"]]
    if form == "base64":
        found = [np.frombuffer(base64.b64decode(text), "<f4").tolist() for text in found]
    assert found[1] == [2.0, 7.0, 0.5]
    assert answer["usage"]["prompt_tokens"] == 3


WRONG: list[tuple[str, Any, int, str | None]] = [
    ("chat/completions", b"{", 400, None),
    ("chat/completions", b"[" * 9000, 400, None),
    ("chat/completions", b'{"messages": NaN}', 400, None),
    ("chat/completions", b"\xff\xfe", 400, None),
    ("chat/completions", [1], 400, None),
    ("chat/completions", {}, 400, "messages"),
    ("chat/completions", {"messages": []}, 400, "messages"),
    ("chat/completions", {"messages": "hi"}, 400, "messages"),
    ("chat/completions", {"messages": [{"role": "king", "content": "x"}]}, 400, "messages[0].role"),
    ("chat/completions", {"messages": [{"role": "user"}]}, 400, "messages[0].content"),
    ("chat/completions", {"messages": [{"role": "user", "content": [{"type": "image_url"}]}]}, 400, "messages[0].content"),
    ("chat/completions", {"messages": CHAT, "model": "gpt"}, 404, "model"),
    ("chat/completions", {"messages": CHAT, "nonesuch": 1}, 400, "nonesuch"),
    ("chat/completions", {"messages": CHAT, "top_logprobs": 3}, 400, "top_logprobs"),
    ("chat/completions", {"messages": CHAT, "response_format": {"type": "json_object"}}, 400, "response_format"),
    ("chat/completions", {"messages": [{"role": "user", "content": "x" * 5000}]}, 400, "messages"),
    ("completions", {"prompt": ""}, 400, "prompt"),
    ("completions", {"prompt": []}, 400, "prompt"),
    ("completions", {"prompt": [[]]}, 400, "prompt"),
    ("completions", {"prompt": [1, "a"]}, 400, "prompt"),
    ("completions", {"prompt": [10**6]}, 400, "prompt"),
    ("completions", {"prompt": [-1]}, 400, "prompt"),
    ("completions", {"prompt": [5] * 300}, 400, "prompt"),
    ("completions", {"prompt": ["a"] * 9, "n": 3}, 400, "n"),
    ("completions", {"prompt": "a", "echo": True}, 400, "echo"),
    ("completions", {"prompt": "a", "best_of": 2}, 400, "best_of"),
    ("embeddings", {"input": ""}, 400, "input"),
    ("embeddings", {"input": ["a"] * 300}, 400, "input"),
    ("embeddings", {"input": "a", "dimensions": 2}, 400, "dimensions"),
    ("embeddings", {"input": "a", "encoding_format": "int8"}, 400, "encoding_format"),
    *(
        ("completions", {"prompt": "a", name: value}, 400, name)
        for name, values in {
            "temperature": ("1", -1, 3, True, [1]),
            "top_p": (-0.1, 1.1, "x"),
            "top_k": (-1, 1.5, "x", 1 << 40),
            "min_p": (2, {}),
            "repetition_penalty": (0, 101),
            "presence_penalty": (1, "x"),
            "frequency_penalty": (0.5,),
            "logit_bias": ({"5": 1}, [1]),
            "seed": (1.5, "1", 1 << 70, -1),
            "stop": ("", [""], [1], ["a"] * 17, {}),
            "n": (0, 17, "1", 1.0),
            "max_tokens": (0, -1, "5", 1.5, 1 << 40),
            "stream": ("true", 1),
            "stream_options": (1, {"nope": True}),
            "logprobs": (True, 6, -1, "2"),
            "model": (5, []),
        }.items()
        for value in values
    ),
]


@pytest.mark.parametrize(("path", "body", "status", "param"), WRONG)
def test_a_wrong_request_is_an_error_in_openais_shape(
    served: Served, path: str, body: Any, status: int, param: str | None
) -> None:
    found, answer = served.ask(f"/v1/{path}", body)
    assert found == status
    assert answer["error"]["type"] == "invalid_request_error"
    assert answer["error"]["param"] == param
    assert answer["error"]["message"].startswith("expected")


def test_the_server_is_up_after_all_wrong_requests(served: Served) -> None:
    assert served.ask("/v1/completions", {"prompt": "the quick"})[0] == 200


def test_addresses_methods_and_hosts(served: Served) -> None:
    assert served.ask("/v1/nonesuch")[0] == 404
    status, answer = served.ask("/v1/completions", method="DELETE")
    assert (status, answer["error"]["type"]) == (405, "invalid_request_error")
    connection = http.client.HTTPConnection("127.0.0.1", served.port)
    connection.request("GET", "/v1/models", headers={"Host": "evil.example"})
    assert connection.getresponse().status == 400
    connection.close()


def test_bodies_beyond_the_limit_are_refused_without_being_kept(served: Served) -> None:
    assert served.ask("/v1/completions", {"prompt": "a" * 30_000})[0] == 413
    connection = http.client.HTTPConnection("127.0.0.1", served.port)
    connection.request("POST", "/v1/completions", iter([b"a" * 10_000] * 20), encode_chunked=True)
    assert connection.getresponse().status == 413
    connection.close()
    with socket.create_connection(("127.0.0.1", served.port), timeout=30) as slow_client:
        slow_client.sendall(b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99\r\n\r\n{")
        assert slow_client.recv(99).startswith(b"HTTP/1.1 408")


def test_a_key_is_asked_for() -> None:
    server = Served(FakeModel(), api_key="secret")
    try:
        assert server.ask("/health")[0] == 200
        assert server.ask("/v1/models", Authorization="Bearer secret")[0] == 200
        for headers in ({}, {"Authorization": "Bearer wrong"}, {"Authorization": "secret"}):
            status, answer = server.ask("/v1/models", **headers)
            assert (status, answer["error"]["code"]) == (401, "invalid_api_key")
    finally:
        server.stop()


def test_an_engine_that_fails_is_an_error_of_its_request_alone(served: Served) -> None:
    status, answer = served.ask("/v1/completions", {"prompt": "fail"})
    assert (status, answer["error"]["type"]) == (500, "server_error")
    assert "MemoryError: no room on the device" in answer["error"]["message"]
    assert served.ask("/v1/completions", {"prompt": "the"})[0] == 200


def until(condition: Any, seconds: float = 10) -> bool:
    """Returns True once the condition holds, False after the seconds."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if condition():
            return True
        time.sleep(0.02)
    return False


@pytest.mark.parametrize("stream", [True, False])
def test_a_client_that_goes_ends_its_generation(slow: Served, stream: bool) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", slow.port)
    connection.request("POST", "/v1/completions", json.dumps({"prompt": "forever", "n": 3, "stream": stream}))
    response = connection.getresponse() if stream else None
    assert response is None or response.read(50)
    assert until(lambda: slow.model.made > 3)
    connection.close()
    if response is not None:
        response.close()
    assert until(lambda: slow.ask("/health")[1]["running"] == 0, 2)
    assert slow.model.made < 100  # of 150
    assert slow.model.ended == slow.model.begun


def test_more_requests_than_the_queue_holds_are_refused(slow: Served) -> None:
    statuses: list[int] = []
    threads = [
        threading.Thread(target=lambda: statuses.append(slow.ask("/v1/completions", {"prompt": "forever"})[0]))
        for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert set(statuses) == {200, 429}
    assert statuses.count(200) >= 3


def test_generations_make_tokens_in_turn() -> None:
    """A short one that came later ends before a long one; a third waits for its turn."""
    order: list[str] = []
    done = threading.Event()

    def job(name: str, count: int) -> Job:
        def post(result: Any) -> None:
            order.append(f"{name}{'.' if result is Job.END else ''}")
            if order.count("long.") and order.count("third."):
                done.set()

        return Job((), lambda _: iter(range(count)), post)

    scheduler = Scheduler(FakeModel(), parallel=2)
    scheduler.submit([job("long", 9), job("short", 2), job("third", 1)])
    assert done.wait(10)
    scheduler.close()
    assert order[:6] == ["long", "short", "long", "short", "long", "short."]
    assert order.index("third") > order.index("short.")
    assert order.index("third.") < order.index("long.")


def test_a_prompt_gets_the_session_that_has_read_its_beginning() -> None:
    sessions: dict[str, Any] = {}
    scheduler = Scheduler(FakeModel(), parallel=2)

    def run(name: str, ids: list[int]) -> None:
        done = threading.Event()

        def results(session: Any) -> Iterator[int]:
            sessions[name] = session
            yield 1

        scheduler.submit([Job(ids, results, lambda result: done.set() if result is Job.END else None)])
        assert done.wait(10)

    for name, ids in {"a": [1, 2, 3], "b": [7, 8], "a again": [1, 2, 3, 4], "b again": [7, 8, 9]}.items():
        run(name, ids)
    scheduler.close()
    assert sessions["a again"] is sessions["a"]
    assert sessions["b again"] is sessions["b"]
    assert sessions["a"] is not sessions["b"]


def test_jobs_of_a_server_that_stops_get_an_error() -> None:
    ended: list[Any] = []
    scheduler = Scheduler(FakeModel(delay=0.01), parallel=1)
    forever = TOKENIZER.encode("forever")
    jobs = [
        Job(forever, lambda session: session.generate(forever, Sampling(max_tokens=10**6)), ended.append)
        for _ in range(2)
    ]
    scheduler.submit(jobs)
    assert until(lambda: len(ended) > 2)
    scheduler.close()
    assert [error.status for error in ended if isinstance(error, ApiError)] == [503, 503]
    with pytest.raises(ApiError, match="the server is stopping"):
        scheduler.submit(jobs)
