"""The modelled times: what each pipe takes, what waits for what, and the two sets of rates."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from tilevl.testing import ascend_host
from tilevl.testing.ascend_host import ASCEND_950DT, DEAR_PIECES, FITTED, NAIVE, Rates

from .hand_written import flag, load, mixed_kernel, store, vector_kernel

_COPY = "__gm__ uint8_t* x, __gm__ uint8_t* y"
_SUM = """
__simd_vf__ inline void add_up(__ubuf__ float* from, __ubuf__ float* to, int32_t times) {
  vector_bool all = asc_create_mask_b32(PAT_ALL);
  auto sum = simd_inst::vlds_norm<float>(from, 0);
  auto one = sum;
  for (int32_t i = 0; i < times; ++i) sum = simd_inst::vadd(sum, one, all, MODE_ZEROING);
  simd_inst::vsts_norm(sum, to, 0, all);
}
"""
_PICK = """
__simd_vf__ inline void pick(__ubuf__ float* from, __ubuf__ float* to) {
  vector_bool all = asc_create_mask_b32(PAT_ALL);
  simd_inst::vsts_norm(simd_inst::vgather2(from, simd_inst::vci<uint32_t>((uint32_t)0, INC_ORDER), all), to, 0, all);
}
"""


def _copied(size: int, rates: Rates = NAIVE, path: str = "gm_ub") -> float:
    """Cycles of one contiguous copy."""
    return size / rates.widths[path] + rates.descriptor + rates.burst


def _bytes(rng: torch.Generator, size: int = 8192) -> dict[str, torch.Tensor]:
    return {
        "x": torch.randint(1, 256, (size,), generator=rng, dtype=torch.uint8),
        "y": torch.zeros(size, dtype=torch.uint8),
    }


def _cycles(counters: ascend_host.Counters, core: str = "vector0", rates: Rates = NAIVE) -> float:
    return max(counts.cycles[rates.name] for counts in counters.cores if counts.core == core)


@pytest.mark.parametrize("rates", [NAIVE, FITTED, DEAR_PIECES], ids=lambda rates: rates.name)
def test_what_waits_for_a_flag_comes_after_what_set_it(rates: Rates, rng: torch.Generator) -> None:
    kernel = vector_kernel(_COPY, f"{load('ub', 'x', 4096)}\n{flag('MTE2', 'MTE3')}\n{store('y', 'ub', 1024)}")
    expected = _copied(4096, rates) + rates.flag + _copied(1024, rates)
    assert _cycles(kernel(1, **_bytes(rng)), rates=rates) == pytest.approx(expected)


def test_pipes_that_wait_for_nothing_overlap(rng: torch.Generator) -> None:
    first = f"{load('ub', 'x', 1024)}\n{flag('MTE2', 'MTE3')}\n{store('y', 'ub', 1024)}"
    kernel = vector_kernel(_COPY, f"{first}\n{load('ub + 4096', 'x + 4096', 4096)}")
    counters = kernel(1, **_bytes(rng))
    assert _cycles(counters) == pytest.approx(_copied(1024) + max(_copied(1024), _copied(4096)))
    cost = counters.cost()
    assert cost.microseconds == cost.scheduled  # MTE2 never waits


def test_a_lock_keeps_two_pipes_apart_until_it_is_given_back(rng: torch.Generator) -> None:
    body = (
        f"asc_lock(PIPE_MTE2, 0); {load('ub', 'x', 4096)} asc_unlock(PIPE_MTE2, 0);\n"
        f"asc_lock(PIPE_MTE3, 0); {store('y', 'ub', 4096)} asc_unlock(PIPE_MTE3, 0);"
    )
    assert _cycles(vector_kernel(_COPY, body)(1, **_bytes(rng))) == pytest.approx(2 * _copied(4096))


def test_a_barrier_of_all_pipes_starts_everything_behind_the_slowest(rng: torch.Generator) -> None:
    body = f"{load('ub', 'x', 4096)}\nasc_sync();\n{store('y', 'ub', 2048)}"
    assert _cycles(vector_kernel(_COPY, body)(1, **_bytes(rng))) == pytest.approx(_copied(4096) + _copied(2048))


@pytest.mark.parametrize("rates", [NAIVE, FITTED, DEAR_PIECES], ids=lambda rates: rates.name)
def test_a_core_waits_for_the_later_of_two_arrivals_of_other_cores(rates: Rates, rng: torch.Generator) -> None:
    vector = (
        f"if (sid == 1) {{ {load('ub', 'x', 4096)} }} else {{ {load('ub', 'x', 256)} }}\n"
        "asc_sync_intra_arrive(PIPE_MTE2, 3);"
    )
    cube = (
        "asc_sync_intra_wait(PIPE_MTE2, 3); asc_sync_intra_wait(PIPE_MTE2, 19);\n"
        "asc_set_gm2l1_nz_para(1, 1, 16, 0);\n"
        "asc_copy_gm2l1_nd2nz((__cbuf__ half*)l1, (__gm__ half*)x, 64, static_cast<asc_load_l2_cache_mode>(0), "
        "16, 32, 0, 0);"
    )
    counters = mixed_kernel(_COPY, cube, vector)(1, **_bytes(rng))
    own = 16 * 64 / rates.widths["gm_l1"] + rates.descriptor + 16 * rates.burst
    assert _cycles(counters, "cube", rates) == pytest.approx(_copied(4096, rates) + rates.cross + own)
    assert _cycles(counters, "vector0", rates) == pytest.approx(_copied(256, rates))


@pytest.mark.parametrize("rates", [NAIVE, FITTED, DEAR_PIECES], ids=lambda rates: rates.name)
def test_vector_instructions_take_the_rate_of_their_kind(rates: Rates, rng: torch.Generator) -> None:
    ends = f"{load('ub', 'x', 256)}\n{flag('MTE2', 'V')}\n", f"\n{flag('V', 'MTE3')}\n{store('y', 'ub + 1024', 256)}"
    calls = (
        ("add_up((__ubuf__ float*)ub, (__ubuf__ float*)(ub + 1024), 100);", _SUM, 102 * rates.vector),
        ("pick((__ubuf__ float*)ub, (__ubuf__ float*)(ub + 1024));", _PICK, 2 * rates.vector + rates.gather),
    )
    for call, function, cycles in calls:
        counters = vector_kernel(_COPY, call.join(ends), function)(1, **_bytes(rng))
        assert counters.cost(rates=rates).pipes["V"] == pytest.approx(cycles / 1650)
        assert _cycles(counters, rates=rates) == pytest.approx(2 * (_copied(256, rates) + rates.flag) + cycles)


def test_reads_of_global_memory_by_the_body_hold_up_what_it_issues_later(rng: torch.Generator) -> None:
    kernel = vector_kernel("__gm__ int32_t* i, __gm__ uint8_t* x, __gm__ uint8_t* y", load("ub", "x + i[0]", 1024))
    counters = kernel(1, i=torch.tensor([512], dtype=torch.int32), **_bytes(rng))
    assert _cycles(counters) == pytest.approx(4 / NAIVE.widths["gm_scalar"] + _copied(1024))


def test_the_schedule_is_that_of_the_kernel_not_of_the_order_it_ran_in(rng: torch.Generator) -> None:
    parts = [
        f"{load(f'ub + {2048 * i}', f'x + {1024 * i}', 1024 - 256 * (i % 2))}\n{flag('MTE2', 'MTE3', i)}\n"
        f"{store(f'y + {1024 * i}', f'ub + {2048 * i}', 512)}"
        for i in range(5)
    ]
    kernel = vector_kernel(_COPY, "\n".join(parts))
    ways = [kernel, kernel.with_options(order="lazy")]
    ways += [kernel.with_options(order="random", seed=seed) for seed in range(4)]
    ends = {_cycles(way(1, **_bytes(rng))) for way in ways}
    assert len(ends) == 1
    assert ends.pop() > sum(_copied(1024 - 256 * (i % 2)) for i in range(5))


def test_blocks_of_one_core_follow_each_other_in_the_schedule(rng: torch.Generator) -> None:
    body = f"{load('ub', 'x', 256)}\n{flag('MTE2', 'MTE3')}\n{store('y + 64 * block_idx', 'ub', 64)}"
    kernel, given = vector_kernel(_COPY, body), _bytes(rng, 145 * 64)
    launch = ASCEND_950DT.launch_us
    once, thrice = (kernel(grid, **given).cost().scheduled - launch for grid in (72, 145))
    assert thrice == pytest.approx(3 * once)


def test_neither_time_is_below_what_global_memory_takes(rng: torch.Generator) -> None:
    kernel = vector_kernel(_COPY, f"{load('ub', 'x', 4096)}\n{flag('MTE2', 'MTE3')}\n{store('y', 'ub', 4096)}")
    slow = replace(ASCEND_950DT, memory_gb_per_s=0.001)
    cost = kernel(1, **_bytes(rng)).cost(slow)
    assert cost.binding == "global memory"
    assert cost.microseconds == cost.scheduled == pytest.approx(slow.launch_us + 8192 / 1.0)


def test_rates_that_no_launch_keeps_time_by_are_refused(rng: torch.Generator) -> None:
    counters = vector_kernel(_COPY, load("ub", "x", 256))(1, **_bytes(rng))
    with pytest.raises(ValueError, match="rates must be one of naive, fitted, fitted with dear pieces, got naive"):
        counters.cost(rates=replace(NAIVE, burst=3))


def test_each_count_has_a_rate_in_the_order_of_the_runtime() -> None:
    numbers = replace(NAIVE, vector=7, gather=11, matrix=13, burst=17, flag=19, cross=23).as_numbers()
    assert len(numbers) == 3 * 12 + 13 + 8 + 2 + 2
    assert numbers[36:50] == [7, 7, 11, 11, *[7] * 8, 0, 0]  # vector kinds, and SIMT launches
    assert numbers[-4:] == [0, 13, 19, 23]
    assert numbers[24:31] == [17, 17, 17, 0, 0, 0, 17]  # pieces inside a core are free
