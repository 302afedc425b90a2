"""Checks the rules of the tree that no other tool knows: names, licences, targets, ranges, paths, changelogs."""

from __future__ import annotations

import argparse
import ast
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import changelog
import history
import table
import tree

LONG = 400  # lines: past that a file is two files
BANNED = {"utils.py", "common.py", "helpers.py"}
BUILDERS = {"cpu": "cpu", "cuda": "cuda", "ascend": "ascend", "pto": "ascend"}
FILES = ("LICENSE", "README.md", "CHANGELOG.md", "api.txt")
WARE_FILES = ("__init__.py", "__main__.py", "_version.py", "py.typed")
OP_FILES = ("contract.py", "op.py", "kernels/__init__.py")
_MACHINE_PATH = re.compile(r"(?<![\w.$}>/])/(?:home|Users|root|work|tmp|mnt|scratch)/\w")
_RANGE = re.compile(r">=\d+\.\d+(\.\d+)?,<\d+")


def no_package_owns_the_namespace(root: Path) -> Iterator[str]:
    """A tilevl/__init__.py would hide every other package, and tilevl/integrations/__init__.py other integrations."""
    for place in ("tilevl", "tilevl/integrations"):
        for path in root.glob(f"*/**/src/{place}/__init__.py*"):
            shared = place.replace("/", ".")
            yield f"{_name(path, root)} must not be: {shared} is a namespace that all packages share"


def packages_are_whole_and_named_alike(root: Path) -> Iterator[str]:
    """One name for folder, import, distribution and entry point; the files that every package has."""
    wares = tree.wares(root)
    for package in tree.packages(root):
        where, project = _name(package.folder, root), package.manifest["project"]
        if not package.name.isidentifier():
            yield f"{where}: the name must be a Python identifier"
        if project["name"] != package.distribution:
            yield f"{where}: project.name must be {package.distribution}, got {project['name']}"
        if project.get("dynamic") != ["version"] or "version" in project:
            yield f"{where}: the version must come from _version.py alone"
        home = package.source.parent
        imports = [path.name for path in home.iterdir() if path.name != "__pycache__"]
        if imports != [package.name]:
            inside = home.relative_to(package.folder).as_posix()
            yield f"{where}: {inside} must hold {package.name} alone, got {', '.join(imports)}"
        missing = [name for name in FILES if not (package.folder / name).is_file()]
        wanted = WARE_FILES * (package in wares) + OP_FILES * package.is_op
        missing += [name for name in wanted if not (package.source / name).is_file()]
        yield from (f"{where} lacks {name}" for name in missing)
        entry = project.get("entry-points", {}).get("tilevl.ops", {}).get(package.name)
        if package.is_op and entry != f"tilevl.{package.name}.op":
            yield f'{where}: needs the entry point tilevl.ops, {package.name} = "tilevl.{package.name}.op"'


def licences_are_equal(root: Path) -> Iterator[str]:
    """Each package carries the licence of the tree."""
    wanted = (root / "LICENSE").read_bytes()
    for package in tree.packages(root):
        path = package.folder / "LICENSE"
        if path.is_file() and path.read_bytes() != wanted:
            yield f"{_name(path, root)} differs from LICENSE"


def targets_are_the_kernels_that_are_there(root: Path) -> Iterator[str]:
    """[tool.tilevl] targets and the files in kernels say the same."""
    for op in tree.ops(root):
        unknown = [target for target in op.targets if target not in BUILDERS]
        yield from (f"{_name(op.folder, root)}: there is no target {target}" for target in unknown)
        declared = {BUILDERS[target] for target in op.targets if target in BUILDERS}
        for kernels in sorted(op.source.rglob("kernels")):
            there = {path.stem for path in kernels.glob("*.py")} & set(BUILDERS.values())
            if there != declared:
                yield (
                    f"{_name(kernels, root)} has {', '.join(sorted(there)) or 'no kernels'}, and [tool.tilevl] targets "
                    f"asks for {', '.join(sorted(declared)) or 'none'}"
                )


