"""The documentation site: its reference, its samples, its pictures and the checks of what was built."""
