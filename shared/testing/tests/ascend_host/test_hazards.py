"""Missing or wrong synchronisation is found, with the lines, and right synchronisation is not complained about."""

from __future__ import annotations

import pytest
import torch

from tilevl.testing import ascend_host

from .hand_written import cube_kernel, flag, load, mixed_kernel, store, vector_kernel

_COPY = "__gm__ uint8_t* x, __gm__ uint8_t* y"


def _faults(kernel: ascend_host.Kernel, grid: int = 1, **given: object) -> tuple[ascend_host.Fault, ...]:
    with pytest.raises(ascend_host.KernelFaultError) as caught:
        kernel(grid, **given)
    return caught.value.faults


def _pair(rng: torch.Generator, size: int = 256) -> dict[str, torch.Tensor]:
    return {
        "x": torch.randint(1, 256, (size,), generator=rng, dtype=torch.uint8),
        "y": torch.zeros(size, dtype=torch.uint8),
    }


def _line(kernel: ascend_host.Kernel, text: str) -> int:
    return next(number for number, line in enumerate(kernel.source.splitlines(), 1) if line.startswith(text))


def test_a_store_without_a_flag_after_the_load_is_a_hazard_with_both_lines(rng: torch.Generator) -> None:
    kernel = vector_kernel(_COPY, f"{load('ub', 'x', 256)}\n{store('y', 'ub', 256)}")
    given = _pair(rng)
    (fault,) = _faults(kernel, **given)
    assert fault.kind == "hazard"
    assert fault.lines == (_line(kernel, "asc_copy_gm2ub"), _line(kernel, "asc_copy_ub2gm"))
    assert "written by MTE2" in fault.message and "read by MTE3" in fault.message
    assert not given["y"].any()


def test_a_template_is_reported_at_the_line_that_calls_it(rng: torch.Generator) -> None:
    call = "ascend_nd2nz_scatter<16, 16, half, half>((__ubuf__ half*)ub, (__ubuf__ half*)(ub + 4096));"
    body = f"{load('ub', 'x', 512)}\n{flag('MTE2', 'V')}\n{call}\n{store('y', 'ub + 4096', 512)}"
    kernel = vector_kernel(_COPY, body, "#include <tl_templates/ascend/nd2nz_copy.h>")
    (fault,) = _faults(kernel, **_pair(rng, 512))
    assert fault.kind == "hazard"
    assert fault.lines == (_line(kernel, "ascend_nd2nz"), _line(kernel, "asc_copy_ub2gm"))


@pytest.mark.parametrize("order", ["eager", "lazy", "random"])
def test_a_load_over_bytes_that_are_still_being_stored_is_found_in_every_order(
    order: str, rng: torch.Generator
) -> None:
    body = f"{load('ub', 'x', 128)}\n{flag('MTE2', 'MTE3')}\n{store('y', 'ub', 128)}\n{load('ub', 'x + 128', 128)}"
    kernel = vector_kernel(_COPY, body).with_options(order=order)
    kinds = {fault.kind for fault in _faults(kernel, **_pair(rng))}
    assert kinds == {"hazard"}


def test_a_lazy_order_shows_the_wrong_value_that_a_missing_flag_gives(rng: torch.Generator) -> None:
    # The index is read before the load that brings it; only the unwritten bytes give it away in lazy order.
    body = f"""{load("ub", "x", 32)}
int32_t row = ((__ubuf__ int32_t*)ub)[0];
{load("ub + 64", "x + row", 32)}"""
    kernel = vector_kernel(_COPY, body)
    x = torch.zeros(256, dtype=torch.uint8)
    assert {fault.kind for fault in _faults(kernel, x=x, y=x)} == {"hazard"}
    assert {fault.kind for fault in _faults(kernel.with_options(order="lazy"), x=x, y=x)} == {"unwritten"}


def test_bytes_of_one_block_that_two_pipes_share_are_told_apart(rng: torch.Generator) -> None:
    # MTE3 reads the first 16 bytes while the scalar pipe writes the last 16: no conflict.
    copies = f"{load('ub', 'x', 32)}\n{flag('MTE2', 'MTE3')}\n{flag('MTE2', 'S')}\n{store('y', 'ub', 16)}"
    body = f"{copies}\n((__ubuf__ int32_t*)ub)[7] = 5;"
    vector_kernel(_COPY, body).in_every_order(1, **_pair(rng))


