"""Serves a language model at OpenAI's addresses: /v1/chat/completions, /v1/completions, /v1/embeddings, /v1/models."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from netcl.llm.commands.options import add_model, loaded, parser, positive, run

__all__ = ["main"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs ``netcl serve-llm``."""
    serve = parser("serve-llm", __doc__)
    serve.fromfile_prefix_chars = "@"
    serve.epilog = "@FILE reads further arguments, one a line: a key in a file is not in the list of processes."
    add_model(serve)
    serve.add_argument("--host", default="127.0.0.1", help="the address to listen at (127.0.0.1, this machine alone)")
    serve.add_argument("--port", type=int, default=8000, help="the port (8000)")
    serve.add_argument("--api-key", help="a key that each request must have: Authorization: Bearer KEY")
    serve.add_argument("--name", help="the name of the model for clients (the name of its file)")
    numbers: tuple[tuple[str, int | None, str], ...] = (
        ("max-tokens", 4096, "tokens of an answer at most"),
        ("max-prompt", None, "tokens of a prompt at most (the context of the model)"),
        ("max-body", 4 << 20, "bytes of a request at most"),
        ("parallel", 4, "generations that are decoded together"),
        ("queue", 64, "generations that wait; more are refused with status 429"),
    )
    for name, default, text in numbers:
        serve.add_argument(f"--{name}", type=positive, default=default, help=f"{text} ({default})" if default else text)
    return run("serve-llm", _serve, serve.parse_args(arguments))


def _serve(parsed: argparse.Namespace) -> int:
    from netcl.llm.server import Limits, application, serve  # says what to install, if the extra is absent

    name = parsed.name or Path(parsed.model).stem
    limits = Limits(parsed.max_body, 30.0, parsed.max_prompt, parsed.max_tokens, parsed.parallel, parsed.queue)
    is_local = parsed.host in ("localhost", "::1") or parsed.host.startswith("127.")
    hosts = ["localhost", "127.0.0.1", "[::1]", parsed.host] if is_local else ["*"]
    if not is_local and parsed.api_key is None:
        print(f"netcl serve-llm: whoever reaches {parsed.host} can use the model; --api-key KEY asks for a key")
    app = application(loaded(parsed), name, api_key=parsed.api_key, limits=limits, hosts=hosts)
    print(f"netcl serve-llm: {name} at http://{parsed.host}:{parsed.port}/v1, Ctrl-C ends", flush=True)
    serve(app, parsed.host, parsed.port)
    return 0
