"""The simulated NPU, each time in a process of its own: a process can't give back a backend."""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from tilevl.testing.require import skip_unless

_START = """\
import torch
from tilevl.testing.simulated_npu import simulated_npu
npu = simulated_npu()
"""

_CHECKS = {
    "tensors_travel_there_and_back_with_their_layout": """\
x = torch.randn(5, 7).to(torch.bfloat16)
there = x.to("npu")
assert there.device == torch.device("npu", 0) and there.is_contiguous() and torch.equal(there.cpu(), x)
view = there.t()[2:, 1:4]
assert (view.shape, view.stride(), view.storage_offset()) == ((5, 3), (1, 7), 9)
assert torch.equal(view.cpu(), x.t()[2:, 1:4])
turned = x.t().to("npu")
assert turned.stride() == (1, 7) and torch.equal(turned.cpu(), x.t())
empty = torch.empty(0, 4, dtype=torch.int64, device="npu")
assert empty.cpu().shape == (0, 4) and empty.dtype == torch.int64
assert torch.empty(3, 4, device="npu").shape == (3, 4)
""",
    "views_write_through_and_copies_do_not": """\
x = torch.arange(12.0).reshape(3, 4)
there = x.to("npu")
copy = there.clone()
views = there.view(-1), there.reshape(4, 3), there.detach(), there[1], there.unsqueeze(0), there.expand(2, 3, 4)
for view in views:
    assert view.device.type == "npu"
    assert view.untyped_storage()._cdata == there.untyped_storage()._cdata
there[1:, ::2].fill_(-1)
expected = x.clone()
expected[1:, ::2] = -1
assert torch.equal(there.cpu(), expected) and torch.equal(copy.cpu(), x)
there.view(-1)[3:5].copy_(torch.tensor([8.0, 9.0]))
assert there[0, 3].item() == 8 and there[1, 0].item() == 9
""",
    "other_operations_give_what_the_cpu_gives": """\
x, y = torch.randn(4, 6), torch.randn(4, 6)
a, b = x.to("npu"), y.to("npu")
for function in (torch.add, torch.maximum, lambda p, q: p @ q.t(), lambda p, q: torch.cat([p, q]), torch.eq):
    result = function(a, b)
    assert result.device.type == "npu" and torch.equal(result.cpu(), function(x, y))
a.mul_(2)
assert torch.equal(a.cpu(), x * 2) and torch.equal(a[a > 0].cpu(), (x * 2)[x > 0])
assert "npu:0" in repr(a) and bool((a == a).all())
""",
    "memory_goes_when_its_last_view_goes": """\
import gc
from tilevl.testing import simulated_memory as module
view = torch.zeros(100, device="npu")[10:20]
others = [torch.zeros(10, device="npu") for _ in range(20)]
del others
gc.collect()
torch.empty(1, device="npu")
assert len(module._memory) <= 3, len(module._memory)
assert not view.cpu().any()
""",
    "core_counts_are_those_of_the_chip": """\
properties = torch.npu.get_device_properties(0)
assert (properties.name, properties.cube_core_num, properties.vector_core_num) == ("Ascend950DT", 36, 72)
""",
    "a_second_call_returns_the_same_device": """\
assert simulated_npu() is npu and torch.npu is npu
""",
}

_RUN_CHECKS = """
import json, traceback
outcomes = {{}}
for name, check in {checks!r}.items():
    try:
        exec(check, dict(globals()))
        outcomes[name] = ""
    except Exception:
        outcomes[name] = traceback.format_exc()
print(json.dumps(outcomes))
"""

_KERNEL = """\
import torch
import tilelang.ascend.language as T


def build(rows, columns):
    @T.prim_func
    def scale(x: T.Tensor((rows, columns), "float32"), out: T.Tensor((rows, columns), "float32")):
        with T.Kernel(rows) as row:
            tile = T.alloc_shared((columns,), "float32")
            T.copy(x[row, 0], tile)
            with T.SimdVF():
                for i in T.Parallel(columns):
                    tile[i] = tile[i] * 3.0
            T.copy(tile, out[row, 0])

    kernel = torch.npu.compile(scale)
    return lambda x, out: kernel(rows, x=x, out=out)
"""


def _child(tmp_path: Path, script: str, start: str = _START) -> subprocess.CompletedProcess[str]:
    file = tmp_path / "child.py"
    file.write_text(start + textwrap.dedent(script), encoding="utf-8")
    return subprocess.run(
        [sys.executable, str(file)], capture_output=True, text=True, cwd=tmp_path, env=os.environ.copy()
    )


def _passes(tmp_path: Path, script: str) -> None:
    done = _child(tmp_path, script)
    assert done.returncode == 0, done.stderr


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """What went wrong in each of the checks, run one after the other in one child; empty where nothing did."""
    done = _child(tmp_path_factory.mktemp("checks"), _RUN_CHECKS.format(checks=_CHECKS))
    assert done.returncode == 0, done.stderr
    outcomes: dict[str, str] = json.loads(done.stdout)
    return outcomes


@pytest.mark.parametrize("check", _CHECKS)
def test_tensors(check: str, outcomes: dict[str, str]) -> None:
    assert not outcomes[check], outcomes[check]


@pytest.mark.parametrize("backend", ["", "eager", "aot_eager"])
def test_an_op_reaches_its_ascend_kernel_and_the_host_model(backend: str, tmp_path: Path) -> None:
    for name, found in (("tilelang", importlib.util.find_spec("tilelang")), ("g++", shutil.which("g++"))):
        skip_unless(found is not None, "ascend", f"the host model needs {name}")
    folder = tmp_path / "scale_op" / "kernels"
    folder.mkdir(parents=True)
    (folder / "__init__.py").touch()
    (folder.parent / "__init__.py").touch()
    (folder / "ascend.py").write_text(_KERNEL, encoding="utf-8")
    call = f"torch.compile(op, fullgraph=True, backend={backend!r})" if backend else "op"
    _passes(
        tmp_path,
        f"""
        from tilevl.core.registration import register
        op = register("scale_op", "scale_op(Tensor x) -> Tensor", version="1.0", check=lambda x: (x.shape, x.dtype),
                      check_data=lambda x: None, specialise=lambda x: tuple(x.shape))
        x = torch.randn(3, 128)
        result = {call}(x.to("npu"))
        assert result.device.type == "npu" and torch.equal(result.cpu(), x * 3)
        (launch,) = npu.launches
        assert launch.grid == 3 and launch.counters.bytes["gm_ub"] == x.nbytes == launch.counters.bytes["ub_gm"]
        """,
    )


def test_nothing_happens_by_import(tmp_path: Path) -> None:
    script = """
    import torch, tilevl.testing.simulated_npu
    assert torch._C._get_privateuse1_backend_name() == "privateuseone" and not hasattr(torch, "npu")
    """
    done = _child(tmp_path, script, start="")
    assert done.returncode == 0, done.stderr


def test_it_never_runs_beside_torch_npu(tmp_path: Path) -> None:
    (tmp_path / "torch_npu").mkdir()
    (tmp_path / "torch_npu" / "__init__.py").touch()
    done = _child(tmp_path, "")
    assert done.returncode != 0 and "must not run beside torch_npu" in done.stderr


def test_another_backend_is_left_alone(tmp_path: Path) -> None:
    start = _START.replace("npu =", "torch.utils.rename_privateuse1_backend('other')\nnpu =")
    done = _child(tmp_path, "", start)
    assert done.returncode != 0 and "got 'other' in it" in done.stderr
