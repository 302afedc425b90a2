"""What git says about the tree: tags, changes, a clean or a dirty state. Standard library only."""

from __future__ import annotations

import subprocess
from pathlib import Path

import tree


def git(root: Path, *arguments: str) -> str:
    """What a git command prints.

    Raises:
        SystemExit: it fails; shows what it said.
    """
    done = subprocess.run(["git", "-C", str(root), *arguments], capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"git {' '.join(arguments)} fails: {done.stderr.strip()}")
    return done.stdout


def tag_of(package: tree.Package, version: str) -> str:
    """The tag of a release: ``bmp_to_patches-v0.2.0``."""
    return f"{package.name}-v{version}"


def released(root: Path, package: tree.Package) -> list[str]:
    """Versions of a package that this history has tags of, the newest first."""
    prefix = f"{package.name}-v"
    listed = git(root, "tag", "--list", f"{prefix}*", "--merged", "HEAD", "--sort=-version:refname")
    return [tag.removeprefix(prefix) for tag in listed.split()]


def touched(root: Path, revision: str) -> list[str]:
    """Files that differ from a revision: committed since, changed in the work tree, or new and not ignored."""
    changed = git(root, "diff", "--name-only", "-z", revision, "--").split("\0")
    new = git(root, "ls-files", "--others", "--exclude-standard", "-z").split("\0")
    return sorted({name for name in changed + new if name})


def dirt(root: Path) -> list[str]:
    """What is not committed, a file a line as git shows it; empty for a clean tree."""
    return git(root, "status", "--porcelain").splitlines()
