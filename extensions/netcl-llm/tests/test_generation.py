"""Generation: the cache that grows, sessions, endings, the rule by which tokens are drawn."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import netcl as nc
from netcl import llm
from netcl.core import Tensor
from netcl.core.device import DeviceHandle
from netcl.core.device import device as on
from netcl.llm.cache import PAGE, size_of
from netcl.llm.config import Rope
from netcl.llm.decode import Lanes
from netcl.llm.generation import Ending
from netcl.llm.gguf_model import export_gguf
from netcl.llm.sampling import Sampler
from netcl.llm.tokenizer.byte_pairs import printable_bytes

CONFIG = llm.Config("qwen2", 256, 32, 1, 4, 2, 8, 64, Rope(8), context_length=600, tied=True, qkv_bias=True)
KEYS = {
    "tokenizer.ggml.model": "gpt2",
    "tokenizer.ggml.pre": "gpt-2",
    "tokenizer.ggml.tokens": printable_bytes(),
    "tokenizer.ggml.token_type": np.ones(256, np.int32),
    "tokenizer.ggml.merges": [],
}


def source(name: str, shape: tuple[int, ...]) -> Tensor:
    rng = np.random.default_rng(len(name) * 7 + sum(shape))
    return Tensor.from_host(nc.zeros(1).queue, rng.standard_normal(shape).astype(np.float32) * 0.5)


@pytest.fixture
def model(tmp_path: Path, handle: DeviceHandle) -> llm.Model:
    export_gguf(llm.Decoder(CONFIG, source), tmp_path / "tiny.gguf", KEYS)
    return llm.load(tmp_path / "tiny.gguf", handle.queue)


def whole(model: llm.Model, ids: list[int]) -> Any:
    with nc.no_grad():
        return model.decoder(Tensor.from_host(model.decoder.queue, np.array([ids]))).numpy()[0]


def test_a_cache_that_grows_gives_the_logits_of_a_whole_pass(model: llm.Model) -> None:
    ids = np.random.default_rng(1).integers(0, 256, PAGE + 6).tolist()
    expected, lanes = whole(model, ids), Lanes(model.decoder)
    lanes.prefill([ids[: PAGE - 5]])
    for at in range(PAGE - 5, PAGE + 6):
        found = lanes.append([ids[at : at + 1]]).numpy()[0]
        np.testing.assert_allclose(found, expected[at], rtol=0, atol=1e-3)
    assert lanes.cache.length == 2 * PAGE
    assert size_of(PAGE + 1, 400) == 400
    with pytest.raises(ValueError, match="at most 600 tokens, the model's context"):
        lanes.prefill([[1] * 400])


def test_a_step_that_is_captured_at_the_first_place_serves_all(model: llm.Model) -> None:
    model.decoder.cache_dtype = "float64"  # takes the ops of a whole pass
    ids, lanes = [65, 66, 67, 68], Lanes(model.decoder)
    found = [lanes.append([[token]]).numpy()[0] for token in ids]
    np.testing.assert_allclose(found, whole(model, ids), rtol=0, atol=1e-4)


@pytest.mark.parametrize(("dtype", "bound"), [("float16", 0.01), ("Q8_0", 0.1)])
def test_a_small_cache_gives_logits_that_are_near(handle: DeviceHandle, dtype: str, bound: float) -> None:
    """Of logits of about 10: a prefill writes and reads it, and so do steps, over a page's end."""
    config = replace(CONFIG, head_dim=32, heads=2, kv_heads=1, rope=Rope(32))
    with on(handle):
        decoder = llm.Decoder(config, source).eval()
    ids = np.random.default_rng(1).integers(0, 256, PAGE + 6).tolist()
    found = {}
    for kind in ("float32", dtype):
        decoder.cache_dtype = kind
        lanes = Lanes(decoder)
        rows = [lanes.prefill([ids[: PAGE - 5]])] + [lanes.append([[token]]) for token in ids[PAGE - 5 :]]
        found[kind] = np.concatenate([row.numpy() for row in rows]), lanes.cache.nbytes
    assert found[dtype][1] / found["float32"][1] == {"float16": 1 / 2, "Q8_0": 8.5 / 32}[dtype]
    error = np.abs(found[dtype][0] - found["float32"][0]).max()
    assert 0 < error < bound * np.abs(found["float32"][0]).max()


def test_a_cache_that_no_model_has_is_refused(tmp_path: Path) -> None:
    export_gguf(llm.Decoder(CONFIG, source), tmp_path / "tiny.gguf", KEYS)
    for wrong in ("Q8_0", "int4"):
        with pytest.raises(ValueError, match=f"expected a cache in .*Q8_0, .* got '{wrong}' for heads of 8"):
            llm.load(tmp_path / "tiny.gguf", cache=wrong)


