"""Releases one package on this machine: version, dated changelog, one commit that touches nothing else, and its tag.

It refuses a dirty tree, an empty Unreleased section, a version that isn't newer than the last one, and a tag that is
there. Then it runs the package's tests, builds its wheel and sdist, and checks what they hold. Nothing is pushed or
uploaded: the last line says what is left to do. A --dry-run does all of this but writes, commits and tags nothing.
"""

from __future__ import annotations

import argparse
import difflib
import re
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from datetime import date
from pathlib import Path

import changelog
import history
import stack
import tree

STEPS = ("patch", "minor", "major")


@dataclass(frozen=True)
class Plan:
    """What a release will do.

    Attributes:
        package: what is released.
        version: under which version.
        edits: the new text of each file that it changes.
        notes: what the changelog says of it.
    """

    package: tree.Package
    version: str
    edits: dict[Path, str]
    notes: str

    @property
    def tag(self) -> str:
        """The tag that it makes."""
        return history.tag_of(self.package, self.version)

    @property
    def title(self) -> str:
        """The first line of the commit and of the tag."""
        return f"{self.package.distribution} {self.version}"


def plan(root: Path, name: str, wanted: str, today: str) -> Plan:
    """Checks that a release can be made, and says what it will change.

    Raises:
        SystemExit: with all the reasons against it.
    """
    package = tree.find(name, root)
    log = package.folder / "CHANGELOG.md"
    text = log.read_text(encoding="utf-8")
    released = history.released(root, package)
    version = next_version(wanted, package.version, released[0] if released else None)
    notes = changelog.unreleased(text)
    against = [f"CHANGELOG.md {problem}" for problem in changelog.problems(text, package.distribution)]
    against += ["the tree is not clean:\n    " + "\n    ".join(dirt) for dirt in [history.dirt(root)] if dirt]
    if not re.search(r"^- ", notes, flags=re.MULTILINE):
        against.append("CHANGELOG.md has nothing under Unreleased: say what changed for users")
    if history.git(root, "tag", "--list", history.tag_of(package, version)).strip():
        against.append(f"the tag {history.tag_of(package, version)} is there already")
    if against:
        raise SystemExit(f"{package.distribution} {version} can't be released:\n  " + "\n  ".join(against))
    edits = {log: changelog.dated(text, version, today)}
    if version != package.version:
        edits[package.version_file] = f'__version__ = "{version}"\n'
    return Plan(package, version, edits, notes)


def next_version(wanted: str, current: str, last: str | None) -> str:
    """The version to release.

    Args:
        wanted: ``patch``, ``minor`` or ``major``, counted from the last release; or a version.
        current: what the package's version file holds.
        last: the last released version; None where there is none.

    Raises:
        SystemExit: it isn't a version, or not a newer one.
    """
    if wanted in STEPS:
        if last is None:
            raise SystemExit(f"there is no release to count a {wanted} from: name the version, for example {current}")
        parts = [int(part) for part in last.split(".")]
        place = 2 - STEPS.index(wanted)
        return ".".join(str(n) for n in [*parts[:place], parts[place] + 1, *[0] * (2 - place)])
    if not re.fullmatch(r"(0|[1-9]\d*)(\.(0|[1-9]\d*)){2}", wanted):
        raise SystemExit(f"the version must be patch, minor, major or like 1.2.3, got {wanted!r}")
    floor = last or current
    newer = _numbers(wanted) > _numbers(floor) or (last is None and wanted == current)
    if not newer:
        raise SystemExit(f"the version must be newer than {floor}, got {wanted}")
    return wanted


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split("."))


def show(made: Plan, root: Path) -> None:
    """Prints what will change."""
    print(f"release {made.title}, tag {made.tag}\n")
    for path, new in made.edits.items():
        name = path.relative_to(root).as_posix()
        old = path.read_text(encoding="utf-8")
        print("".join(difflib.unified_diff(old.splitlines(True), new.splitlines(True), f"a/{name}", f"b/{name}", n=1)))


def run_tests(package: tree.Package) -> None:
    """Runs the sessions that the package must pass; the state of the other packages doesn't hold it up.

    Raises:
        SystemExit: one fails.
    """
    name = package.name
    of_its_kind = [f"tests(op='{name}', target='cpu')", f"lean(op='{name}')"] if package in tree.wares() else ["core"]
    sessions = [f"api(op='{name}')", *of_its_kind]
    if subprocess.run([sys.executable, str(tree.ROOT / "tools" / "dev.py"), "-s", *sessions]).returncode:
        raise SystemExit(f"{package.distribution} is not released: its tests fail, see above")


def build(made: Plan, root: Path, out: Path) -> None:
    """Builds what will be released, from a clone with the edits, and checks it.

    Raises:
        SystemExit: it can't be built, or holds what it shouldn't.
    """
    with tempfile.TemporaryDirectory() as folder:
        clone = Path(folder) / "clone"
        history.git(root, "clone", "--quiet", "--shared", str(root), str(clone))
        for path, text in made.edits.items():
            (clone / path.relative_to(root)).write_text(text, encoding="utf-8")
        command = [str(stack.base()), str(clone / "tools" / "build.py"), made.package.name, "--out", str(out.resolve())]
        if subprocess.run(command).returncode:
            raise SystemExit(f"{made.title} is not released: its build fails, see above")


def publish_locally(made: Plan, root: Path) -> None:
    """Writes the files, commits them alone, and makes the tag."""
    for path, text in made.edits.items():
        path.write_text(text, encoding="utf-8")
    files = [str(path) for path in made.edits]
    history.git(root, "commit", "--quiet", "--message", f"Release {made.title}", "--only", "--", *files)
    history.git(root, "tag", "--annotate", "--cleanup=verbatim", made.tag, "--message", f"{made.title}\n\n{made.notes}")


def main(arguments: list[str]) -> int:
    """Releases, and returns the exit code."""
    parser = argparse.ArgumentParser(
        prog="release.py", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("name", metavar="NAME", help="the package: core, testing or an op")
    parser.add_argument("version", metavar="VERSION", help="patch, minor, major, or a version such as 1.2.3")
    parser.add_argument("--dry-run", action="store_true", help="do everything but write, commit and tag")
    parser.add_argument("--skip-tests", action="store_true", help="leave the tests out; they have run on this commit")
    parser.add_argument("--root", type=Path, default=tree.ROOT, help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    root = options.root.resolve()
    made = plan(root, options.name, options.version, date.today().isoformat())
    show(made, root)
    if not options.skip_tests:
        run_tests(made.package)
    with tempfile.TemporaryDirectory() as scratch:
        build(made, root, Path(scratch) if options.dry_run else root / "wheelhouse")
    if options.dry_run:
        print(f"\ndry run: nothing is written. Without --dry-run: commit 'Release {made.title}', tag {made.tag}")
        return 0
    publish_locally(made, root)
    print(f"\ncommitted and tagged {made.tag}. Left to do: git push --follow-tags, and upload what is in wheelhouse")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
