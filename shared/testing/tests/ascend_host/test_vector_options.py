"""The open questions of the vector core: one list in C++, Python and the documentation."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
import torch

from tilevl.testing import ascend_host
from tilevl.testing.ascend_host.vector_options import VECTOR_OPTIONS

from .register_program import require_tools
from .simt_program import SimtPrograms

_FOLDER = Path(ascend_host.__file__).parent

_MIXED = """\
#include <tl_templates/ascend/common.h>
__simt_vf__ __launch_bounds__(1) inline void place(__gm__ int32_t* out) {
  out[2 * block_idx + (int32_t)asc_get_sub_block_id()] = (int32_t)blockIdx.x;
}
extern "C" __global__ __mix__(1, 2) void mixed(__gm__ int32_t* out) {
  asc_init();
  if ASC_IS_AIV {
    asc_vf_call<place>(cce::dim3(1), out);
  }
}
"""


def test_the_header_has_the_same_options_and_defaults() -> None:
    header = (_FOLDER / "include" / "tilevl_host" / "vector_options.h").read_text()
    listed = {name: int(default) for name, default in re.findall(r"^  X\((\w+), (\d)\)", header, re.MULTILINE)}
    assert listed == {name: choice.words.index(choice.default) for name, choice in VECTOR_OPTIONS.items()}


def test_the_documentation_has_the_same_options() -> None:
    table = (_FOLDER / "DESIGN.md").read_text()
    for name, choice in VECTOR_OPTIONS.items():
        values = ", ".join(f"**{word}**" if word == choice.default else word for word in choice.words)
        assert f"| `{name}` | {values} | {choice.meaning} |" in table


@pytest.mark.parametrize("name", VECTOR_OPTIONS)
def test_every_value_reaches_the_library(name: str) -> None:
    programs = SimtPrograms({"nothing": "OUT(int32_t)[THREAD] = 1;"})
    for word in VECTOR_OPTIONS[name].words:
        assert (programs.run("nothing", **{name: word})[:64] == 1).all()
    with pytest.raises(ValueError, match=f"option {name} must be one of"):
        programs.run("nothing", **{name: "maybe"})


@pytest.mark.parametrize(("choice", "expected"), [("no", [0, 0, 1, 1]), ("yes", [0, 1, 2, 3])])
def test_the_block_index_of_threads_in_a_mixed_kernel_is_an_option(choice: str, expected: list[int]) -> None:
    require_tools()
    out = torch.full((4,), -1, dtype=torch.int32)
    kernel = ascend_host.compile(_MIXED).with_options(simt_block_index_counts_vector_cores=choice)
    kernel(2, out=out)
    assert out.tolist() == expected


def test_a_fault_does_not_leave_subnormals_flushed() -> None:
    programs = SimtPrograms({"out_of_ub": "OUT(int32_t)[THREAD] = IN(int32_t)[60000 + THREAD];"})
    with pytest.raises(ascend_host.KernelFaultError):
        programs.run("out_of_ub", simt_flush_subnormals="yes")
    assert np.float32(1e-38) / np.float32(10) > 0
