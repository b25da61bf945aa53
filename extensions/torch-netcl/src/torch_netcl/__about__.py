"""The version of torch-netcl."""

__version__ = "0.1.0"
