// The control words of the vector API. They are objects of empty types, so that `if constexpr (mode == MODE_ZEROING)` works
// on a function's parameter.
#pragma once

namespace tilevl_host {

template <typename Kind, Kind Value>
struct tag {
  using kind = Kind;
  static constexpr Kind value = Value;
  constexpr operator Kind() const { return Value; }
};

template <typename Kind, Kind A, Kind B>
constexpr bool operator==(tag<Kind, A>, tag<Kind, B>) {
  return A == B;
}

enum class write_mode { zeroing, merging };
enum class round_tag { nearest_even, half_away, floor, ceil, zero, odd, hybrid };
enum class saturation { disable, enable };
enum class part { even, odd };
enum class quarter { p0, p1, p2, p3 };
enum class mask_pattern { all, none, vl1, vl2, vl3, vl4, vl8, vl16, vl32, vl64, vl128, half, quarter, every3, every4 };
enum class register_half { lower, higher };
enum class lane_position { lowest, highest };
enum class ramp_order { increasing, decreasing };
enum class histogram_bin { n0, n1 };
enum class pointer_update { none, post };
enum class dual_load { b8, b16, b32 };
enum class vector_barrier { vv_all, vst_vld, vld_vst, vst_vst, vs_all, vst_ld, vld_st, vst_st, sv_all, st_vld, ld_vst, st_vst };

template <auto Value>
using tag_of = tag<decltype(Value), Value>;

}  // namespace tilevl_host

#define TILEVL_HOST_TAG(NAME, VALUE) inline constexpr ::tilevl_host::tag_of<::tilevl_host::VALUE> NAME{};

TILEVL_HOST_TAG(MODE_ZEROING, write_mode::zeroing)
TILEVL_HOST_TAG(MODE_MERGING, write_mode::merging)

TILEVL_HOST_TAG(ROUND_R, round_tag::nearest_even)
TILEVL_HOST_TAG(ROUND_A, round_tag::half_away)
TILEVL_HOST_TAG(ROUND_F, round_tag::floor)
TILEVL_HOST_TAG(ROUND_C, round_tag::ceil)
TILEVL_HOST_TAG(ROUND_Z, round_tag::zero)
TILEVL_HOST_TAG(ROUND_O, round_tag::odd)
TILEVL_HOST_TAG(ROUND_H, round_tag::hybrid)

TILEVL_HOST_TAG(RS_DISABLE, saturation::disable)
TILEVL_HOST_TAG(RS_ENABLE, saturation::enable)

TILEVL_HOST_TAG(PART_EVEN, part::even)
TILEVL_HOST_TAG(PART_ODD, part::odd)
TILEVL_HOST_TAG(PART_P0, quarter::p0)
TILEVL_HOST_TAG(PART_P1, quarter::p1)
TILEVL_HOST_TAG(PART_P2, quarter::p2)
TILEVL_HOST_TAG(PART_P3, quarter::p3)

TILEVL_HOST_TAG(PAT_ALL, mask_pattern::all)
TILEVL_HOST_TAG(PAT_ALLF, mask_pattern::none)
TILEVL_HOST_TAG(PAT_VL1, mask_pattern::vl1)
TILEVL_HOST_TAG(PAT_VL2, mask_pattern::vl2)
TILEVL_HOST_TAG(PAT_VL3, mask_pattern::vl3)
TILEVL_HOST_TAG(PAT_VL4, mask_pattern::vl4)
TILEVL_HOST_TAG(PAT_VL8, mask_pattern::vl8)
TILEVL_HOST_TAG(PAT_VL16, mask_pattern::vl16)
TILEVL_HOST_TAG(PAT_VL32, mask_pattern::vl32)
TILEVL_HOST_TAG(PAT_VL64, mask_pattern::vl64)
TILEVL_HOST_TAG(PAT_VL128, mask_pattern::vl128)
TILEVL_HOST_TAG(PAT_H, mask_pattern::half)
TILEVL_HOST_TAG(PAT_Q, mask_pattern::quarter)
TILEVL_HOST_TAG(PAT_M3, mask_pattern::every3)
TILEVL_HOST_TAG(PAT_M4, mask_pattern::every4)

TILEVL_HOST_TAG(LOWER, register_half::lower)
TILEVL_HOST_TAG(HIGHER, register_half::higher)
TILEVL_HOST_TAG(POS_LOWEST, lane_position::lowest)
TILEVL_HOST_TAG(POS_HIGHEST, lane_position::highest)
TILEVL_HOST_TAG(INC_ORDER, ramp_order::increasing)
TILEVL_HOST_TAG(DEC_ORDER, ramp_order::decreasing)
TILEVL_HOST_TAG(Bin_N0, histogram_bin::n0)
TILEVL_HOST_TAG(Bin_N1, histogram_bin::n1)
TILEVL_HOST_TAG(NO_POST_UPDATE, pointer_update::none)
TILEVL_HOST_TAG(POST_UPDATE, pointer_update::post)
TILEVL_HOST_TAG(DINTLV_B8, dual_load::b8)
TILEVL_HOST_TAG(DINTLV_B16, dual_load::b16)
TILEVL_HOST_TAG(DINTLV_B32, dual_load::b32)

TILEVL_HOST_TAG(VV_ALL, vector_barrier::vv_all)
TILEVL_HOST_TAG(VST_VLD, vector_barrier::vst_vld)
TILEVL_HOST_TAG(VLD_VST, vector_barrier::vld_vst)
TILEVL_HOST_TAG(VST_VST, vector_barrier::vst_vst)
TILEVL_HOST_TAG(VS_ALL, vector_barrier::vs_all)
TILEVL_HOST_TAG(VST_LD, vector_barrier::vst_ld)
TILEVL_HOST_TAG(VLD_ST, vector_barrier::vld_st)
TILEVL_HOST_TAG(VST_ST, vector_barrier::vst_st)
TILEVL_HOST_TAG(SV_ALL, vector_barrier::sv_all)
TILEVL_HOST_TAG(ST_VLD, vector_barrier::st_vld)
TILEVL_HOST_TAG(LD_VST, vector_barrier::ld_vst)
TILEVL_HOST_TAG(ST_VST, vector_barrier::st_vst)

#undef TILEVL_HOST_TAG
