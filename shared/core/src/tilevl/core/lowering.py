"""The lock that all of TileLang's tracing and compiling is done under, for any target."""

from __future__ import annotations

import threading

lowering = threading.RLock()
"""TileLang 0.1.15 lowers for another target now and then while another thread lowers."""