def requirements_are_ranges(root: Path) -> Iterator[str]:
    """No pin outside constraints.txt, no path, no ceiling on torch, no op that requires another op."""
    ops = {op.distribution for op in tree.ops(root)}
    for package in tree.packages(root):
        project, where = package.manifest["project"], _name(package.folder, root)
        lines = [*package.manifest["build-system"]["requires"], *project.get("dependencies", [])]
        lines += [line for extra in project.get("optional-dependencies", {}).values() for line in extra]
        for line in lines:
            name, wanted = tree.distribution_in(line), line.partition(";")[0]
            if "==" in wanted or "@" in wanted or "~=" in wanted:
                yield f"{where}: {line} must be a range"
            if name == "torch" and "<" in wanted:
                yield f"{where}: {line} must have no upper bound"
            if name in ops and not package.is_integration:
                yield f"{where}: must not require {line}: an op never needs another op"
            if name in {"tilevl-core", *ops} and line in project.get("dependencies", []) and not _RANGE.search(wanted):
                yield f"{where}: {line} must name the first version that will do and the next major one"
    for group, lines in tree.read_toml(root / "pyproject.toml").get("dependency-groups", {}).items():
        yield from (
            f"pyproject.toml, {group}: {line} is pinned in constraints.txt"
            for line in lines
            if "==" in line.partition(";")[0]
        )


def ops_import_no_other_op(root: Path) -> Iterator[str]:
    """What an op imports of tilevl is itself and the core."""
    for op in tree.ops(root):
        for path in sorted(op.source.rglob("*.py")):
            for module in _imports(path):
                parts = module.split(".")
                if parts[0] == "tilevl" and (len(parts) < 2 or parts[1] not in (op.name, "core")):
                    yield f"{_name(path, root)} imports {module}"


def changelogs_keep_their_form(root: Path) -> Iterator[str]:
    """Keep a Changelog, Unreleased on top."""
    for package in tree.packages(root):
        path = package.folder / "CHANGELOG.md"
        if path.is_file():
            found = changelog.problems(path.read_text(encoding="utf-8"), package.distribution)
            yield from (f"{_name(path, root)} {problem}" for problem in found)


def files_are_short_and_named_for_their_subject(root: Path) -> Iterator[str]:
    """No file that one reading can't take in, and none named for nothing."""
    for path in _tracked(root, ".py"):
        lines = path.read_text(encoding="utf-8").count("\n")
        if lines > LONG:
            yield f"{_name(path, root)} has {lines} lines, more than {LONG}"
        if path.name in BANNED:
            yield f"{_name(path, root)} must be named for its subject"


def nothing_names_a_machine(root: Path) -> Iterator[str]:
    """No path of somebody's machine."""
    for path in _tracked(root, ".py", ".toml", ".md", ".txt", ".cfg", ".yml", ".yaml", "run"):
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
            found = _MACHINE_PATH.search(line)
            if found:
                yield f"{_name(path, root)}:{number} holds a path of one machine, {found[0]}..."


def the_readme_has_the_table_of_now(root: Path) -> Iterator[str]:
    """The README's tables."""
    path = root / "README.md"
    if not path.is_file():
        yield "README.md is missing"
        return
    text = path.read_text(encoding="utf-8")
    if table.written(text, root) != text:
        yield "README.md: a table is out of date: nox -s table"


RULES: tuple[Callable[[Path], Iterator[str]], ...] = (
    no_package_owns_the_namespace,
    packages_are_whole_and_named_alike,
    licences_are_equal,
    targets_are_the_kernels_that_are_there,
    requirements_are_ranges,
    ops_import_no_other_op,
    changelogs_keep_their_form,
    files_are_short_and_named_for_their_subject,
    nothing_names_a_machine,
    the_readme_has_the_table_of_now,
)


def _imports(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names = [f"{node.module}.{alias.name}" for alias in node.names]
            yield from names if node.module == "tilevl" else [node.module]


def _tracked(root: Path, *endings: str) -> list[Path]:
    listed = history.git(root, "ls-files", "-z", "--cached", "--others", "--exclude-standard").split("\0")
    return [root / name for name in sorted(listed) if name.endswith(endings) and (root / name).is_file()]


def _name(path: Path, root: Path) -> str:
    return path.relative_to(root).as_posix()


def main(arguments: list[str]) -> int:
    """Checks all rules, prints what breaks them, and returns the exit code."""
    parser = argparse.ArgumentParser(prog="check_tree.py", description=__doc__)
    parser.add_argument("--root", type=Path, default=tree.ROOT, help="another checkout of this tree")
    root = parser.parse_args(arguments).root.resolve()
    broken = [problem for rule in RULES for problem in rule(root)]
    for problem in broken:
        print(problem, file=sys.stderr)
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
