"""Operations of a warp, and reading what earlier work-groups have published."""
