from __future__ import annotations

import json
from pathlib import Path

import tree

from .conftest import Run, commit, git


def release_all(root: Path) -> None:
    for package in tree.packages(root):
        git(root, "tag", f"{package.name}-v{package.version}")


def touch(root: Path, name: str) -> None:
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"{path.read_text(encoding='utf-8') if path.exists() else ''}# more\n", encoding="utf-8")


def names(run_tool: Run, root: Path, *arguments: str) -> list[str]:
    done = run_tool("changed", "--root", str(root), "--names", *arguments)
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


WARES = [package.name for package in tree.wares()]
OPS = [op.name for op in tree.ops() if not any(package.requires(op) for package in tree.wares())]  # nothing needs them


def test_what_was_never_released_is_listed(repository: Path, run_tool: Run) -> None:
    assert names(run_tool, repository) == ["core", "testing", *WARES]
    assert "never released" in run_tool("changed", "--root", str(repository)).stdout


def test_nothing_is_listed_after_all_are_released(repository: Path, run_tool: Run) -> None:
    release_all(repository)
    assert names(run_tool, repository) == []
    assert run_tool("changed", "--root", str(repository)).stdout == "nothing\n"


def test_a_touched_op_is_listed_alone(repository: Path, run_tool: Run) -> None:
    release_all(repository)
    touch(repository, f"packages/{OPS[0]}/tests/oracle.py")
    commit(repository, "Touch an op")
    assert names(run_tool, repository) == [OPS[0]]


def test_a_touched_op_brings_the_integrations_that_need_it(repository: Path, run_tool: Run) -> None:
    release_all(repository)
    touch(repository, "packages/attn_rel_h_rel_w/README.md")
    commit(repository, "Touch an op")
    found = json.loads(run_tool("changed", "--root", str(repository), "--json").stdout)
    assert list(found) == ["attn_rel_h_rel_w", "transformers"]
    assert found["transformers"] == "depends on attn_rel_h_rel_w"


def test_a_touched_core_brings_its_dependants(repository: Path, run_tool: Run) -> None:
    release_all(repository)
    touch(repository, "shared/core/src/tilevl/core/cache.py")
    commit(repository, "Touch the core")
    done = run_tool("changed", "--root", str(repository), "--json")
    found = json.loads(done.stdout)
    assert list(found) == ["core", "testing", *WARES]
    assert found["core"] == f"1 file(s) touched since core-v{tree.find('core').version}"
    assert {reason for name, reason in found.items() if name != "core"} == {"depends on core"}


def test_work_that_is_not_committed_counts(repository: Path, run_tool: Run) -> None:
    release_all(repository)
    touch(repository, f"packages/{OPS[0]}/README.md")
    touch(repository, f"packages/{OPS[1]}/tests/test_new.py")
    assert names(run_tool, repository) == OPS[:2]


def test_the_newest_tag_counts_by_version_not_by_name(repository: Path, run_tool: Run) -> None:
    op = OPS[0]
    release_all(repository)
    git(repository, "tag", f"{op}-v0.9.0")
    touch(repository, f"packages/{op}/README.md")
    commit(repository, "Touch an op")
    assert op in names(run_tool, repository)
    git(repository, "tag", f"{op}-v0.10.0")
    assert op not in names(run_tool, repository)


def test_against_a_base_only_what_changed_since_is_listed(repository: Path, run_tool: Run) -> None:
    touch(repository, f"packages/{OPS[1]}/README.md")
    commit(repository, "Touch an op")
    assert names(run_tool, repository, "--base", "HEAD~1") == [OPS[1]]
    assert names(run_tool, repository, "--base", "HEAD") == []


def test_against_a_base_the_tree_s_own_files_and_the_test_kit_bring_all(repository: Path, run_tool: Run) -> None:
    touch(repository, "noxfile.py")
    assert names(run_tool, repository, "--base", "HEAD") == ["core", "testing", *WARES]
    commit(repository, "Touch the noxfile")
    touch(repository, "shared/testing/src/tilevl/testing/bits.py")
    assert names(run_tool, repository, "--base", "HEAD") == ["testing", "core", *WARES]


def test_an_unknown_base_is_an_error(repository: Path, run_tool: Run) -> None:
    done = run_tool("changed", "--root", str(repository), "--base", "nowhere")
    assert done.returncode != 0 and "nowhere" in done.stderr