def test_a_session_computes_no_token_twice(model: llm.Model) -> None:
    session = model.session()
    first = [piece.id for piece in session.generate("Once upon a time", temperature=0, max_tokens=4)]
    longer = [*model.tokenizer.encode("Once upon a time"), *first[:3], 40]
    again = [piece.id for piece in session.generate(longer, temperature=0, max_tokens=4)]
    assert session.reused == len(longer) - 1
    # A step draws, too: the host reads a token, and no logits.
    assert [asked for _, asked in session.lanes._steps] == [(1, False, False)]
    assert again == [piece.id for piece in model.generate(longer, temperature=0, max_tokens=4)]
    ids = list(longer)
    for token in again:
        assert token == int(whole(model, ids)[-1].argmax())
        ids.append(token)


def test_pieces_of_a_generation(model: llm.Model) -> None:
    pieces = list(model.generate("ab", seed=3, max_tokens=9, logprobs=2))
    assert [piece.finish_reason for piece in pieces] == [None] * 8 + ["length"]
    assert pieces == list(model.generate("ab", seed=3, max_tokens=9, logprobs=2))
    logits = whole(model, model.tokenizer.encode("ab"))[-1].astype(np.float64)
    shares = logits - np.log(np.exp(logits).sum())
    assert pieces[0].logprob == pytest.approx(shares[pieces[0].id], abs=1e-4)
    assert [token for token, _ in pieces[0].top_logprobs] == np.argsort(-shares)[:2].tolist()
    text = "".join(piece.text for piece in pieces)
    stop = text[2:4]
    stopped = list(model.generate("ab", seed=3, max_tokens=9, stop=(stop,)))
    assert "".join(piece.text for piece in stopped) == text[: text.index(stop)]
    assert stopped[-1].finish_reason == "stop"
    for wrong in ("", [256], [-1], [1] * 601):
        with pytest.raises(ValueError, match="expected"):
            list(model.generate(wrong))


def test_an_ending_keeps_back_what_may_become_a_stop() -> None:
    ending = Ending(("END", "\n\n"))
    assert [ending.push(text) for text in ("aE", "Nx", "E", "N", "D tail")] == ["a", "ENx", "", "", ""]
    assert ending.is_stopped
    ending = Ending(("END",))
    assert ending.push("xEN", is_last=True) == "xEN"
    assert not ending.is_stopped


@pytest.mark.parametrize(
    ("rule", "kept"),
    [
        ({"temperature": 0}, {0}),
        ({"top_k": 2, "top_p": 1, "min_p": 0}, {0, 1}),
        ({"top_k": 0, "top_p": 0.8, "min_p": 0}, {0, 1, 2}),
        ({"top_k": 0, "top_p": 1, "min_p": 0.3}, {0, 1}),
        ({"top_k": 0, "top_p": 1, "min_p": 0}, {0, 1, 2, 3}),
        ({"top_k": 0, "top_p": 1, "min_p": 0, "repetition_penalty": 100.0, "temperature": 0}, {1}),
    ],
)
def test_tokens_are_drawn_by_their_shares(rule: dict[str, Any], kept: set[int], handle: DeviceHandle) -> None:
    shares, rows = np.array([0.125, 0.5, 0.125, 0.25]), 64
    order = [1, 3, 0, 2]
    sampler = Sampler(rows, 4, handle.queue)
    past = (1,) if "repetition_penalty" in rule else ()
    logits = Tensor.from_host(handle.queue, np.tile((np.log(shares) + 3).astype(np.float32), (rows, 1)))
    drawn = []
    for _ in range(40):
        for row in range(rows):
            if not drawn or past:
                sampler.begin(row, llm.Sampling(**{"temperature": 1.0, "seed": row, **rule}), past)
        drawn += [order.index(choice.id) for choice in sampler.draw(logits, range(rows))]
    assert set(drawn) == kept
    expected = shares[order] * [token in kept for token in range(4)]
    np.testing.assert_allclose(np.bincount(drawn, minlength=4) / len(drawn), expected / expected.sum(), atol=0.04)


def test_rows_draw_by_their_own_rules_and_seeds(handle: DeviceHandle) -> None:
    logits = np.random.default_rng(0).standard_normal((3, 500)).astype(np.float32)
    rules = [
        llm.Sampling(temperature=2.0, top_k=0, seed=1),
        llm.Sampling(temperature=0, logprobs=3),
        llm.Sampling(top_k=9, repetition_penalty=1.2, seed=3),
    ]

    def draw(rows: Any) -> list[Any]:
        sampler = Sampler(3, 500, handle.queue)
        for row, rule in enumerate(rules):
            sampler.begin(row, rule, [])
        batch = Tensor.from_host(handle.queue, logits)
        return [choice for _ in range(6) for choice in sampler.draw(batch, rows) if rows[-1] == 2]

    together, alone = draw(range(3)), draw([2])
    assert [choice.id for choice in together[2::3]] == [choice.id for choice in alone]
    assert {choice.id for choice in together[1::3]} == {int(logits[1].argmax())}
    assert len({choice.id for choice in together[::3]}) > 3
    likely = logits[1] - np.log(np.exp(logits[1]).sum())
    best = np.argsort(-likely)[:3]
    assert [token for token, _ in together[1].top_logprobs] == best.tolist()
    np.testing.assert_allclose([value for _, value in together[1].top_logprobs], likely[best], atol=1e-5)
    assert together[1].logprob == together[1].top_logprobs[0][1]
