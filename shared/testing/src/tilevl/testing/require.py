"""Skips that can't hide: ``TILEVL_REQUIRE`` names targets and resources whose absence is a failure."""

from __future__ import annotations

import os
import shutil

import pytest

from tilevl.core.targets import TARGETS

ENVIRONMENT_VARIABLE = "TILEVL_REQUIRE"
RESOURCES = {
    "bmp_suite": "the public-domain BMP suite beside the checkout",
    "real_environments": "virtual environments with broken installations, made on the spot",
    "compiler": "a C++ compiler for torch.compile's inductor backend",
    "cuda_compiler": "TileLang and nvcc, which build CUDA kernels without a GPU",
    "transformers": "Hugging Face transformers, whose models the ops are tested in",
}


def required() -> frozenset[str]:
    """What TILEVL_REQUIRE names: targets and resources, separated by commas.

    Raises:
        pytest.UsageError: a name is neither.
    """
    names = frozenset(name.strip() for name in os.environ.get(ENVIRONMENT_VARIABLE, "").split(",") if name.strip())
    known = {*TARGETS, *RESOURCES}
    strangers = ", ".join(sorted(names - known))
    if strangers:
        raise pytest.UsageError(f"{ENVIRONMENT_VARIABLE} must name some of {', '.join(sorted(known))}, got {strangers}")
    return names


def cpp_compiler() -> str | None:
    """The C++ compiler that the inductor backend would use on CPU, None where there is none."""
    from torch._inductor.cpp_builder import get_cpp_compiler
    from torch._inductor.exc import InvalidCxxCompiler

    try:
        return shutil.which(get_cpp_compiler())
    except InvalidCxxCompiler:  # none of those it knows was found
        return None


def skip_unless(available: bool, name: str, reason: str) -> None:
    """Skips the running test, or the module that is imported, with a reason; fails it where the resource was asked for.

    Args:
        available: whether the test can run.
        name: one of ``RESOURCES`` or a target.
        reason: what is missing and how to get it.
    """
    if name not in RESOURCES and name not in TARGETS:
        raise ValueError(f"skip_unless: name must be one of {', '.join([*RESOURCES, *TARGETS])}, got {name!r}")
    if available:
        return
    if name in required():
        pytest.fail(f"{ENVIRONMENT_VARIABLE} asks for {name}: {reason}", pytrace=False)
    pytest.skip(f"{name}: {reason}", allow_module_level=True)
