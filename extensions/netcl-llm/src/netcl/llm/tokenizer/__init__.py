"""Tokenizers of language models: byte-level BPE, SentencePiece BPE and unigram, from GGUF keys or tokenizer.json."""

from __future__ import annotations

from netcl.llm.tokenizer.gguf_keys import from_gguf, keys_of
from netcl.llm.tokenizer.tokenizer import TextStream, Tokenizer
from netcl.llm.tokenizer.tokenizer_json import from_json

__all__ = ["TextStream", "Tokenizer", "from_gguf", "from_json", "keys_of"]