def test_scalar_writes_need_a_flag_before_a_pipe_reads_them(rng: torch.Generator) -> None:
    write = "for (int i = 0; i < 8; ++i) ((__ubuf__ int32_t*)ub)[i] = i;"
    assert {
        fault.kind for fault in _faults(vector_kernel(_COPY, f"{write}\n{store('y', 'ub', 32)}"), **_pair(rng))
    } == {"hazard"}
    given = _pair(rng)
    vector_kernel(_COPY, f"{write}\n{flag('S', 'MTE3')}\n{store('y', 'ub', 32)}").in_every_order(1, **given)
    assert given["y"][:32].view(torch.int32).tolist() == list(range(8))


@pytest.mark.parametrize("barrier", ["asc_sync();", "asc_sync_pipe(PIPE_ALL);"])
def test_a_full_barrier_orders_all_pipes(barrier: str, rng: torch.Generator) -> None:
    given = _pair(rng)
    vector_kernel(_COPY, f"{load('ub', 'x', 256)}\n{barrier}\n{store('y', 'ub', 256)}").in_every_order(1, **given)
    assert torch.equal(given["x"], given["y"])


def test_a_barrier_of_another_pipe_orders_nothing(rng: torch.Generator) -> None:
    kernel = vector_kernel(_COPY, f"{load('ub', 'x', 256)}\nasc_sync_pipe(PIPE_MTE2);\n{store('y', 'ub', 256)}")
    assert [fault.kind for fault in _faults(kernel, **_pair(rng))] == ["hazard"]


def test_locks_order_what_they_enclose(rng: torch.Generator) -> None:
    def locked(pipe: str, work: str) -> str:
        return f"asc_lock(PIPE_{pipe}, 3, ASC_LOCK_BLOCK);\n{work}\nasc_unlock(PIPE_{pipe}, 3, ASC_LOCK_BLOCK);\n"

    given = _pair(rng)
    body = "".join(
        locked("MTE2", load("ub", f"x + {at}", 64)) + locked("MTE3", store(f"y + {at}", "ub", 64))
        for at in (0, 64, 128)
    )
    vector_kernel(_COPY, body).in_every_order(1, seeds=6, **given)
    assert torch.equal(given["y"][:192], given["x"][:192])


@pytest.mark.parametrize(
    ("body", "text"),
    [
        ("asc_lock(PIPE_MTE2, 1);", "lock 1, taken by MTE2"),
        ("asc_unlock(PIPE_MTE2, 1);", "lock 1 given back by MTE2"),
        ("asc_lock(PIPE_MTE2, 1); asc_lock(PIPE_MTE3, 1);", "while MTE2 holds it"),
        ("asc_lock(PIPE_MTE2, 1, ASC_LOCK_NONBLOCK); asc_unlock(PIPE_MTE2, 1, ASC_LOCK_BLOCK);", "another mode"),
    ],
)
def test_unpaired_locks_are_found(body: str, text: str) -> None:
    (fault,) = _faults(vector_kernel("", body))
    assert fault.kind == "lock" and text in fault.message


def test_a_flag_left_set_is_reported_with_the_line_that_set_it() -> None:
    kernel = vector_kernel("", "asc_sync_notify(PIPE_MTE2, PIPE_V, 4);")
    (fault,) = _faults(kernel)
    assert (fault.kind, fault.lines) == ("flag", (_line(kernel, "asc_sync_notify"),))
    assert "MTE2->V 4" in fault.message and "still set at the end" in fault.message


def test_a_flag_set_twice_is_refused() -> None:
    kernel = vector_kernel("", "asc_sync_notify(PIPE_MTE2, PIPE_V, 4);\nasc_sync_notify(PIPE_MTE2, PIPE_V, 4);")
    (fault,) = _faults(kernel)
    assert fault.kind == "flag" and "still set since" in fault.message


def test_a_wait_for_a_flag_that_nobody_sets_is_a_deadlock_that_names_it(rng: torch.Generator) -> None:
    kernel = vector_kernel(
        _COPY, f"{load('ub', 'x', 256)}\nasc_sync_wait(PIPE_V, PIPE_MTE3, 2);\n{store('y', 'ub', 256)}"
    )
    (fault,) = _faults(kernel, **_pair(rng))
    assert fault.kind == "deadlock"
    assert "block 0, vector core 0: MTE3 waits for flag V->MTE3 2" in fault.message
    assert fault.lines == (_line(kernel, "asc_sync_wait"),)


