"""The levels that this core keeps."""

LEVELS = frozenset({"tensor", "ops-basic"})
