"""What the model reads in generated AscendC source, and the two things it changes there."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

KernelKind = Literal["vector", "cube", "mixed"]

_KERNEL = re.compile(r'extern "C" __global__ (__vector__|__cube__|__mix__\(1, 2\)) void (\w+)\(([^)]*)\)\s*\{')
_KINDS: dict[str, KernelKind] = {"__vector__": "vector", "__cube__": "cube", "__mix__(1, 2)": "mixed"}
_SIMD_FUNCTION = re.compile(r"__simd_vf__\s+inline\s+void\s+(\w+)\s*\(")
_LAUNCH_BOUNDS = re.compile(r"__simt_vf__\s+__launch_bounds__\((\d+)\)\s+inline\s+void\s+(\w+)\s*\(")
_TEMPLATE_SIMD_FUNCTIONS = ("ascend_nd2nz_scatter",)  # in TileLang's nd2nz_copy.h
_ZERO_BASE = re.compile(r"(=\s*\((__ubuf__|__cbuf__|__ca__|__cb__|__cc__)\s+\w+\s*\*\))0(?=;)")
_SPACES = {"__ubuf__": "ub", "__cbuf__": "l1", "__ca__": "l0a", "__cb__": "l0b", "__cc__": "l0c"}


@dataclass(frozen=True)
class Parameter:
    """One parameter of a kernel.

    Attributes:
        name: by which a call passes it.
        type: the C type; of the elements, for a tensor.
        is_tensor: whether it is a pointer to global memory.
    """

    name: str
    type: str
    is_tensor: bool


@dataclass(frozen=True)
class Signature:
    """The kernel of a source: name, cores it runs on, parameters in the emitted order, and whether it has SIMT code."""

    name: str
    kind: KernelKind
    parameters: tuple[Parameter, ...]
    uses_simt: bool


def _parameter(text: str) -> Parameter:
    words = text.replace("*", " * ").replace("__restrict__", " ").split()
    is_tensor = "*" in words
    kept = [word for word in words if word not in ("__gm__", "*", "const")]
    if len(kept) < 2:
        raise ValueError(f"ascend_host: kernel parameter must be a type and a name, got {text!r}")
    return Parameter(name=kept[-1], type=" ".join(kept[:-1]), is_tensor=is_tensor)


def read_signature(source: str) -> Signature:
    """The kernel in a source.

    Raises:
        ValueError: the source has no kernel, or more than one.
    """
    found = list(_KERNEL.finditer(source))
    if len(found) != 1:
        raise ValueError(f"ascend_host: source must hold one kernel, got {len(found)}")
    kind, name, parameters = found[0].groups()
    return Signature(
        name=name,
        kind=_KINDS[kind],
        parameters=tuple(_parameter(part) for part in parameters.split(",") if part.strip()),
        uses_simt="asc_vf_call<" in source,
    )


def prepare(source: str, signature: Signature) -> str:
    """The source as it is compiled; every line keeps its number.

    A literal-zero scratch base becomes the window of the running core. A call of a SIMD function in the body of the
    kernel goes through ``SimdCall``, so that the function runs when the vector pipe gets there. Behind the kernel comes
    the entry, and what ``__launch_bounds__`` says about each SIMT function.
    """
    source = _ZERO_BASE.sub(lambda m: f"{m[1]}::tilevl_host::window(::tilevl_host::Space::{_SPACES[m[2]]})", source)
    match = _KERNEL.search(source)
    assert match is not None  # read_signature found it
    head, body = source[: match.end()], source[match.end() :]
    names = {*_SIMD_FUNCTION.findall(head), *_TEMPLATE_SIMD_FUNCTIONS}
    call = re.compile(rf"(?<!\w)((?:{'|'.join(map(re.escape, sorted(names)))})(?:<[^()]*>)?)\(")
    body = call.sub(r"::tilevl_host::SimdCall{[](auto... given) { \1(given...); }}(", body)
    bounds = "".join(f"TILEVL_HOST_LAUNCH_BOUND({name}, {count})\n" for count, name in _LAUNCH_BOUNDS.findall(head))
    return f'{head}{body}\n#include "tilevl_host/entry.h"\nTILEVL_HOST_ENTRY({signature.name})\n{bounds}'
