"""The table of ops as netcl's front looks for it."""
