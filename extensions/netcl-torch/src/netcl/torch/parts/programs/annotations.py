"""torch.jit.annotations: the names of types that annotations of scripted functions use."""

from __future__ import annotations

from typing import Any
from typing import Dict as Dict  # noqa: UP035  # the names that PyTorch's module has
from typing import List as List  # noqa: UP035
from typing import Optional as Optional
from typing import Tuple as Tuple  # noqa: UP035
from typing import Union as Union

TORCH_NAMES = (
    *("BroadcastingList1", "BroadcastingList2", "BroadcastingList3"),
    *("Dict", "List", "Optional", "Tuple", "Union"),
)
BroadcastingList1 = BroadcastingList2 = BroadcastingList3 = List[Any]  # noqa: UP006
