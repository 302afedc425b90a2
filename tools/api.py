"""Writes a package's public interface to its api.txt, or checks it: names, signatures, op schemas, targets.

A change in api.txt is a change for users; its diff is what a reviewer reads. Needs the package and torch.
"""

from __future__ import annotations

import argparse
import difflib
import importlib
import inspect
import pkgutil
import sys
from collections.abc import Iterator
from types import ModuleType
from typing import Any, ForwardRef

import tree

_UNSAID = ("_", "test_", "pytest_")  # private; a suite's tests; pytest's hooks


class _Bare:
    """An annotation that prints as it is written in the source."""

    def __init__(self, annotation: object) -> None:
        if isinstance(annotation, ForwardRef):  # how a named tuple keeps its annotations
            annotation = annotation.__forward_arg__
        self._text = annotation if isinstance(annotation, str) else inspect.formatannotation(annotation)

    def __repr__(self) -> str:
        return self._text


def interface(package: tree.Package) -> str:
    """The text of a package's api.txt."""
    lines = [f"# Public interface of {package.distribution}, written by tools/api.py"]
    lines += [f"targets: {', '.join(package.targets)}"] if package.targets else []
    lines += sorted(_schemas(package))
    lines += sorted(line for module in _public_modules(package) for line in _names(module))
    return "\n".join(lines) + "\n"


def _schemas(package: tree.Package) -> Iterator[str]:
    root = importlib.import_module(package.module)
    for found in pkgutil.walk_packages(root.__path__, f"{root.__name__}."):
        if found.name.endswith(".op"):
            yield f"op {importlib.import_module(found.name).OP._schema}"


def _public_modules(package: tree.Package) -> Iterator[ModuleType]:
    """The package itself; of a shared one its modules too, since other packages import them."""
    root = importlib.import_module(package.module)
    yield root
    if not (package.is_op or package.is_integration):
        for found in pkgutil.iter_modules(root.__path__, f"{root.__name__}."):
            if not found.name.rpartition(".")[2].startswith("_"):
                yield importlib.import_module(found.name)


def _names(module: ModuleType) -> Iterator[str]:
    own = [name for name, value in vars(module).items() if getattr(value, "__module__", "") == module.__name__]
    listed = getattr(module, "__all__", None)
    for name in listed if listed is not None else [name for name in own if not name.startswith(_UNSAID)]:
        if name != "__version__":
            yield from _describe(f"{module.__name__}.{name}", getattr(module, name))


def _describe(name: str, value: Any) -> Iterator[str]:
    if inspect.isclass(value):
        yield f"class {name}{'' if getattr(value, '_is_protocol', False) else _signature(value)}"
        for member, function in vars(value).items():
            if member.startswith(_UNSAID):
                continue
            if inspect.isfunction(function):
                yield f"{name}.{member}{_signature(function)}"
            elif isinstance(function, property):
                yield f"{name}.{member}"
    elif callable(value):
        yield f"{name}{_signature(value)}"
    else:
        yield name


def _signature(value: Any) -> str:
    try:
        found = inspect.signature(value)
    except ValueError:  # a class of C code, such as an exception without a constructor of its own
        return "(...)"
    parameters = [
        p if p.annotation is p.empty else p.replace(annotation=_Bare(p.annotation)) for p in found.parameters.values()
    ]
    returned = found.return_annotation
    if inspect.isclass(value) or returned is inspect.Signature.empty:
        return str(found.replace(parameters=parameters, return_annotation=inspect.Signature.empty))
    return str(found.replace(parameters=parameters, return_annotation=_Bare(returned)))


def main(arguments: list[str]) -> int:
    """Writes or checks, and returns the exit code."""
    parser = argparse.ArgumentParser(prog="api.py", description=__doc__)
    parser.add_argument("name", metavar="NAME", help="a package: core, testing or an op")
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--write", action="store_true", help="write api.txt")
    what.add_argument("--check", action="store_true", help="fail where api.txt differs, and show how")
    options = parser.parse_args(arguments)
    package = tree.find(options.name)
    path, text = package.folder / "api.txt", interface(package)
    if options.write:
        path.write_text(text, encoding="utf-8")
        return 0
    written = path.read_text(encoding="utf-8") if path.is_file() else ""
    if written == text:
        return 0
    diff = difflib.unified_diff(written.splitlines(), text.splitlines(), "api.txt", "the package", lineterm="", n=0)
    print("\n".join(diff))
    print(f"api.txt of {package.distribution} is out of date: nox -s \"api(op='{package.name}')\" -- --write")
    return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
