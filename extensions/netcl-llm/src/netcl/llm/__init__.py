"""Language models from GGUF files and folders of safetensors: generation, chat and fine-tuning on any device."""

from __future__ import annotations

try:
    from netcl.siblings import Checked as _Checked
except ModuleNotFoundError:
    raise ImportError(
        "netcl-llm needs netcl-core, and its files are not there: pip install --force-reinstall netcl-core"
    ) from None

with _Checked("llm"):
    from netcl.llm.__about__ import __version__ as __version__
    from netcl.llm.config import Config
    from netcl.llm.decoder import Decoder
    from netcl.llm.generation import Session
    from netcl.llm.gguf import Gguf, write_gguf
    from netcl.llm.model import Model, load
    from netcl.llm.sampling import Piece, Sampling

__all__ = ["Config", "Decoder", "Gguf", "Model", "Piece", "Sampling", "Session", "load", "write_gguf"]
