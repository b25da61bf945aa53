"""netcl-llm with all layers: the rule of sampling of a generation."""

from __future__ import annotations

from netcl.llm import Sampling

assert Sampling(temperature=0).max_tokens == 256
