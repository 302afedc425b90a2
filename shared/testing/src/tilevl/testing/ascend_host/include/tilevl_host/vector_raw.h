// The compiler's own vector names, which generated code calls for merging writes: `::vadd(dst, a, b, mask, MODE_MERGING)`.
#pragma once

#include "tilevl_host/gather.h"
#include "tilevl_host/permute.h"
#include "tilevl_host/reduce.h"
#include "tilevl_host/vector_arithmetic.h"
#include "tilevl_host/vector_broadcast.h"

#define TILEVL_HOST_RAW_UNARY(NAME, FUNCTION)                                                                     \
  template <typename T, typename Mode>                                                                            \
  inline void NAME(tilevl_host::vector_register<T>& dst, const tilevl_host::vector_register<T>& src,              \
                   const vector_bool& mask, Mode mode) {                                                          \
    tilevl_host::with_mode(dst, mask, mode, [&](auto& out) { FUNCTION(out, src, mask); });                        \
  }
TILEVL_HOST_RAW_UNARY(vabs, asc_abs)
TILEVL_HOST_RAW_UNARY(vneg, asc_neg)
TILEVL_HOST_RAW_UNARY(vrelu, asc_relu)
TILEVL_HOST_RAW_UNARY(vnot, asc_not)
TILEVL_HOST_RAW_UNARY(vexp, asc_exp)
TILEVL_HOST_RAW_UNARY(vln, asc_ln)
TILEVL_HOST_RAW_UNARY(vsqrt, asc_sqrt)
#undef TILEVL_HOST_RAW_UNARY

#define TILEVL_HOST_RAW_BINARY(NAME, FUNCTION)                                                                    \
  template <typename T, typename B, typename Mode>                                                                \
  inline void NAME(tilevl_host::vector_register<T>& dst, const tilevl_host::vector_register<T>& a, const B& b,    \
                   const vector_bool& mask, Mode mode) {                                                          \
    tilevl_host::with_mode(dst, mask, mode, [&](auto& out) { FUNCTION(out, a, b, mask); });                       \
  }
TILEVL_HOST_RAW_BINARY(vadd, asc_add)
TILEVL_HOST_RAW_BINARY(vsub, asc_sub)
TILEVL_HOST_RAW_BINARY(vmul, asc_mul)
TILEVL_HOST_RAW_BINARY(vdiv, asc_div)
TILEVL_HOST_RAW_BINARY(vmax, asc_max)
TILEVL_HOST_RAW_BINARY(vmin, asc_min)
TILEVL_HOST_RAW_BINARY(vand, asc_and)
TILEVL_HOST_RAW_BINARY(vor, asc_or)
TILEVL_HOST_RAW_BINARY(vxor, asc_xor)
TILEVL_HOST_RAW_BINARY(vshl, asc_shiftleft)
TILEVL_HOST_RAW_BINARY(vshr, asc_shiftright)
TILEVL_HOST_RAW_BINARY(vabsdif, asc_abs_sub)
TILEVL_HOST_RAW_BINARY(vadds, asc_add_scalar)
TILEVL_HOST_RAW_BINARY(vmuls, asc_mul_scalar)
TILEVL_HOST_RAW_BINARY(vmaxs, asc_max_scalar)
TILEVL_HOST_RAW_BINARY(vmins, asc_min_scalar)
TILEVL_HOST_RAW_BINARY(vshls, asc_shiftleft_scalar)
TILEVL_HOST_RAW_BINARY(vshrs, asc_shiftright_scalar)
#undef TILEVL_HOST_RAW_BINARY

// Multiply and add, with one rounding unless an option says two: vmula dst += a * b, vmadd dst = dst * a + b.
template <typename T, typename Mode>
inline void vmula(tilevl_host::vector_register<T>& dst, const tilevl_host::vector_register<T>& a,
                  const tilevl_host::vector_register<T>& b, const vector_bool& mask, Mode mode) {
  tilevl_host::count_vector(tilevl_host::Vector::arithmetic);
  tilevl_host::with_mode(dst, mask, mode, [&](auto& out) {
    tilevl_host::map_zeroing(
        out, mask, [&](int i) TILEVL_HOST_LANE { return tilevl_host::lane_fma(a.lane[i], b.lane[i], out.lane[i]); });
  });
}
template <typename T, typename Mode>
inline void vmadd(tilevl_host::vector_register<T>& dst, const tilevl_host::vector_register<T>& a,
                  const tilevl_host::vector_register<T>& b, const vector_bool& mask, Mode mode) {
  tilevl_host::with_mode(dst, mask, mode, [&](auto& out) { asc_madd(out, a, b, mask); });
}
template <typename T, typename S, typename Mode>
inline void vaxpy(tilevl_host::vector_register<T>& dst, const tilevl_host::vector_register<T>& src, S scalar,
                  const vector_bool& mask, Mode mode) {
  tilevl_host::with_mode(dst, mask, mode, [&](auto& out) { asc_axpy(out, src, scalar, mask); });
}

template <typename T, typename S, typename Mode>
inline void vdup(tilevl_host::vector_register<T>& dst, S scalar, const vector_bool& mask, Mode mode) {
  tilevl_host::with_mode(dst, mask, mode, [&](auto& out) { asc_duplicate_scalar(out, scalar, mask); });
}
template <typename T, typename Position, typename Mode>
inline void vdup(tilevl_host::vector_register<T>& dst, const tilevl_host::vector_register<T>& src, const vector_bool& mask,
                 Position, Mode mode) {
  tilevl_host::with_mode(dst, mask, mode, [&](auto& out) {
    if constexpr (Position::value == tilevl_host::lane_position::lowest) asc_duplicate(out, src, mask);
    else asc_duplicate_highest(out, src, mask);
  });
}

namespace tilevl_host {

// A reduction's result occupies its first lanes; merging keeps the others.
template <int Lanes, typename T, typename Mode, typename F>
inline void with_result_lanes(vector_register<T>& dst, Mode, F reduction) {
  vector_register<T> result;
  reduction(result);
  if constexpr (Mode::value == write_mode::zeroing) {
    dst = result;
  } else {
    std::memcpy(&dst, &result, Lanes * sizeof(T));
  }
}

}  // namespace tilevl_host

template <typename Dst, typename T, typename Mode>
inline void vcadd(tilevl_host::vector_register<Dst>& dst, const tilevl_host::vector_register<T>& src, const vector_bool& mask,
                  Mode mode) {
  tilevl_host::with_result_lanes<1>(dst, mode, [&](auto& out) { asc_reduce_sum(out, src, mask); });
}
template <typename T, typename Mode>
inline void vcmax(tilevl_host::vector_register<T>& dst, const tilevl_host::vector_register<T>& src, const vector_bool& mask,
                  Mode mode) {
  tilevl_host::with_result_lanes<2>(dst, mode, [&](auto& out) { asc_reduce_max(out, src, mask); });
}
template <typename T, typename Mode>
inline void vcmin(tilevl_host::vector_register<T>& dst, const tilevl_host::vector_register<T>& src, const vector_bool& mask,
                  Mode mode) {
  tilevl_host::with_result_lanes<2>(dst, mode, [&](auto& out) { asc_reduce_min(out, src, mask); });
}
