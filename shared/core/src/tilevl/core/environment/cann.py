"""Checks of CANN, Huawei's toolkit for Ascend NPUs, and of the programs that TileLang starts to compile for them.

Where to look follows TileLang's ``contrib/bisheng.py`` for the compiler and the linker, CANN's own ``set_env.sh`` for
the variables, and CANN's installation guide for ``<root>/<machine>-linux/ascend_toolkit_install.info``, the version.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

from tilevl.core.environment import tools
from tilevl.core.environment.check import Check, Scene, State

ROOT_VARIABLES = ("ASCEND_HOME_PATH", "ASCEND_TOOLKIT_HOME")
USUAL_ROOTS = (
    Path("/usr/local/Ascend/cann"),
    Path("/usr/local/Ascend/ascend-toolkit/latest"),
    Path("~/Ascend/cann"),
    Path("~/Ascend/ascend-toolkit/latest"),
)

COMPILER_FOLDERS = ("", "compiler/ccec_compiler", "tools/bisheng_compiler", "ccec_compiler")

_VERSION_LINE = re.compile(r"(?im)^\s*version\s*=\s*(\S+)")


def root_of() -> Path | None:
    """CANN's root: the folder that a variable names, else one of the usual ones; None where there is none."""
    named = [folder for folder in tools.folders(*ROOT_VARIABLES) if folder.is_dir()]
    usual = (root.expanduser() for root in USUAL_ROOTS)
    return next(iter(named), None) or next((root for root in usual if root.is_dir()), None)


def sourcing(root: Path | None) -> str:
    """The step that sets up CANN's environment."""
    for folder in (root, root.parent) if root is not None else ():
        if (folder / "set_env.sh").is_file():
            return f"source {folder / 'set_env.sh'} in the shell that starts Python"
    return "source its set_env.sh in the shell that starts Python"


def _installing() -> str:
    """The step that brings CANN."""
    step = f"install the CANN toolkit for Ascend 950 and {sourcing(None)}"
    return f"{step}; in a container, start from an image that has it"


def _sentence(step: str) -> str:
    return step[0].upper() + step[1:]


def _unless_loaded(scene: Scene) -> State:
    """How bad a missing setting is: torch_npu that imports proves that the loader finds CANN all the same."""
    return "failed" if scene.sight.torch_npu().broken is not None else "warning"


def root(scene: Scene) -> Check:
    """CANN's root folder is known."""
    name = "cann-root"
    for variable in ROOT_VARIABLES:
        value = os.environ.get(variable)
        if value and not Path(value).is_dir():
            remedy = f"Unset {variable} and let CANN set it: {sourcing(root_of())}"
            return Check(name, "failed", f"{variable} is {value}, and there is no such folder", remedy)
    found = root_of()
    if found is not None:
        return Check(name, "ok", str(found))
    return Check(
        name,
        _unless_loaded(scene),
        f"no CANN: {' and '.join(ROOT_VARIABLES)} are not set, and none lies in /usr/local/Ascend or ~/Ascend",
        _sentence(_installing()),
    )


def version(_scene: Scene) -> Check:
    """CANN's version."""
    name = "cann-version"
    found = root_of()
    if found is None:
        return Check(name, "not applicable", "no CANN found")
    patterns = ("*-linux/ascend_toolkit_install.info", "ascend_toolkit_install.info", "*/version.info", "version.info")
    for path in (path for pattern in patterns for path in sorted(found.glob(pattern))):
        try:
            line = _VERSION_LINE.search(path.read_text(encoding="utf-8", errors="replace"))
        except OSError:  # not readable by this user; another file may be
            continue
        if line:
            return Check(name, "ok", f"CANN {line.group(1)}, by {path}")
    return Check(
        name,
        "warning",
        f"no readable version file below {found}",
        "See that the toolkit is installed whole: its <machine>-linux folder should hold ascend_toolkit_install.info",
    )


