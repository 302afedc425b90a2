"""How many calls the fuzzed tests draw: ``ci``, the default, or ``deep``.

``ci`` draws few, the same in every run. ``TILEVL_FUZZ=deep`` (or ``--hypothesis-profile=deep``) draws many, others each
time; a failure prints the decorator that repeats it.
"""

from __future__ import annotations

import os

import pytest
from hypothesis import HealthCheck, settings

ENVIRONMENT_VARIABLE = "TILEVL_FUZZ"
PROFILES = {"ci": 25, "deep": 1000}
"""Calls of one test on one target."""


def load_profile() -> None:
    """Registers the profiles and loads the one that TILEVL_FUZZ names.

    Raises:
        pytest.UsageError: it names none of them.
    """
    for name, calls in PROFILES.items():
        settings.register_profile(
            name,
            max_examples=calls,
            deadline=None,
            derandomize=name == "ci",
            database=None,
            print_blob=True,
            suppress_health_check=[
                HealthCheck.too_slow,
                HealthCheck.data_too_large,
                HealthCheck.function_scoped_fixture,  # a device stays the same from call to call
            ],
        )
    name = os.environ.get(ENVIRONMENT_VARIABLE, "") or "ci"
    if name not in PROFILES:
        raise pytest.UsageError(f"{ENVIRONMENT_VARIABLE} must be one of {', '.join(PROFILES)}, got {name!r}")
    settings.load_profile(name)
