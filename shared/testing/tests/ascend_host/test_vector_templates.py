"""TileLang's own Ascend templates: each wrapper compiles against the model, and the scatter gives the stated layout."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from tilevl.testing import ascend_host

from .register_program import RegisterPrograms, require_tools

# The names of the vector and SIMT groups that TileLang can emit, and the compiler's own ones.
_NAMES = """
asc_mem_bar asc_syncthreads asc_threadfence asc_create_mask_b8 asc_create_mask_b16 asc_create_mask_b32
asc_update_mask_b8 asc_update_mask_b16 asc_update_mask_b32 asc_update_addr_reg_b8 asc_update_addr_reg_b16
asc_update_addr_reg_b32 asc_loadalign asc_loadalign_brc_elem asc_loadalign_brc_datablock
asc_loadalign_brc_elem2datablock asc_loadalign_upsample asc_loadalign_downsample asc_loadalign_unpack
asc_loadalign_unpack4 asc_loadalign_postupdate asc_loadalign_brc_elem_postupdate
asc_loadalign_brc_datablock_postupdate asc_loadalign_brc_elem2datablock_postupdate asc_loadalign_upsample_postupdate
asc_loadalign_downsample_postupdate asc_loadalign_unpack_postupdate asc_loadalign_unpack4_postupdate
asc_loadalign_deintlv asc_storealign asc_storealign_postupdate asc_storealign_1st asc_storealign_pack
asc_storealign_pack_quarter asc_storealign_intlv asc_gather asc_gather_datablock asc_scatter asc_select asc_intlv
asc_intlv_b8 asc_intlv_b16 asc_intlv_b32 asc_deintlv asc_deintlv_b8 asc_deintlv_b16 asc_deintlv_b32 asc_pack_to_low
asc_pack_to_high asc_unpack_lower asc_unpack_upper asc_squeeze asc_unsqueeze asc_add asc_sub asc_mul asc_div asc_max
asc_min asc_and asc_or asc_xor asc_not asc_shiftleft asc_shiftright asc_abs_sub asc_add_scalar asc_mul_scalar
asc_max_scalar asc_min_scalar asc_shiftleft_scalar asc_shiftright_scalar asc_addc asc_subc asc_mull asc_axpy asc_madd
asc_abs asc_neg asc_relu asc_exp asc_ln asc_sqrt asc_exp_sub asc_leakyrelu asc_prelu asc_eq asc_ne asc_gt asc_ge
asc_lt asc_le asc_eq_scalar asc_ne_scalar asc_gt_scalar asc_ge_scalar asc_lt_scalar asc_le_scalar
asc_frequency_histogram_bin0 asc_frequency_histogram_bin1 asc_cumulative_histogram_bin0 asc_cumulative_histogram_bin1
asc_reduce_sum asc_reduce_max asc_reduce_min asc_reduce_sum_datablock asc_reduce_max_datablock
asc_reduce_min_datablock asc_pair_reduce_sum asc_duplicate asc_duplicate_highest asc_duplicate_scalar asc_arange
asc_arange_descend asc_vf_call asc_shfl asc_shfl_xor asc_reduce_add asc_ballot asc_activemask asc_atomic_add
asc_atomic_max asc_atomic_min laneid vcvt vmula vmadd vadd vsub vmul vdiv vmax vmin vand vor vxor vshl vshr vabsdif
vadds vmuls vmaxs vmins vshls vshrs vabs vneg vrelu vnot vexp vln vsqrt vaxpy vdup vcadd vcmax vcmin
"""

_INTEGERS = ("int8_t", "uint8_t", "int16_t", "uint16_t", "int32_t", "uint32_t")
_FLOATS = ("half", "float")

# Wrappers that the other modules do not run, for every type that TileLang may pass.
_EVERY_TYPE = """
template <typename T> __simd_callee__ inline void any_type(__ubuf__ T* p, vector_bool m) {
  using namespace simd_inst;
  auto a = vlds_norm<T>(p, 0);
  a = vlds_norm_postupdate<T>(p, 1).v0;
  a = vlds_brc_elem<T>(p, 0);
  a = vlds_brc_datablock_postupdate<T>(p, 1).v0;
  auto both = vld_x2<T>(p, 4, DINTLV_B16);
  both = vld_x2<T>(p, asc_update_addr_reg_b16(3), DINTLV_B16);
  both = vintlv(both.v0, both.v1);
  both = vdintlv(both.v0, both.v1);
  a = vsel(both.v0, both.v1, m);
  a = vgatherb<T>(p, vector_u32{}, m);
  vsts_norm<T>(a, p, 0, m);
  vsts_1st<T>(a, p, 0, m);
  vsts_pack_b16<T>(a, p, 0, m);
  vsts_pack_b32<T>(a, p, 0, m);
  vsts_pack_quarter<T>(a, p, 0, m);
  vsstb<T>(a, p, 5, m);
  p = vsstb<T>(a, p, 5, m, POST_UPDATE);
}
template <typename T> __simd_callee__ inline void number(__ubuf__ T* p, vector_bool m) {
  using namespace simd_inst;
  auto a = vlds_norm<T>(p, 0), b = a;
  const T s = T(1);
#define BOTH(NAME, ...) a = NAME(__VA_ARGS__, m, MODE_ZEROING); NAME(a, __VA_ARGS__, m, MODE_MERGING); \\
  ::NAME(a, __VA_ARGS__, m, MODE_MERGING);
  BOTH(vadd, a, b) BOTH(vsub, a, b) BOTH(vmul, a, b) BOTH(vdiv, a, b) BOTH(vmax, a, b) BOTH(vmin, a, b)
  BOTH(vand, a, b) BOTH(vor, a, b) BOTH(vxor, a, b) BOTH(vabsdif, a, b) BOTH(vadds, a, s) BOTH(vmaxs, a, s)
  BOTH(vmins, a, s) BOTH(vmuls, a, s) BOTH(vabs, a) BOTH(vneg, a) BOTH(vnot, a) BOTH(vrelu, a)
  if constexpr (std::is_integral_v<T>) {
    BOTH(vshl, a, b) BOTH(vshr, a, b) BOTH(vshls, a, int16_t(3)) BOTH(vshrs, a, int16_t(3))
  } else {
    BOTH(vexp, a) BOTH(vln, a) BOTH(vsqrt, a)
    vaxpy(&a, b, s, m, MODE_ZEROING);
    vaxpy(a, b, s, m, MODE_MERGING);
    a = vlrelu(a, s, m);
    a = vprelu(a, b, m);
    a = vexpdif(a, b, m);
    a = vcpadd(a, m, MODE_ZEROING);
  }
  a = vdup<T>(s, m, MODE_ZEROING);
  vdup<T>(a, s, m, MODE_MERGING);
  vdupv(a, b, m, POS_HIGHEST, MODE_MERGING);
  vmula(&a, a, b, m, MODE_MERGING);
  vmadd(&a, a, b, m, MODE_ZEROING);
  auto wide = vcadd(a, m, MODE_ZEROING);
  vcadd(wide, a, m, MODE_MERGING);
  vcmax(a, a, m, MODE_MERGING);
  vcmin(a, a, m, MODE_MERGING);
  m = vcmp_eq(a, b, m);
  m = vcmps_le(a, s, m);
  a = vci<T>(s, INC_ORDER);
  vsts_norm<T>(a, p, 0, m);
}
__simd_callee__ inline void exact(vector_f32 f, vector_bool m) {
  using namespace simd_inst;
  vdiv_0ulp_ftz_true(f, f, f, m, MODE_MERGING);
  vexp_1ulp_ftz_false(f, f, m, MODE_MERGING);
  vln_1ulp_ftz_false(f, f, m, MODE_MERGING);
  vsqrt_0ulp_ftz_false(f, f, m, MODE_MERGING);
}
"""
_TYPES = (
    *_INTEGERS, *_FLOATS, "bfloat16_t", "int64_t", "uint64_t", "float8_e4m3_t", "float8_e5m2_t", "float8_e8m0_t",
    "float4_e2m1x2_t", "float4_e1m2x2_t",
)  # fmt: skip

_SCATTERS = {
    "float float": (16, 64, "float", "float", torch.float32, torch.float32),
    "half half": (16, 48, "half", "half", torch.float16, torch.float16),
    "float bf16": (16, 64, "float", "bfloat16_t", torch.float32, torch.bfloat16),
    "bf16 float": (16, 128, "bfloat16_t", "float", torch.bfloat16, torch.float32),
}


def _kernel(head: str, body: str, parameters: str) -> ascend_host.Kernel:
    require_tools()
    include = "#include <tl_templates/ascend/common.h>\n#include <tl_templates/ascend/nd2nz_copy.h>\n"
    return ascend_host.compile(
        f'{include}{head}\nextern "C" __global__ __vector__ void templates({parameters}) {{\n  asc_init();\n{body}}}\n'
    )


def test_every_name_that_tilelang_can_emit_is_there() -> None:
    uses = "".join(f"using ::{name};\n" for name in _NAMES.split() if name != "asc_vf_call")
    kernel = _kernel(f"#include <simt_api/asc_simt.h>\nnamespace names {{\n{uses}}}", "", "__gm__ float* x")
    kernel(1, x=torch.ones(1))


def test_every_wrapper_compiles_for_every_type() -> None:
    calls = "".join(f"  any_type((__ubuf__ {name}*)buf, m);\n" for name in _TYPES)
    calls += "".join(f"  number((__ubuf__ {name}*)buf, m);\n" for name in (*_INTEGERS, *_FLOATS))
    head = f"{_EVERY_TYPE}__simd_vf__ inline void all(__ubuf__ uint8_t* buf) {{\n  vector_bool m{{}};\n"
    head += f"{calls}  exact({{}}, m);\n}}"
    # Compiled, not run: nothing wrote the memory that it would read.
    _kernel(head, "  if (run) all((__ubuf__ uint8_t*)0);\n", "int32_t run")(1, run=0)


@pytest.mark.parametrize("label", _SCATTERS)
def test_the_scatter_template_gives_the_fractal_layout(label: str, rng: torch.Generator) -> None:
    rows, columns, source, target, given_dtype, dtype = _SCATTERS[label]
    column_bytes = 32 // dtype.itemsize
    size_in = rows * columns * given_dtype.itemsize
    size_out = (rows + 1) * columns * dtype.itemsize
    copy_in = f"1, {size_in}, 0, 0, 0, static_cast<asc_load_l2_cache_mode>(0), {size_in}, {size_in}"
    fill = f"1, {size_out}, 0, 0, 0, static_cast<asc_load_l2_cache_mode>(0), {size_out}, {size_out}"
    copy_out = f"1, {size_out}, static_cast<asc_store_l2_cache_mode>(4), {size_out}, {size_out}"
    body = f"""\
  __ubuf__ uint8_t *buf = (__ubuf__ uint8_t *)0;
  asc_copy_gm2ub_align(buf, (__gm__ uint8_t*)given, {copy_in});
  asc_copy_gm2ub_align(buf + 65536, (__gm__ uint8_t*)result, {fill});
  asc_sync_notify(PIPE_MTE2, PIPE_V, 0);
  asc_sync_wait(PIPE_MTE2, PIPE_V, 0);
  ascend_nd2nz_scatter<{rows}, {columns}, {source}, {target}>((__ubuf__ {source}*)buf,
                                                              (__ubuf__ {target}*)(buf + 65536));
  asc_sync_notify(PIPE_V, PIPE_MTE3, 0);
  asc_sync_wait(PIPE_V, PIPE_MTE3, 0);
  asc_copy_ub2gm_align((__gm__ uint8_t*)result, buf + 65536, {copy_out});
"""
    given = torch.randn(rows, columns, generator=rng).to(given_dtype)
    result = torch.full(((rows + 1) * columns,), 7.0, dtype=dtype)
    _kernel("", body, f"__gm__ {source}* given, __gm__ {target}* result")(1, given=given, result=result)
    fractal = given.to(dtype).view(rows, columns // column_bytes, column_bytes).transpose(0, 1)
    expected = torch.full((columns // column_bytes, rows + 1, column_bytes), 7.0, dtype=dtype)  # one pad row a column
    expected[:, :rows] = fractal
    assert torch.equal(result, expected.view(-1))


def test_the_single_register_interleaving_store_does_not_compile() -> None:
    with pytest.raises(ascend_host.CompilationError, match="asc_storealign_intlv"):
        _ = RegisterPrograms({"wrong": "simd_inst::vsts_intlv(A(float), STORED(float), 0, M);"}).kernel


def test_wrapper_masks_of_any_type_are_ordinary_masks() -> None:
    programs = RegisterPrograms({"mask": "P(simd_inst::reduction_result_mask<vector_bf16>(PAT_VL2));"})
    assert np.flatnonzero(programs.run("mask").p).tolist() == [0, 2]
