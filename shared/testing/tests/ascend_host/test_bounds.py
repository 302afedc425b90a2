"""Accesses outside a tensor or a memory, and reads of bytes that nothing wrote, are found before they happen."""

from __future__ import annotations

import pytest
import torch

from tilevl.testing import ascend_host

from .hand_written import flag, load, store, vector_kernel


def _fault(kernel: ascend_host.Kernel, **given: object) -> ascend_host.Fault:
    with pytest.raises(ascend_host.KernelFaultError) as caught:
        kernel(1, **given)
    return caught.value.faults[0]


def _simt(body: str) -> tuple[str, str]:
    """A SIMT function over x, y and UB, and the call of it with 32 threads."""
    parameters = "__ubuf__ uint8_t* ub, __gm__ float* x, __gm__ float* y"
    function = f"__simt_vf__ __launch_bounds__(32) inline void f({parameters}) {{\n{body}\n}}"
    return function, "asc_vf_call<f>(cce::dim3(32), ub, x, y);"


@pytest.mark.parametrize("row", [-1, 16, 4000, -(2**20)])
@pytest.mark.parametrize("way", ["copy", "scalar", "simt"])
def test_a_row_outside_the_tensor_is_a_fault_that_names_it(row: int, way: str) -> None:
    x, y = torch.ones(16, 8), torch.zeros(32, 8)
    function = ""
    if way == "copy":
        body = load("ub", "x + row * 8", 32)
    elif way == "scalar":
        body = "y[0] = x[row * 8];"
    else:
        function, body = _simt("y[(int)threadIdx.x] = x[(int)threadIdx.x + *(__ubuf__ int*)ub * 8];")
        body = f"*(__ubuf__ int*)ub = row;\n{flag('S', 'V')}\n{body}"
    kernel = vector_kernel("__gm__ float* x, __gm__ float* y, int32_t row", body, function)
    fault = _fault(kernel, x=x, y=y, row=row)
    assert fault.kind == "bounds"
    assert fault.message.startswith("x: bytes") and "but it holds 512" in fault.message
    assert len(fault.lines) == 1 and not y.any()


def test_a_wrong_stride_runs_out_of_the_tensor() -> None:
    rows = (
        "asc_copy_gm2ub_align(ub, (__gm__ uint8_t*)x, 4, 64, 0, 0, 0, static_cast<asc_load_l2_cache_mode>(0), {}, 64);"
    )
    x = torch.ones(4, 24)
    vector_kernel("__gm__ float* x", rows.format(96))(1, x=x)
    assert "bytes 324 to 388 read by MTE2" in _fault(vector_kernel("__gm__ float* x", rows.format(108)), x=x).message


@pytest.mark.parametrize("address", ["(__gm__ float*)0", "(__gm__ float*)64", "x + (1ll << 44)", "x - (1ll << 60)"])
def test_an_address_far_from_every_memory_ends_the_launch_and_not_the_process(address: str) -> None:
    kernel = vector_kernel("__gm__ float* x, __gm__ float* y", f"y[0] = *({address});")
    y = torch.zeros(1)
    assert _fault(kernel, x=torch.ones(4), y=y).kind == "bounds"
    assert not y.any()


def test_a_stack_that_a_function_outgrows_ends_the_launch() -> None:
    function, call = _simt("volatile char big[1 << 20];\nbig[0] = 1;\ny[0] = big[0];")
    kernel = vector_kernel("__gm__ float* x, __gm__ float* y", call.replace("dim3(32)", "dim3(1)"), function)
    assert _fault(kernel, x=torch.ones(4), y=torch.zeros(4)).kind == "bounds"


def test_a_write_behind_a_tensor_touches_nothing() -> None:
    backing = torch.zeros(64)
    kernel = vector_kernel("__gm__ float* y", "for (int i = 0; i < 8; ++i) y[i] = 1;\ny[8] = 1;")
    assert _fault(kernel, y=backing[16:24]).kind == "bounds"
    assert not backing.any()
    vector_kernel("__gm__ float* y", "for (int i = 0; i < 8; ++i) y[i] = i + 1;")(1, y=backing[16:24])
    assert backing.nonzero().flatten().tolist() == list(range(16, 24))


def test_views_of_one_storage_share_memory() -> None:
    backing = torch.arange(32.0)
    kernel = vector_kernel("__gm__ float* x, __gm__ float* y, int32_t i", "y[0] = 99;\ny[1] = x[i];")
    kernel(1, x=backing[:8], y=backing[4:12], i=4)
    assert backing[4] == backing[5] == 99
    assert _fault(kernel, x=backing[:8], y=backing[4:12], i=12).kind == "bounds"


