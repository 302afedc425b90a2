"""Rows of a matrix by index: a torch op for CPU."""

from tilevl.new_op._version import __version__
from tilevl.new_op.op import new_op

__all__ = ["__version__", "new_op"]