def environment(scene: Scene) -> Check:
    """CANN's set_env.sh was sourced."""
    name = "cann-environment"
    found = root_of()
    if found is None:
        return Check(name, "not applicable", "no CANN found")
    missing = [] if tools.folders(*ROOT_VARIABLES) else [ROOT_VARIABLES[0]]
    if not os.environ.get("ASCEND_OPP_PATH"):
        missing.append("ASCEND_OPP_PATH")
    search = [Path(folder).resolve() for folder in os.environ.get("LD_LIBRARY_PATH", "").split(":") if folder]
    if not any(found.resolve() in (folder, *folder.parents) for folder in search):
        missing.append("CANN's lib64 in LD_LIBRARY_PATH")
    if not missing:
        return Check(name, "ok", "set_env.sh was sourced")
    evidence = f"set_env.sh was not sourced: {', '.join(missing)} {'is' if len(missing) == 1 else 'are'} missing"
    return Check(name, _unless_loaded(scene), evidence, _sentence(sourcing(found)))


def _bisheng() -> Path | None:
    homes = tools.folders("BISHENG_HOME")
    return tools.find("bisheng", [home / "bin" / "bisheng" for home in homes])


def bisheng(scene: Scene) -> Check:
    """The compiler for Ascend kernels is found and runs."""
    name = "bisheng"
    found = _bisheng()
    if found is not None:
        remedy = f"Reinstall the CANN toolkit for this machine, or take this bisheng off PATH and {sourcing(root_of())}"
        return tools.checked(name, found, scene, remedy=remedy)
    cann = root_of()
    hidden = [path for part in COMPILER_FOLDERS if cann and (path := cann / part / "bin" / "bisheng").is_file()]
    if hidden:
        remedy = f"{_sentence(sourcing(cann))}, or set BISHENG_HOME={hidden[0].parent.parent}"
        return Check(name, "failed", f"{hidden[0]} is there, but neither in BISHENG_HOME/bin nor on PATH", remedy)
    evidence = "the compiler bisheng is neither in BISHENG_HOME/bin nor on PATH"
    return Check(name, "failed", evidence, f"It comes with the CANN toolkit: {_bringing(cann)}")


def _bringing(cann: Path | None) -> str:
    return f"{f'reinstall the toolkit in {cann} whole' if cann else 'install the toolkit'} and {sourcing(cann)}"


def ld_lld(scene: Scene) -> Check:
    """The linker for Ascend kernels is found and runs."""
    name = "ld-lld"
    homes = tools.folders("BISHENG_HOME", *ROOT_VARIABLES)
    beside = [home / part for home in homes for part in ("bin/ld.lld", "ld.lld")]
    compiler = _bisheng()
    if compiler is not None:
        beside.append(compiler.with_name("ld.lld"))
    found = tools.find("ld.lld", beside)
    if found is None:
        evidence = "the linker ld.lld is neither beside bisheng, nor in CANN's bin folder, nor on PATH"
        return Check(name, "failed", evidence, f"It comes with the CANN toolkit: {_bringing(root_of())}")
    remedy = f"Reinstall the CANN toolkit for this machine, then {sourcing(root_of())}"
    check = tools.checked(name, found, scene, remedy=remedy)
    if check.state != "ok" or found in beside:
        return check
    evidence = f"{check.evidence}, from PATH and not from CANN: a plain LLVM linker can't link Ascend kernels"
    remedy = f"To have CANN's own found first, {sourcing(root_of())}, or set BISHENG_HOME"
    return Check(name, "warning", evidence, remedy)


def pto_assembler(scene: Scene) -> Check:
    """The PTO assembler is found and runs."""
    name = "pto-assembler"
    homes = tools.folders("PTOAS_ROOT")
    # As the PTO tools do: a root that is set is the only place that is searched.
    inside = [home / part for home in homes for part in ("ptoas", "ptoas.sh", "bin/ptoas")]
    found = next((path for path in inside if path.is_file()), None) if homes else tools.find("ptoas", [])
    if found is not None:
        remedy = "Install the PTO assembler for this machine, and set PTOAS_ROOT to its folder"
        return tools.checked(name, found, scene, remedy=remedy)
    where = f"not in PTOAS_ROOT, {homes[0]}" if homes else "not on PATH, and PTOAS_ROOT is not set"
    remedy = "Install PTOAS and set PTOAS_ROOT to its folder, or set TILELANG_DEFAULT_TARGET=ascend, which needs none"
    return Check(name, "failed", f"the PTO assembler ptoas is {where}", remedy)