def test_cores_that_wait_for_each_other_are_a_deadlock_that_names_both() -> None:
    cube = "asc_sync_intra_wait(PIPE_S, 1);\nasc_sync_intra_arrive(PIPE_S, 0);\nasc_sync_intra_arrive(PIPE_S, 16);"
    kernel = mixed_kernel("", cube, "asc_sync_intra_wait(PIPE_S, 0);\nasc_sync_intra_arrive(PIPE_S, 1);")
    (fault,) = _faults(kernel)
    assert fault.kind == "deadlock"
    for part in (
        "cube core: S waits for an arrival from vector core 0 at id 1",
        "vector core 1: S waits for an arrival from the cube core at id 0",
    ):
        assert part in fault.message


def test_an_arrival_that_nobody_waits_for_is_reported() -> None:
    (fault,) = _faults(mixed_kernel("", "asc_sync_intra_arrive(PIPE_FIX, 18);", ""))
    assert fault.kind == "flag" and "flag 2" in fault.message and "never waited for" in fault.message


def test_sixteen_arrivals_overflow_the_counter() -> None:
    kernel = mixed_kernel("", "for (int i = 0; i < 16; ++i) asc_sync_intra_arrive(PIPE_S, 2);", "")
    assert "holds no more" in _faults(kernel)[0].message


def test_both_vector_cores_reach_l1_and_the_cube_core_sees_it_only_after_a_flag(rng: torch.Generator) -> None:
    x, c = torch.randn(2, 16, 8, generator=rng), torch.zeros(32, 16)
    l2, modes = (
        "static_cast<asc_load_l2_cache_mode>(0)",
        "static_cast<asc_unit_flag_mode>(0), static_cast<asc_quant_mode>(0), static_cast<asc_relu_pre_mode>(0)",
    )
    cube = f"""asc_set_gm2l1_nz_para(1, 1, 16, 0);
asc_copy_gm2l1_nd2nz((__cbuf__ float*)(l1 + 4096), eye, 32, {l2}, 16, 8, 0, 0);
{flag("MTE2", "MTE1")}
{{waits}}
asc_copy_l12l0a((__ca__ float*)l0a, (__cbuf__ float*)l1, 0, 0, 2, 1, 2, 2);
asc_copy_l12l0b((__cb__ float*)l0b, (__cbuf__ float*)(l1 + 4096), 0, 0, 1, 1, 1, 1);
{flag("MTE1", "M")}
asc_mmad((__cc__ float*)l0c, (__ca__ float*)l0a, (__cb__ float*)l0b, 32, 8, 16, 0, 1, 0, 1);
{flag("M", "FIX")}
asc_set_l0c_copy_nz_para(1, 0, 0);
asc_copy_l0c2gm(c, (__cc__ float*)l0c, 16, 32, 16, 32, static_cast<asc_store_l2_cache_mode>(0), {modes}, 0, 1, 0, 0);"""
    vector = f"""{load("ub", "x + sid * 128", 512)}
{flag("MTE2", "MTE3")}
asc_copy_ub2l1(l1 + sid * 512, ub, 1, 16, 0, 0);
asc_sync_intra_arrive(PIPE_MTE3, 1);"""
    parameters = "__gm__ float* x, __gm__ float* eye, __gm__ float* c"
    given = {"x": x, "eye": torch.eye(16, 8), "c": c}
    waits = "asc_sync_intra_wait(PIPE_MTE1, 1);\nasc_sync_intra_wait(PIPE_MTE1, 17);"
    mixed_kernel(parameters, cube.format(waits=waits), vector).in_every_order(1, **given)
    assert torch.equal(c, torch.cat([x.reshape(32, 8), torch.zeros(32, 8)], dim=1))
    # Both waits come too late.
    late = f"{cube.format(waits='')}\n{waits.replace('MTE1', 'S')}"
    kinds = {fault.kind for fault in _faults(mixed_kernel(parameters, late, vector), **given)}
    assert kinds <= {"hazard", "unwritten"} and kinds


