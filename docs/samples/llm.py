"""Samples of classes of netcl-llm."""

from __future__ import annotations

from netcl.llm import Piece, Sampling

# %% netcl.llm.Sampling
Sampling(temperature=0.7, top_p=0.9, seed=1, stop=("\n\n",))

# %% netcl.llm.Piece
"".join(piece.text for piece in [Piece("On", 3), Piece("ce", 5, finish_reason="length")])
