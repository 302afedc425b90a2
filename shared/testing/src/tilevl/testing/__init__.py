"""The test kit of the TileVL ops: a pytest plugin, a standard suite, storage guards, graph and benchmark helpers."""

from tilevl.testing._version import __version__
from tilevl.testing.bits import relative_error, same_bits
from tilevl.testing.case import Case, Refusal
from tilevl.testing.guards import Guarded
from tilevl.testing.require import skip_unless

__all__ = ["Case", "Guarded", "Refusal", "__version__", "relative_error", "same_bits", "skip_unless"]
