"""Requests to the server over a tiny random model: OpenAI's answers, and errors with a status 4xx."""

from __future__ import annotations

import json
import socket
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import netcl as nc
from netcl.llm import Model, Sampling

pytest.importorskip("starlette", reason="the extra serve is not installed")
from netcl.llm.server import Limits

CHAT = [{"role": "user", "content": "the quick fox"}]
PROMPT = "user: the quick fox\nassistant:"
LIMITS = Limits(body=20_000, max_tokens=20, body_seconds=1.0, prompt=200)


@pytest.fixture(scope="module")
def served(serve: Callable[..., Any], tiny: Model) -> Any:
    return serve(tiny, limits=LIMITS, hosts=["127.0.0.1", "localhost"])


@pytest.fixture
def answer_to(tiny: Model) -> Callable[..., str]:
    """Returns a function that gives the text that the model makes of a prompt by itself."""

    def answer(prompt: Any, most: int = 20) -> str:
        return "".join(piece.text for piece in tiny.generate(prompt, Sampling(temperature=0, max_tokens=most)))

    return answer


def test_models_and_health(served: Any) -> None:
    status, answer = served.ask("/v1/models")
    assert (status, [row["id"] for row in answer["data"]]) == (200, ["tiny"])
    assert served.ask("/v1/models/tiny")[1]["object"] == "model"
    assert served.ask("/v1/models/other")[0] == 404
    status, answer = served.ask("/health")
    assert (status, answer) == (200, {"status": "ok", "model": "tiny", "running": 0, "waiting": 0})


def test_a_chat_is_answered(served: Any, tiny: Model, answer_to: Callable[..., str]) -> None:
    status, answer = served.ask("/v1/chat/completions", {"model": "tiny", "messages": CHAT, "temperature": 0})
    count = len(tiny.tokenizer.encode(PROMPT))
    assert status == 200
    assert answer["object"] == "chat.completion"
    assert answer["choices"][0]["message"] == {"role": "assistant", "content": answer_to(PROMPT), "refusal": None}
    assert answer["choices"][0]["finish_reason"] == "length"
    assert answer["usage"] == {"prompt_tokens": count, "completion_tokens": 20, "total_tokens": count + 20}


def test_content_in_parts_is_joined(served: Any, answer_to: Callable[..., str]) -> None:
    parts = [{"type": "text", "text": "the quick"}, {"type": "text", "text": " fox"}]
    body = {"messages": [{"role": "user", "content": parts}], "temperature": 0}
    assert served.ask("/v1/chat/completions", body)[1]["choices"][0]["message"]["content"] == answer_to(PROMPT)


def test_a_stream_has_the_text_of_the_whole_answer(served: Any, answer_to: Callable[..., str]) -> None:
    options = {"messages": CHAT, "temperature": 0, "stream_options": {"include_usage": True}}
    events = served.events("/v1/chat/completions", options)
    choices = [event["choices"][0] for event in events if event["choices"]]
    assert choices[0]["delta"]["role"] == "assistant"
    assert "".join(choice["delta"].get("content", "") for choice in choices) == answer_to(PROMPT)
    assert [choice["finish_reason"] for choice in choices].count("length") == 1
    assert events[-1]["usage"]["completion_tokens"] == 20
    assert {event["object"] for event in events} == {"chat.completion.chunk"}


def test_completions_of_several_prompts(served: Any, answer_to: Callable[..., str]) -> None:
    body = {"prompt": ["the quick", [40, 41, 42]], "n": 2, "max_tokens": 4, "temperature": 0}
    choices = served.ask("/v1/completions", body)[1]["choices"]
    assert [choice["index"] for choice in choices] == [0, 1, 2, 3]
    texts = [answer_to("the quick", 4)] * 2 + [answer_to([40, 41, 42], 4)] * 2
    assert [choice["text"] for choice in choices] == texts
    events = served.events("/v1/completions", body)
    for index, text in enumerate(texts):
        assert "".join(e["choices"][0]["text"] for e in events if e["choices"][0]["index"] == index) == text