@pytest.mark.parametrize("mode", ["block", "subblock"])
def test_grouped_flags_wait_for_all_they_stand_for(mode: str) -> None:
    cube = "asc_sync_block_arrive(PIPE_S, 5);\nasc_sync_block_wait(PIPE_S, 5);\ny[0] = 7;" if mode == "block" else ""
    arrive, wait = f"asc_sync_{mode}_arrive(PIPE_S, 5);", f"asc_sync_{mode}_wait(PIPE_S, 5);"
    vector = f"{arrive}\n{wait}\ny[8 + sid * 8] = 1;"
    y = torch.zeros(32, dtype=torch.int32)
    mixed_kernel("__gm__ int32_t* y", cube, vector).in_every_order(1, seeds=5, y=y)
    assert y[8] == y[16] == 1 and y[0] == (7 if mode == "block" else 0)
    kernel = mixed_kernel("__gm__ int32_t* y", cube, vector.replace(arrive, f"if (sid == 0) {arrive}"))
    assert _faults(kernel, y=y)[0].kind == "deadlock"


def test_blocks_that_write_one_byte_race_and_disjoint_bytes_do_not() -> None:
    y = torch.zeros(64, dtype=torch.int32)
    faults = _faults(vector_kernel("__gm__ int32_t* y", "y[block_idx / 2] = 1;"), 4, y=y)
    assert {fault.kind for fault in faults} == {"race"}
    assert "written by block 0" in faults[0].message and "written by block 1" in faults[0].message
    vector_kernel("__gm__ int32_t* y", "y[block_idx] = block_idx;").in_every_order(64, y=y)
    assert y.tolist() == list(range(64))


def test_a_block_that_reads_what_another_writes_races_unless_a_barrier_orders_them() -> None:
    parameters, write, read = (
        "__gm__ int32_t* x, __gm__ int32_t* y",
        "x[block_idx] = block_idx + 1;",
        "y[block_idx] = x[(block_idx + 1) % 4];",
    )
    given = {"x": torch.zeros(4, dtype=torch.int32), "y": torch.zeros(4, dtype=torch.int32)}
    assert {fault.kind for fault in _faults(vector_kernel(parameters, f"{write}\n{read}"), 4, **given)} == {"race"}
    barrier = "asc_sync_inter_arrive(PIPE_S, 0);\nasc_sync_inter_wait(PIPE_S, 0);"
    kernel = vector_kernel(parameters, f"{write}\n{barrier}\n{read}")
    kernel.in_every_order(4, **given)
    assert given["y"].tolist() == [2, 3, 4, 1]
    given = {name: torch.zeros(100, dtype=torch.int32) for name in "xy"}
    assert "grid must be at most 72, got 100" in _faults(kernel, 100, **given)[0].message


def test_accumulating_stores_of_several_blocks_do_not_race(rng: torch.Generator) -> None:
    x, y = torch.randint(0, 99, (5, 64), generator=rng, dtype=torch.int32), torch.zeros(64, dtype=torch.int32)
    before = f"{load('ub', 'x + block_idx * 64', 256)}\n{flag('MTE2', 'MTE3')}"
    body = f"{before}\nasc_set_atomic_add_int32();\n{store('y', 'ub', 256)}"
    vector_kernel("__gm__ int32_t* x, __gm__ int32_t* y", body).in_every_order(5, x=x, y=y)
    assert torch.equal(y, x.sum(0, dtype=torch.int32))


def test_a_reload_of_stored_bytes_needs_a_flag(rng: torch.Generator) -> None:
    back = (
        f"{load('ub', 'x', 64)}\n{flag('MTE2', 'MTE3')}\n{store('y', 'ub', 64)}\n{{order}}\n{load('ub + 64', 'y', 64)}"
    )
    (fault,) = _faults(vector_kernel(_COPY, back.format(order="")), **_pair(rng))
    assert fault.kind == "hazard" and fault.message.startswith("y, bytes 0 to 32")
    vector_kernel(_COPY, back.format(order=flag("MTE3", "MTE2"))).in_every_order(1, **_pair(rng))


def test_pipes_of_the_other_kind_of_core_are_refused() -> None:
    assert (
        "pipe 1 does not exist on the cube core"
        in _faults(cube_kernel("", "asc_sync_notify(PIPE_V, PIPE_MTE2, 0);"))[0].message
    )
    assert (
        "asc_mmad: must run on a cube core"
        in _faults(
            vector_kernel("", "asc_mmad((__cc__ float*)0, (__ca__ half*)0, (__cb__ half*)0, 16, 16, 16, 0, 1, 0, 1);")
        )[0].message
    )
