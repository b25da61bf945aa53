"""Several requests at once: batches, order, prefixes that have been read, clients that go, and the end of a server."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from typing import Any

import pytest

from netcl.llm import Model, Sampling

pytest.importorskip("starlette", reason="the extra serve is not installed")
from netcl.llm.server import Limits
from netcl.llm.server.errors import ApiError
from netcl.llm.server.scheduler import END, Job, Scheduler

PROMPTS = ["the quick fox", "naïve dog", "1 2 3", "hello there", "the quick dog " * 30, "def main"]


def greedy(model: Model, prompt: str, most: int) -> str:
    return "".join(piece.text for piece in model.generate(prompt, Sampling(temperature=0, max_tokens=most)))


def test_requests_at_once_get_the_text_that_each_gets_alone(serve: Callable[..., Any], tiny: Model) -> None:
    served = serve(tiny)
    expected = [greedy(tiny, prompt, 12) for prompt in PROMPTS]
    found: dict[int, str] = {}

    def ask(at: int) -> None:
        body = {"prompt": PROMPTS[at], "temperature": 0, "max_tokens": 12}
        found[at] = served.ask("/v1/completions", body)[1]["choices"][0]["text"]

    threads = [threading.Thread(target=ask, args=(at,)) for at in range(len(PROMPTS))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [found[at] for at in range(len(PROMPTS))] == expected


def test_a_seed_repeats_a_chat(serve: Callable[..., Any], tiny: Model) -> None:
    served = serve(tiny)
    body = {"messages": [{"role": "user", "content": "the fox"}], "seed": 3, "max_tokens": 12, "temperature": 1.5}
    texts = {served.ask("/v1/chat/completions", body)[1]["choices"][0]["message"]["content"] for _ in range(2)}
    assert len(texts) == 1


@pytest.mark.parametrize("stream", [True, False])
def test_a_client_that_goes_ends_its_generations(
    serve: Callable[..., Any], tiny: Model, until: Callable[..., bool], stream: bool
) -> None:
    served = serve(tiny)
    connection = served.connect()
    body = {"prompt": "forever", "n": 3, "stream": stream, "max_tokens": 2000, "temperature": 0}
    connection.request("POST", "/v1/completions", json.dumps(body))
    response = connection.getresponse() if stream else None
    assert response is None or response.read(50)
    assert until(lambda: served.ask("/health")[1]["running"] == 3)
    connection.close()
    if response is not None:
        response.close()
    assert until(lambda: served.ask("/health")[1]["running"] == 0, 1.5)  # 2,000 steps take longer


def test_more_requests_than_the_queue_holds_are_refused(serve: Callable[..., Any], tiny: Model) -> None:
    served = serve(tiny, limits=Limits(parallel=2, waiting=2))
    statuses: list[int] = []
    body = {"prompt": "forever", "temperature": 0, "max_tokens": 100}
    threads = [
        threading.Thread(target=lambda: statuses.append(served.ask("/v1/completions", body)[0])) for _ in range(12)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert set(statuses) == {200, 429}
    assert statuses.count(200) >= 5  # two in a batch, one alone, two that wait


class Posted:
    """A job with the results that it was posted."""

    def __init__(self, model: Model, prompt: str, most: int, **fields: Any) -> None:
        self.results: list[Any] = []
        self.ended = threading.Event()
        rule = Sampling(temperature=0, max_tokens=most)
        self.job = Job(model.tokenizer.encode(prompt), rule, post=self.post, **fields)

    def post(self, result: Any) -> None:
        self.results.append(result)
        if result is END or isinstance(result, Exception):
            self.ended.set()


def test_a_later_job_joins_the_batch_and_a_short_one_leaves_it(tiny: Model) -> None:
    order: list[str] = []
    jobs = {name: Posted(tiny, name, most) for name, most in {"long": 60, "short": 4, "third": 2}.items()}

    def note(name: str) -> Callable[[Any], None]:
        def post(result: Any) -> None:
            order.append(name)
            jobs[name].post(result)

        return post

    for name, posted in jobs.items():
        posted.job.post = note(name)
    scheduler = Scheduler(tiny, parallel=2)
    scheduler.submit([posted.job for posted in jobs.values()])
    assert all(posted.ended.wait(60) for posted in jobs.values())
    scheduler.close()
    last = {name: len(order) - order[::-1].index(name) for name in jobs}
    assert last["third"] < last["long"]
    assert last["short"] < last["long"]
    assert [len(posted.results) for posted in jobs.values()] == [61, 5, 3]


def test_a_prompt_gets_the_row_that_has_read_its_beginning(tiny: Model, monkeypatch: pytest.MonkeyPatch) -> None:
    from netcl.llm.decode import Lanes

    read: list[int] = []
    append = Lanes.append

    def counted(lanes: Lanes, parts: Any, width: int = 1) -> Any:
        read.append(sum(map(len, parts)))
        return append(lanes, parts, width)

    monkeypatch.setattr(Lanes, "append", counted)
    scheduler = Scheduler(tiny, parallel=2)
    prompt = "the quick brown fox jumps over the lazy dog"
    for text, most in ((prompt, 100), (prompt + " again", 20)):
        read.clear()
        posted = Posted(tiny, text, 1)
        scheduler.submit([posted.job])
        assert posted.ended.wait(60)
        assert sum(read) < most
    scheduler.close()
    assert sum(read) <= len(tiny.tokenizer.encode(" again")) + 1


def test_other_work_is_done_between_steps(tiny: Model) -> None:
    scheduler = Scheduler(tiny)
    long = Posted(tiny, "forever", 200)
    other = Posted(tiny, "x", 1, results=iter([1, 2]))
    failing = Posted(tiny, "x", 1, results=(1 // 0 for _ in range(1)))
    scheduler.submit([long.job, other.job, failing.job])
    assert all(posted.ended.wait(60) for posted in (long, other, failing))
    scheduler.close()
    assert other.results == [1, 2, END]
    assert isinstance(failing.results[0], ZeroDivisionError)


def test_jobs_of_a_server_that_stops_get_an_error(tiny: Model, until: Callable[..., bool]) -> None:
    scheduler = Scheduler(tiny, parallel=1)
    jobs = [Posted(tiny, "forever", 2000) for _ in range(2)]
    scheduler.submit([posted.job for posted in jobs])
    assert until(lambda: len(jobs[0].results) > 2)
    scheduler.close()
    assert [posted.results[-1].status for posted in jobs] == [503, 503]
    with pytest.raises(ApiError, match="the server is stopping"):
        scheduler.submit([jobs[0].job])
