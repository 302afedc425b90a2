"""Says whether a target can run here, what was seen, and what to do: ``python -m tilevl.core.doctor``.

Works where ``import torch`` fails: it uses the standard library, installed metadata, and child processes for what must
be imported to be seen. Exit status: 0 where the target asked for can run, 1 where it can't, 2 for a wrong option.
"""

from __future__ import annotations

import argparse
import dataclasses
import io
import json
import platform
import shutil
import sys
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tilevl.core import targets
from tilevl.core._version import __version__
from tilevl.core.environment import Check, npu, sight
from tilevl.core.environment.check import Scene
from tilevl.core.environment.child import InChildren
from tilevl.core.environment.installed import InstalledPackage, tilevl_distributions
from tilevl.core.environment.sight import Sight
from tilevl.core.environment.table import ROWS

SCHEMA = "tilevl-doctor"
SCHEMA_VERSION = 1


@dataclass(frozen=True)
class Report:
    """All that the doctor found.

    Attributes:
        requested: the target that was asked for, perhaps ``auto``.
        target: the target that it stands for.
        reason: why ``auto`` stands for it; empty where the target was named.
        checks: all checks in the order of the table; those that the target doesn't need are ``not applicable``.
        failing: for every target the names of the checks that keep it from running.
        packages: the installed TileVL distributions.
    """

    requested: str
    target: str
    reason: str
    checks: list[Check]
    failing: dict[str, list[str]]
    packages: list[InstalledPackage]

    @property
    def can_run(self) -> bool:
        """Whether the target can run here."""
        return not self.failing[self.target]

    def as_json(self) -> dict[str, Any]:
        """The report as the README's schema says."""
        return {
            "schema": SCHEMA,
            "schema_version": SCHEMA_VERSION,
            "core_version": __version__,
            "python": {"version": platform.python_version(), "executable": sys.executable},
            "platform": f"{platform.system()} {platform.machine()}",
            "target": {"requested": self.requested, "resolved": self.target, "reason": self.reason},
            "can_run": self.can_run,
            "checks": [
                {**dataclasses.asdict(check), "needed_by": list(row.targets)}
                for row, check in zip(ROWS, self.checks, strict=True)
            ],
            "targets": {name: {"can_run": not failed, "failed": failed} for name, failed in self.failing.items()},
            "packages": [dataclasses.asdict(package) for package in self.packages],
        }


def resolve(requested: str, look: Sight) -> tuple[str, str]:
    """The target that a word of the command line stands for, and why.

    ``auto`` goes by what is here: an NPU or an installed torch_npu, else a GPU, else the CPU.
    """
    if requested != "auto":
        return requested, ""
    nodes = npu.device_nodes()
    if nodes or sight.importable("torch_npu"):
        try:
            target = targets.npu_target()
        except ValueError:  # the check of that variable says so
            target = targets.NPU_CHOICES["auto"]
        return target, f"this machine has an NPU, {nodes[0]}" if nodes else "torch_npu is installed"
    gpus = look.torch().gpus
    if gpus:
        return "cuda", f"torch sees a GPU, {gpus[0][0]}"
    return "cpu", "there is neither an NPU, nor torch_npu, nor a GPU that torch can use"


def examine(requested: str) -> Report:
    """Makes all checks.

    Args:
        requested: ``auto`` or the name of a target.
    """
    look = InChildren()
    target, reason = resolve(requested, look)
    found = [row.check(Scene(target if target in row.targets else row.targets[0], look, True)) for row in ROWS]
    failing = {
        name: [check.name for row, check in zip(ROWS, found, strict=True) if name in row.targets and _failed(check)]
        for name in targets.TARGETS
    }
    checks = [
        check if target in row.targets else Check(check.name, "not applicable", check.evidence)
        for row, check in zip(ROWS, found, strict=True)
    ]
    try:
        packages = tilevl_distributions()
    except ModuleNotFoundError:  # packaging is missing, and the check tilevl-packages says so
        packages = []
    return Report(requested, target, reason, checks, failing, packages)


def _failed(check: Check) -> bool:
    return check.state == "failed"


def as_text(report: Report, width: int) -> str:
    """The report for a person.

    Args:
        report: what ``examine`` found.
        width: columns of the terminal.
    """
    chosen = f" (auto: {report.reason})" if report.reason else ""
    machine = f"Python {platform.python_version()}, {platform.system()} {platform.machine()}"
    lines = [f"tilevl-core {__version__}, {machine}", *_wrapped("Target: ", f"{report.target}{chosen}", width), ""]
    needed = [check for row, check in zip(ROWS, report.checks, strict=True) if report.target in row.targets]
    others = [check for check in report.checks if check not in needed]
    column = max(len(check.name) for check in report.checks) + 2
    marks = {"ok": "ok", "warning": "warning", "failed": "FAILED", "not applicable": "-"}
    for check in needed:
        lines += _wrapped(f"{marks[check.state]:<9}{check.name:<{column}}", check.evidence, width)
        if check.remedy:
            lines += _wrapped(" " * (9 + column) + "-> ", check.remedy, width)
    if others:
        lines += ["", f"Not needed for {report.target}; seen all the same:"]
        for check in others:
            lines += _wrapped(f"{'-':<9}{check.name:<{column}}", check.evidence, width)
    return "\n".join([*lines, "", *_wrapped("", _verdict(report), width)])


def _wrapped(start: str, text: str, width: int) -> list[str]:
    return textwrap.wrap(
        text,
        max(width, len(start) + 40),
        initial_indent=start,
        subsequent_indent=" " * len(start),
        break_long_words=False,
        break_on_hyphens=False,
        drop_whitespace=True,
    )


def _verdict(report: Report) -> str:
    can = [name for name, failed in report.failing.items() if not failed and name != report.target]
    cannot = [name for name, failed in report.failing.items() if failed and name != report.target]
    failed = report.failing[report.target]
    if failed:
        number = f"{len(failed)} checks fail" if len(failed) > 1 else "one check fails"
        verdict = f"{report.target} can't run here: {number}. Start with the first, {failed[0]}; "
        verdict += "later ones may pass once it does. Then start a new process: a running one keeps its verdict."
        return f"{verdict} What can run here: {', '.join(can) or 'no other target'}."
    verdict = f"{report.target} can run here."
    if cannot:
        verdict += f" What can't: {', '.join(cannot)}; --target TARGET says why."
    return verdict


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line.

    Returns:
        0 where the target can run here, else 1.
    """
    parser = argparse.ArgumentParser(
        prog="python -m tilevl.core.doctor",
        description="Says whether a TileVL target can run here, what was seen, and what to do.",
        epilog="Exit status: 0 where the target can run here, 1 where it can't.",
    )
    parser.add_argument(
        "--target",
        choices=["auto", *targets.TARGETS],
        default="auto",
        help="the target to ask for; auto (the default): the NPU's where there is an NPU or torch_npu, else cuda where "
        "torch sees a GPU, else cpu",
    )
    parser.add_argument("--json", action="store_true", help=f"print JSON, schema {SCHEMA} version {SCHEMA_VERSION}")
    options = parser.parse_args(arguments)
    report = examine(options.target)
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # a path may hold what the terminal's encoding doesn't
    width = min(shutil.get_terminal_size().columns, 120)
    text = json.dumps(report.as_json(), indent=2) if options.json else as_text(report, width)
    sys.stdout.write(f"{text}\n")
    return 0 if report.can_run else 1


if __name__ == "__main__":
    sys.exit(main())
