"""What can go wrong in the model, and what it says."""

from __future__ import annotations

from dataclasses import dataclass


class HostModelError(RuntimeError):
    """The base of the model's errors."""


class CompilerMissingError(HostModelError):
    """There is no C++ compiler that the model can use."""


class CompilationError(HostModelError):
    """The compiler refused a kernel."""


@dataclass(frozen=True)
class Fault:
    """One thing that is wrong with a kernel.

    Attributes:
        kind: ``bounds``, ``alignment``, ``range``, ``unwritten``, ``hazard``, ``race``, ``flag``, ``lock``,
            ``deadlock``, ``core``, ``memory`` or a kind of the vector instructions.
        message: what happened, with the source lines in it.
        lines: numbers of these lines in the generated source, in the order of the message.
    """

    kind: str
    message: str
    lines: tuple[int, ...]


class KernelFaultError(HostModelError):
    """A kernel did what it must not. No tensor was changed.

    Attributes:
        faults: all that was found.
    """

    def __init__(self, kernel: str, faults: tuple[Fault, ...]) -> None:
        self.faults = faults
        super().__init__(f"{kernel}: " + "\n".join(f"[{fault.kind}] {fault.message}" for fault in faults))
