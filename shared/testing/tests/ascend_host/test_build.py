"""From a source to a kernel: signatures, what is rewritten, the cache, and what is refused."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import uuid
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch

from tilevl.testing import ascend_host
from tilevl.testing.ascend_host import compiler, source

from .hand_written import flag, load, require_model, store, vector_kernel

_SOURCE = """\
__simd_vf__ inline void twice(__ubuf__ float* a) {
}
extern "C" __global__ __mix__(1, 2) void k(__gm__ const float* Mm, __gm__ bfloat16_t* aa, int32_t n, float x) {
  __ubuf__ half *a = (__ubuf__ half *)0;
  __cbuf__ uint8_t *b = (__cbuf__ uint8_t *)0;
  twice(c + 1);
  ascend_nd2nz_scatter<64, 128, float, bfloat16_t>(p, q);
  other_twice(0);
  int32_t zero = (int32_t)0;
}
"""


def test_a_signature_is_read_in_its_emitted_order() -> None:
    signature = source.read_signature(_SOURCE)
    assert (signature.name, signature.kind, signature.uses_simt) == ("k", "mixed", False)
    assert signature.parameters == (
        source.Parameter("Mm", "float", True),
        source.Parameter("aa", "bfloat16_t", True),
        source.Parameter("n", "int32_t", False),
        source.Parameter("x", "float", False),
    )


def test_only_zero_bases_and_simd_calls_of_the_body_are_rewritten() -> None:
    text = _SOURCE
    changed = source.prepare(text, source.read_signature(text)).splitlines()
    lines = text.splitlines()
    assert [number for number, (old, new) in enumerate(zip(lines, changed, strict=False), 1) if old != new] == [
        4,
        5,
        6,
        7,
    ]
    assert changed[3] == "  __ubuf__ half *a = (__ubuf__ half *)::tilevl_host::window(::tilevl_host::Space::ub);"
    assert changed[5].endswith("{ twice(given...); }}(c + 1);")
    assert "ascend_nd2nz_scatter<64, 128, float, bfloat16_t>(given...); }}(p, q);" in changed[6]


@pytest.mark.parametrize("text", ["", _SOURCE * 2])
def test_a_source_must_hold_one_kernel(text: str) -> None:
    with pytest.raises(ValueError, match="must hold one kernel, got"):
        ascend_host.compile(text)


def test_the_first_errors_of_the_compiler_are_shown() -> None:
    with pytest.raises(ascend_host.CompilationError, match=r"kernel\.cpp:\d+:\d+: error: .*no_such_call"):
        vector_kernel("", "no_such_call();")


def test_a_missing_compiler_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    compiler.compiler.cache_clear()
    monkeypatch.setenv("PATH", os.devnull)
    try:
        with pytest.raises(ascend_host.CompilerMissingError, match=r"needs g\+\+"):
            compiler.compiler()
    finally:
        compiler.compiler.cache_clear()


def test_one_source_is_built_once(monkeypatch: pytest.MonkeyPatch) -> None:
    first = vector_kernel("__gm__ int32_t* y", "y[0] = 1;")
    monkeypatch.setattr(compiler, "_run", lambda *_: pytest.fail("compiled again"))
    assert vector_kernel("__gm__ int32_t* y", "y[0] = 1;").library.path == first.library.path


def test_processes_that_build_at_once_leave_one_whole_library() -> None:
    require_model()
    name = f"k_{uuid.uuid4().hex}"
    kernel = f'extern "C" __global__ __vector__ void {name}(__gm__ int32_t* y) {{ asc_init(); y[0] = 41; }}'
    script = (
        "import torch\nfrom tilevl.testing import ascend_host\n"
        f"y = torch.zeros(1, dtype=torch.int32)\nascend_host.compile({kernel!r})(1, y=y)\nassert y.item() == 41\n"
    )

    def run() -> subprocess.CompletedProcess[str]:
        return subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)

    with ThreadPoolExecutor(2) as pool:
        for done in pool.map(lambda _: run(), range(2)):
            assert done.returncode == 0, done.stderr
    folder = ascend_host.compile(kernel).library.path.parent
    assert sorted(path.name for path in folder.iterdir()) == ["contents.json", "kernel.cpp", "kernel.so"]
    assert not list(folder.parent.glob(f".{folder.name}-*"))


def test_a_kernel_can_be_called_from_threads() -> None:
    kernel = vector_kernel("__gm__ int32_t* y, int32_t n", "y[block_idx] = n + block_idx;")
    with ThreadPoolExecutor(4) as pool:
        outs = [torch.zeros(8, dtype=torch.int32) for _ in range(16)]
        list(pool.map(lambda n: kernel(8, y=outs[n], n=100 * n), range(16)))
    for n, out in enumerate(outs):
        assert out.tolist() == list(range(100 * n, 100 * n + 8))


@pytest.mark.parametrize(
    ("given", "error", "text"),
    [
        ({"y": torch.zeros(4)}, TypeError, "missing ['n']"),
        ({"y": torch.zeros(4), "n": 1, "z": 2}, TypeError, "unknown ['z']"),
        (
            {"y": torch.zeros(4, dtype=torch.int32), "n": 1},
            TypeError,
            "y must be of dtype torch.float32, got torch.int32",
        ),
        ({"y": 3, "n": 1}, TypeError, "y must be a tensor, got int"),
        ({"y": torch.zeros(4), "n": torch.zeros(1)}, TypeError, "n must be a number, got Tensor"),
        ({"y": torch.zeros(4), "n": 2**31}, ValueError, "n must fit int32_t"),
        ({"y": torch.zeros(4, device="meta"), "n": 1}, ValueError, "must be a strided tensor on the CPU"),
    ],
)
def test_wrong_calls_are_refused(given: dict[str, object], error: type[Exception], text: str) -> None:
    kernel = vector_kernel("__gm__ float* y, int32_t n", "y[0] = n;")
    with pytest.raises(error) as caught:
        kernel(1, **given)
    assert text in str(caught.value) and "argument" not in str(caught.value)


def test_bool_tensors_are_bytes() -> None:
    x, y = torch.tensor([True, False, True]), torch.zeros(3, dtype=torch.bool)
    vector_kernel("__gm__ int8_t* x, __gm__ int8_t* y", "for (int i = 0; i < 3; ++i) y[i] = !x[i];")(1, x=x, y=y)
    assert torch.equal(y, ~x)


@pytest.mark.parametrize("grid", [0, -1, 65536])
def test_a_grid_out_of_range_is_refused(grid: int) -> None:
    with pytest.raises(ValueError, match="grid must be 1 to 65535"):
        vector_kernel("__gm__ float* y", "y[0] = 1;")(grid, y=torch.zeros(4))


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"order": "fast"}, "order must be one of eager"),
        ({"speed": "high"}, "option must be one of"),
        ({"row_tail": "one"}, "row_tail must be one of keep, zero"),
    ],
)
def test_unknown_options_are_refused(options: dict[str, str], text: str) -> None:
    with pytest.raises(ValueError, match=text):
        vector_kernel("__gm__ float* y", "y[0] = 1;").with_options(**options)


def test_a_kernel_runs_where_addr2line_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = vector_kernel("__gm__ int32_t* y", "y[9] = 1;")
    found = shutil.which
    monkeypatch.setattr(shutil, "which", lambda name: None if name == "addr2line" else found(name))
    with pytest.raises(ascend_host.KernelFaultError, match="at an unknown line, but it holds 16"):
        kernel(1, y=torch.zeros(4, dtype=torch.int32))


def test_counts_and_their_cost() -> None:
    body = (
        f"{load('ub', 'x', 4096)}\n{flag('MTE2', 'MTE3')}\n{store('y', 'ub', 1024)}\nif (block_idx == 1) y[300] = x[5];"
    )
    x, y = torch.randn(1024), torch.zeros(512)
    kernel = vector_kernel("__gm__ float* x, __gm__ float* y", body)
    with pytest.raises(ascend_host.KernelFaultError, match=r"\[race\].*written by block"):
        kernel(3, x=x, y=y)
    counters = kernel(1, x=x, y=y)
    assert (counters.bytes["gm_ub"], counters.bytes["ub_gm"], counters.global_bytes) == (4096, 1024, 5120)
    assert (counters.descriptors["gm_ub"], counters.bursts["ub_gm"]) == (1, 1)
    cost = counters.cost()
    assert cost.binding == "MTE2" and "by the model, not measured" in str(cost)
    chip, rates = ascend_host.ASCEND_950DT, ascend_host.NAIVE
    cycles = 4096 / rates.widths["gm_ub"] + rates.descriptor + rates.burst
    assert cost.microseconds == pytest.approx(chip.launch_us + cycles / 1650)


def test_blocks_beyond_the_cores_take_turns() -> None:
    body = f"{load('ub', 'x', 4096)}\n{flag('MTE2', 'MTE3')}\n{store('y + 256 * block_idx', 'ub', 1024)}"
    kernel = vector_kernel("__gm__ float* x, __gm__ float* y", body)
    x, y = torch.randn(1024), torch.zeros(145, 256)
    chip = ascend_host.ASCEND_950DT
    once, thrice = (kernel(grid, x=x, y=y[:grid]).cost(chip).pipes["MTE2"] for grid in (72, 145))
    assert thrice == pytest.approx(3 * once)