def test_a_stop_text_ends_the_answer_before_it(served: Any, answer_to: Callable[..., str]) -> None:
    whole = answer_to("the quick fox")
    stop = whole[len(whole) // 2 :][:3]
    body = {"prompt": "the quick fox", "temperature": 0, "stop": [stop, "never"]}
    choice = served.ask("/v1/completions", body)[1]["choices"][0]
    assert choice["text"] == whole[: whole.index(stop)]
    assert choice["finish_reason"] == "stop"


def test_log_probabilities(served: Any, tiny: Model, answer_to: Callable[..., str]) -> None:
    body = {"messages": CHAT, "logprobs": True, "top_logprobs": 2, "max_tokens": 3, "temperature": 0}
    rows = served.ask("/v1/chat/completions", body)[1]["choices"][0]["logprobs"]["content"]
    logits = tiny.decoder(nc.tensor([tiny.tokenizer.encode(PROMPT)], dtype="int32")).detach().numpy()[0, -1]
    expected = np.sort(logits - np.log(np.exp(logits.astype(np.float64)).sum()))[::-1]
    np.testing.assert_allclose([top["logprob"] for top in rows[0]["top_logprobs"]], expected[:2], rtol=1e-4)
    assert rows[0]["logprob"] == rows[0]["top_logprobs"][0]["logprob"]
    del body["top_logprobs"]
    bare = served.ask("/v1/chat/completions", body)[1]["choices"][0]["logprobs"]["content"]
    assert [row["top_logprobs"] for row in bare] == [[], [], []]
    assert [row["logprob"] for row in bare] == pytest.approx([row["logprob"] for row in rows], rel=1e-4)
    joined = bytes(byte for row in rows for byte in row["bytes"]).decode("utf-8", "replace")
    assert joined == answer_to(PROMPT, 3)
    body = {"prompt": "the quick fox", "logprobs": 1, "temperature": 0}
    rows = served.ask("/v1/completions", body)[1]["choices"][0]["logprobs"]
    assert len(rows["tokens"]) == len(rows["token_logprobs"]) == len(rows["text_offset"]) == 20
    assert rows["text_offset"] == sorted(rows["text_offset"])


@pytest.mark.parametrize("form", ["float", "base64"])
def test_embeddings_are_means_of_states(served: Any, tiny: Model, form: str) -> None:
    import base64

    answer = served.ask("/v1/embeddings", {"input": ["the fox", [7, 8]], "encoding_format": form})[1]
    rows = [row["embedding"] for row in answer["data"]]
    if form == "base64":
        rows = [np.frombuffer(base64.b64decode(text), "<f4").tolist() for text in rows]
    states = tiny.decoder.states(nc.tensor([[7, 8]], dtype="int32")).detach().numpy()[0]
    mean = states.astype(np.float64).mean(axis=0)
    np.testing.assert_allclose(rows[1], mean / np.linalg.norm(mean), rtol=1e-5, atol=1e-6)
    assert len(rows[0]) == 32
    assert answer["usage"]["prompt_tokens"] == len(tiny.tokenizer.encode("the fox")) + 2


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
    (
        "chat/completions",
        {"messages": [{"role": "user", "content": [{"type": "image_url"}]}]},
        400,
        "messages[0].content",
    ),
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
    served: Any, path: str, body: Any, status: int, param: str | None
) -> None:
    found, answer = served.ask(f"/v1/{path}", body)
    assert found == status
    assert answer["error"]["type"] == "invalid_request_error"
    assert answer["error"]["param"] == param
    assert answer["error"]["message"].startswith("expected")


def test_the_server_is_up_after_all_wrong_requests(served: Any) -> None:
    assert served.ask("/v1/completions", {"prompt": "the quick"})[0] == 200


def test_addresses_methods_and_hosts(served: Any) -> None:
    assert served.ask("/v1/nonesuch")[0] == 404
    status, answer = served.ask("/v1/completions", method="DELETE")
    assert (status, answer["error"]["type"]) == (405, "invalid_request_error")
    connection = served.connect()
    connection.request("GET", "/v1/models", headers={"Host": "evil.example"})
    assert connection.getresponse().status == 400
    connection.close()


def test_bodies_beyond_the_limit_are_refused_without_being_kept(served: Any) -> None:
    assert served.ask("/v1/completions", {"prompt": "a" * 30_000})[0] == 413
    connection = served.connect()
    connection.request("POST", "/v1/completions", iter([b"a" * 10_000] * 20), encode_chunked=True)
    assert connection.getresponse().status == 413
    connection.close()
    with socket.create_connection(("127.0.0.1", served.port), timeout=30) as slow_client:
        slow_client.sendall(b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99\r\n\r\n{")
        assert slow_client.recv(99).startswith(b"HTTP/1.1 408")


def test_a_key_is_asked_for(serve: Callable[..., Any], tiny: Model) -> None:
    server = serve(tiny, api_key="secret")
    assert server.ask("/health")[0] == 200
    assert server.ask("/v1/models", Authorization="Bearer secret")[0] == 200
    for headers in ({}, {"Authorization": "Bearer wrong"}, {"Authorization": "secret"}):
        status, answer = server.ask("/v1/models", **headers)
        assert (status, answer["error"]["code"]) == (401, "invalid_api_key")


def test_a_device_that_fails_is_an_error_of_its_requests_alone(
    served: Any, tiny: Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    def forward(*_: Any, **__: Any) -> Any:
        raise MemoryError("no room on the device")

    with monkeypatch.context() as patched:
        patched.setattr(tiny.decoder, "forward", forward)
        status, answer = served.ask("/v1/completions", {"prompt": "another prompt of some length"})
    assert (status, answer["error"]["type"]) == (500, "server_error")
    assert "MemoryError: no room on the device" in answer["error"]["message"]
    assert served.ask("/v1/completions", {"prompt": "the"})[0] == 200


def test_a_client_that_goes_while_it_sends_is_no_fault_of_the_server(served: Any) -> None:
    for _ in range(3):
        with socket.create_connection(("127.0.0.1", served.port), timeout=30) as client:
            body = json.dumps({"prompt": "a"}).encode()
            client.sendall(b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 999\r\n\r\n" + body)
    assert served.ask("/health")[0] == 200
