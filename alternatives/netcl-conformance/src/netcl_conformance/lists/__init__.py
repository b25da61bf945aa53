"""The contract of netcl-core as lists: its names with their signatures, their levels, and their meaning."""
