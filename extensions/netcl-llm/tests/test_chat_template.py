"""Chat templates: Hugging Face's variables, and limits that end any template within two seconds."""

from __future__ import annotations

import time
from typing import Any

import pytest

from netcl.llm.chat_template import ChatTemplate, ChatTemplateError

MESSAGES = [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello"}]
CHATML = (
    "{% for message in messages %}{{'<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>\n'}}"
    "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)


def test_messages_become_a_prompt() -> None:
    text = ChatTemplate(CHATML).render(MESSAGES[:1], add_generation_prompt=True)
    assert text == "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n"


@pytest.mark.parametrize(
    ("source", "text"),
    [
        ("{{ messages | tojson }}", '[{"role": "user", "content": "Grüße <b>"}]'),
        ("{{ messages[0] | tojson(indent=1) }}", '{\n "role": "user",\n "content": "Grüße <b>"\n}'),
        ("{{ strftime_now('%Y')[:2] }}", "20"),
        ("{% generation %}{{ messages[0].content }}{% endgeneration %}!", "Grüße <b>!"),
        ("{% for i in range(9) %}{% if i > 1 %}{% break %}{% endif %}{{ i }}{% endfor %}", "01"),
        ("  {% if true %}\nx\n  {% endif %}\ny", "x\ny"),
        ("{% set ns = namespace(n=0) %}{% for m in messages %}{% set ns.n = ns.n + 1 %}{% endfor %}{{ ns.n }}", "1"),
        ("{{ '=' * 3 }}{{ 2 ** 10 }}{{ 3 * 4 }}", "===102412"),
    ],
)
def test_what_templates_of_models_use(source: str, text: str) -> None:
    assert ChatTemplate(source).render([{"role": "user", "content": "Grüße <b>"}]) == text


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("{{ raise_exception('roles must alternate') }}", "roles must alternate"),
        ("{% import 'os' as os %}", "no loader"),
        ("{% include 'x' %}", "no loader"),
        ("{{ ''.__class__.__mro__ }}", "SecurityError"),
        ("{{ messages.append(1) }}", "SecurityError"),
        ("{% if %}", "TemplateSyntaxError"),
        ("{{ messages[0].content.nope.nope }}", "UndefinedError"),
        ("{{ 'x' * 10000000000 }}", "limits of chat templates"),
        ("{{ 9 ** (9 ** 9) }}", "limits of chat templates"),
        ("{% for i in range(10 ** 9) %}{% endfor %}", "Range too big"),
        ("{% for i in range(20000) %}{{ 'x' * 4096 }}{% endfor %}", "characters of text"),
        ("{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}", "RecursionError"),
    ],
)
def test_a_template_that_fails_is_one_clear_error(source: str, message: str) -> None:
    with pytest.raises(ChatTemplateError, match=message):
        ChatTemplate(source).render(MESSAGES)


@pytest.mark.parametrize(
    "source",
    [
        "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}",
        "{% for a in range(99999) %}{% for b in range(99999) %}{{ a }}{{ '' }}{% endfor %}{% endfor %}",
        "{{ '%2000000000d' % 1 }}",
        "{{ ('a'|center(1000000)|list|join('b'|center(1000000)))|length }}",
    ],
    ids=["silent", "loud", "width", "join"],
)
def test_a_template_without_end_ends_and_the_next_one_renders(source: str) -> None:
    assert ChatTemplate("ok").render([]) == "ok"  # the process is there
    start = time.monotonic()
    with pytest.raises(ChatTemplateError):
        ChatTemplate(source).render(MESSAGES)
    assert time.monotonic() - start < 5  # 1.5 s, and the load of the machine
    assert ChatTemplate("ok").render([]) == "ok"


@pytest.mark.parametrize("value", [object(), b"x", {1, 2}])
def test_messages_that_json_cannot_hold_are_named(value: Any) -> None:
    with pytest.raises(ChatTemplateError, match="expected messages of texts, numbers, lists and dicts"):
        ChatTemplate("{{ messages }}").render([{"role": "user", "content": value}])


def test_a_source_of_great_length_is_refused() -> None:
    with pytest.raises(ChatTemplateError, match="expected a chat template of at most 1048576 characters"):
        ChatTemplate("x" * (1 << 21)).render([])
