"""The version, of which the packages above read the series; the local part says whose core it is."""

__version__ = "0.1.0+small"
