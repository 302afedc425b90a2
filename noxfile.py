"""The checks of this tree. ``nox -l`` lists them, plain ``nox`` runs those that can run on this machine.

One op on one target: ``nox -s "tests(op='bmp_to_patches', target='cpu')"``. By tag, which is an op, a target, or core:
``nox -t cpu``. By words: ``nox -k "tests and bmp_to_patches and cpu"`` (with -t or -k nox ignores -s). What follows
``--`` goes to the tool of the session. ``TILEVL_REQUIRE=cuda`` makes a target that can't run a failure, not a skip;
``TILEVL_ENV=system`` uses the torch, torch_npu and TileLang of the machine. The work is done in tools/ and by pytest.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent / "tools"))

import cells
import nox
import stack
import tree

nox.needs_version = ">=2026.10"
nox.options.default_venv_backend = "none"  # the sessions share environments: tools/stack.py
nox.options.sessions = cells.run_here("lint", "core", "tests", "integration", "tools", "api", "lean")


@nox.session(default=False)
def demo(session: nox.Session) -> None:
    """A page image through the whole chain on CPU (-- page.bmp)."""
    session.run(str(stack.tests()), "demo/demo.py", *session.posargs)


@nox.session
def lint(session: nox.Session) -> None:
    """Ruff, ruff format, mypy --strict, and the rules of the tree."""
    python = str(stack.base())
    sources = cells.source_folders()
    scripts = ["noxfile.py", *map(str, Path("tools").glob("*.py"))]
    session.run(python, "-m", "ruff", "check")
    session.run(python, "-m", "ruff", "format", "--check")
    session.run(python, "-m", "mypy", *sources, *scripts, env={"MYPYPATH": os.pathsep.join([*sources, "tools"])})
    session.run(python, "tools/check_tree.py")


@nox.session(tags=["core"])
def core(session: nox.Session) -> None:
    """Tests of tilevl-core and of the test kit."""
    cells.run_pytest(session, "shared")


@nox.session
@nox.parametrize("op,target", cells.of_wares_and_targets())
def tests(session: nox.Session, op: str, target: str) -> None:
    """Tests of one op, or of the integration of that name, on one target."""
    cells.run_pytest(session, f"packages/{op}/tests", target=target, with_models=tree.find(op).is_integration)


@nox.session
@nox.parametrize("target", cells.of_targets())
def integration(session: nox.Session, target: str) -> None:
    """Tests of the ops together, inside real models, and of the packages together."""
    cells.run_pytest(session, "tests-integration", target=target, with_models=True)


@nox.session
def tools(session: nox.Session) -> None:
    """Tests of the tools, a new op from the template among them."""
    cells.run_pytest(session, "tools/tests")


@nox.session
@nox.parametrize("op", cells.of_packages())
def api(session: nox.Session, op: str) -> None:
    """Public names and schemas of a package against its api.txt (-- --write)."""
    session.run(str(stack.tests()), "tools/api.py", op, *(session.posargs or ["--check"]))


@nox.session(default=False)
def build(session: nox.Session) -> None:
    """Wheels and sdists of all packages, or of some (-- core), into wheelhouse/."""
    session.run(str(stack.base()), "tools/build.py", *session.posargs)


@nox.session(requires=["build"])
@nox.parametrize("op", cells.of_wares())
def lean(session: nox.Session, op: str) -> None:
    """One op alone in a bare environment: contents, import, smoke test."""
    session.run(str(stack.base()), "tools/lean.py", op)


@nox.session(default=False)
@nox.parametrize("op", cells.of_wares(tagged=False))
def floors(session: nox.Session, op: str) -> None:
    """Tests of one op against the lowest core that it allows."""
    session.run(str(stack.base()), "tools/floors.py", op, *session.posargs)


@nox.session(default=False)
@nox.parametrize("torch,interpreter", cells.of_pairs())
def supported(session: nox.Session, torch: str, interpreter: str) -> None:
    """CPU tests at an end of the supported range of torch and Python; installs that torch, GBs of it."""
    session.run(str(stack.base()), "tools/supported.py", torch, interpreter, *session.posargs)


@nox.session(default=False)
def fuzz(session: nox.Session) -> None:
    """The long fuzzers of the ops, guided by coverage (-- --seconds 3600 --findings FOLDER)."""
    session.run(str(stack.base()), "tools/fuzz.py", *session.posargs)


@nox.session(default=False)
def soak(session: nox.Session) -> None:
    """Memory of each op over many calls (-- --target cuda --calls 10000 --replays 10000)."""
    session.run(str(stack.tests()), "tests-integration/soak.py", *session.posargs)


@nox.session(default=False)
def environments(session: nox.Session) -> None:
    """The doctor in real environments with broken installations; takes minutes."""
    cells.run_pytest(session, "shared/core/tests", "-m", "real_environments")


@nox.session(default=False)
@nox.parametrize("op,target", cells.of_wares_and_targets(tagged=False))
def bench(session: nox.Session, op: str, target: str) -> None:
    """Benchmark of one op on one target: verifies, then times."""
    python = stack.models() if tree.find(op).is_integration else stack.tests()
    session.run(str(python), f"packages/{op}/benchmarks/bench.py", "--target", target, *session.posargs)


@nox.session(default=False)
def doctor(session: nox.Session) -> None:
    """What works on this machine and what to do about the rest (-- --target ascend)."""
    session.run(str(stack.tests()), "-m", "tilevl.core.doctor", *session.posargs)


@nox.session(default=False)
def table(session: nox.Session) -> None:
    """Write the README's table of ops and targets anew."""
    session.run(sys.executable, "tools/table.py", *session.posargs)


@nox.session(default=False)
def errors(session: nox.Session) -> None:
    """Write the pages of errors anew, from what the refused calls of the tests raise."""
    session.run(str(stack.tests()), "tools/errors.py", *session.posargs)


@nox.session(default=False)
def new(session: nox.Session) -> None:
    """Scaffold an op (-- NAME --targets cpu)."""
    session.run(sys.executable, "tools/new_op.py", *session.posargs)


@nox.session(default=False)
def changed(session: nox.Session) -> None:
    """What changed since its last release, with what depends on it."""
    session.run(sys.executable, "tools/changed.py", *session.posargs)


@nox.session(default=False)
def release(session: nox.Session) -> None:
    """Release one package (-- NAME minor --dry-run)."""
    session.run(sys.executable, "tools/release.py", *session.posargs)