def test_strided_and_expanded_tensors_keep_their_layout() -> None:
    backing = torch.arange(40.0).reshape(5, 8)
    y = torch.zeros(2)
    kernel = vector_kernel("__gm__ float* x, __gm__ float* y, int32_t i", "y[0] = x[i];\ny[1] = x[0];")
    kernel(1, x=backing[1:, 2:4], y=y, i=8)
    assert y.tolist() == [backing[2, 2], backing[1, 2]]
    kernel(1, x=torch.tensor([5.0]).expand(7), y=y, i=0)
    assert y.tolist() == [5, 5]
    assert _fault(kernel, x=torch.tensor([5.0]).expand(7), y=y, i=1).kind == "bounds"


@pytest.mark.parametrize("way", ["copy", "scalar", "simt"])
def test_reading_scratch_that_nothing_wrote_is_a_fault(way: str) -> None:
    function, call = _simt("y[(int)threadIdx.x] = ((__ubuf__ float*)ub)[(int)threadIdx.x + 64];")
    body = {"copy": store("y", "ub + 256", 64), "scalar": "y[0] = ((__ubuf__ float*)ub)[64];", "simt": call}[way]
    kernel = vector_kernel("__gm__ float* x, __gm__ float* y", f"{load('ub', 'x', 256)}\nasc_sync();\n{body}", function)
    fault = _fault(kernel, x=torch.ones(64), y=torch.zeros(64))
    assert fault.kind == "unwritten" and "byte 256" in fault.message and len(fault.lines) == 1


def test_scratch_of_an_earlier_block_is_not_there_for_the_next() -> None:
    kernel = vector_kernel(
        "__gm__ float* x, __gm__ float* y",
        f"if (block_idx == 0) {load('ub', 'x', 64)}\nasc_sync();\n{store('y + 16 * block_idx', 'ub', 64)}",
    )
    kernel(1, x=torch.ones(16), y=torch.zeros(32))
    with pytest.raises(ascend_host.KernelFaultError, match="nothing wrote it in this block"):
        kernel(2, x=torch.ones(16), y=torch.zeros(32))


def test_vector_reads_of_an_unwritten_tail_can_be_allowed() -> None:
    function, call = _simt(
        "float v = ((__ubuf__ float*)ub)[(int)threadIdx.x];\nif (threadIdx.x < 8) y[(int)threadIdx.x] = v;"
    )
    kernel = vector_kernel("__gm__ float* x, __gm__ float* y", f"{load('ub', 'x', 32)}\nasc_sync();\n{call}", function)
    x, y = torch.arange(8.0), torch.zeros(8)
    assert _fault(kernel, x=x, y=y).kind == "unwritten"
    kernel.with_options(unwritten_vector_reads="allow")(1, x=x, y=y)
    assert torch.equal(x, y)


@pytest.mark.parametrize(("simt", "limit"), [(False, 248 * 1024), (True, 216 * 1024)])
def test_ub_ends_where_the_chip_ends_it(simt: bool, limit: int) -> None:
    function, call = _simt("") if simt else ("", "")
    for at, fits in ((limit - 32, True), (limit, False)):
        kernel = vector_kernel("__gm__ float* x, __gm__ float* y", f"{load(f'ub + {at}', 'x', 32)}\n{call}", function)
        if fits:
            kernel(1, x=torch.ones(8), y=torch.ones(8))
        else:
            assert f"but it holds {limit}" in _fault(kernel, x=torch.ones(8), y=torch.ones(8)).message


def test_a_misaligned_simt_access_is_a_fault() -> None:
    function, call = _simt("*(__gm__ double*)(y + 1) = 1.0;")
    kernel = vector_kernel("__gm__ float* x, __gm__ float* y", call, function)
    fault = _fault(kernel, x=torch.ones(8), y=torch.zeros(8))
    assert fault.kind == "alignment" and "4 bytes off" in fault.message


def test_what_a_fault_stops_leaves_every_tensor_as_it_was() -> None:
    kernel = vector_kernel("__gm__ float* y, int32_t i", "for (int j = 0; j < 8; ++j) y[j] = 1;\ny[i] = 1;")
    y = torch.zeros(8)
    assert _fault(kernel, y=y, i=8).kind == "bounds"
    assert not y.any()
    kernel(1, y=y, i=7)
    assert (y == 1).all()


@pytest.mark.parametrize(
    ("rule", "written", "faults"),
    [("untouched", 32, False), ("untouched", 0, True), ("fault", 32, True), ("allow", 0, False)],
)
def test_a_register_load_may_reach_behind_what_was_written(rule: str, written: int, faults: bool) -> None:
    function = "__simd_vf__ inline void f(__ubuf__ float* a) {\n  vector_f32 v;\n  asc_loadalign(v, a, 0);\n}"
    kernel = vector_kernel(
        "__gm__ float* x", f"if ({written}) {load('ub', 'x', 32)}\nasc_sync();\nf((__ubuf__ float*)ub);", function
    )
    kernel = kernel.with_options(unwritten_vector_reads=rule)
    if faults:
        assert _fault(kernel, x=torch.ones(8)).kind == "unwritten"
    else:
        kernel(1, x=torch.ones(8))
