"""The signature of an op's function."""


class Signed:
    """``__wrapped__`` of the function of a row, of which ``inspect.signature`` reads the signature."""

    def __init__(self, row):
        self.__signature__ = row.signature

    def __call__(self, *args, **kwargs):
        raise TypeError("this has the signature of an op; call the op")
