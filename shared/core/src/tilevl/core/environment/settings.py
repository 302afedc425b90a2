"""Checks of what the user set: the NPU's default target, and the folder of compiled kernels."""

from __future__ import annotations

import os

from tilevl.core import cache_directory, targets
from tilevl.core.environment.check import Check, Scene


def default_target(scene: Scene) -> Check:
    """The variable that chooses the NPU's target holds a valid value, and chooses the target that is asked for."""
    name, variable = "default-target", targets.ENVIRONMENT_VARIABLE
    choices = ", ".join(targets.NPU_CHOICES)
    try:
        chosen = targets.npu_target()
    except ValueError as error:
        return Check(name, "failed", str(error), f"Unset {variable}, or set it to one of {choices}")
    value = os.environ.get(variable)
    said = f"{variable}={value}" if value is not None else f"{variable} is not set"
    if chosen != scene.target:
        remedy = f"Set {variable}={scene.target} to run {scene.target}"
        return Check(name, "warning", f"{said}: calls on the NPU run {chosen}", remedy)
    return Check(name, "ok", f"{said}: calls on the NPU run {chosen}")


def cache_folder(_scene: Scene) -> Check:
    """The folder of compiled kernels can be written."""
    name = "cache-directory"
    folder, origin = cache_directory.configured()
    problem = "no home folder is known" if folder is None else cache_directory.problem_with(folder)
    if not problem:
        return Check(name, "ok", f"{folder} ({origin})")
    return Check(
        name,
        "warning",
        f"{folder or 'no folder'} ({origin}): {problem}; each process compiles its kernels anew in a temporary folder",
        f"Make it a folder that this user may write, or set {cache_directory.VARIABLE} to one",
    )
