// Arithmetic and logic of whole registers. All of it zeroes inactive lanes.
#pragma once

#include "tilevl_host/counters.h"
#include "tilevl_host/lane_math.h"
#include "tilevl_host/lanes.h"

namespace tilevl_host {

// A scalar operand in the element's type: what the instruction's scalar register holds.
template <typename T, typename S>
[[gnu::always_inline]] inline T scalar_operand(S value) {
  return static_cast<T>(value);
}

}  // namespace tilevl_host

#define TILEVL_HOST_UNARY(NAME, KIND, FUNCTION)                                                                   \
  template <typename T>                                                                                           \
  inline void NAME(tilevl_host::vector_register<T>& dst, const tilevl_host::vector_register<T>& src,              \
                   const vector_bool& mask) {                                                                     \
    tilevl_host::count_vector(tilevl_host::Vector::KIND);                                                         \
    tilevl_host::map_zeroing(dst, mask, [&](int i) TILEVL_HOST_LANE { return tilevl_host::FUNCTION(src.lane[i]); }); \
  }
TILEVL_HOST_UNARY(asc_abs, arithmetic, lane_abs)
TILEVL_HOST_UNARY(asc_neg, arithmetic, lane_neg)
TILEVL_HOST_UNARY(asc_relu, arithmetic, lane_relu)
TILEVL_HOST_UNARY(asc_not, logic, lane_not)
TILEVL_HOST_UNARY(asc_exp, transcendental, lane_exp)
TILEVL_HOST_UNARY(asc_ln, transcendental, lane_ln)
TILEVL_HOST_UNARY(asc_sqrt, transcendental, lane_sqrt)
#undef TILEVL_HOST_UNARY

#define TILEVL_HOST_BINARY(NAME, KIND, FUNCTION)                                                                  \
  template <typename T>                                                                                           \
  inline void NAME(tilevl_host::vector_register<T>& dst, const tilevl_host::vector_register<T>& a,                \
                   const tilevl_host::vector_register<T>& b, const vector_bool& mask) {                           \
    tilevl_host::count_vector(tilevl_host::Vector::KIND);                                                         \
    tilevl_host::map_zeroing(                                                                                     \
        dst, mask, [&](int i) TILEVL_HOST_LANE { return tilevl_host::FUNCTION(a.lane[i], b.lane[i]); });          \
  }
TILEVL_HOST_BINARY(asc_add, arithmetic, lane_add)
TILEVL_HOST_BINARY(asc_sub, arithmetic, lane_sub)
TILEVL_HOST_BINARY(asc_mul, arithmetic, lane_mul)
TILEVL_HOST_BINARY(asc_div, transcendental, lane_div)
TILEVL_HOST_BINARY(asc_max, arithmetic, lane_max)
TILEVL_HOST_BINARY(asc_min, arithmetic, lane_min)
TILEVL_HOST_BINARY(asc_abs_sub, arithmetic, lane_abs_sub)
TILEVL_HOST_BINARY(asc_prelu, arithmetic, lane_prelu)
TILEVL_HOST_BINARY(asc_exp_sub, transcendental, lane_exp_sub)
TILEVL_HOST_BINARY(asc_and, logic, lane_and)
TILEVL_HOST_BINARY(asc_or, logic, lane_or)
TILEVL_HOST_BINARY(asc_xor, logic, lane_xor)
#undef TILEVL_HOST_BINARY

#define TILEVL_HOST_SCALAR(NAME, FUNCTION)                                                                        \
  template <typename T, typename S>                                                                               \
  inline void NAME(tilevl_host::vector_register<T>& dst, const tilevl_host::vector_register<T>& src, S scalar,    \
                   const vector_bool& mask) {                                                                     \
    tilevl_host::count_vector(tilevl_host::Vector::arithmetic);                                                   \
    const T value = tilevl_host::scalar_operand<T>(scalar);                                                       \
    tilevl_host::map_zeroing(                                                                                     \
        dst, mask, [&](int i) TILEVL_HOST_LANE { return tilevl_host::FUNCTION(src.lane[i], value); });            \
  }
TILEVL_HOST_SCALAR(asc_add_scalar, lane_add)
TILEVL_HOST_SCALAR(asc_mul_scalar, lane_mul)
TILEVL_HOST_SCALAR(asc_max_scalar, lane_max)
TILEVL_HOST_SCALAR(asc_min_scalar, lane_min)
TILEVL_HOST_SCALAR(asc_leakyrelu, lane_prelu)
#undef TILEVL_HOST_SCALAR

// Shift amounts are lanes of the same width, or one integer; of any signedness.
#define TILEVL_HOST_SHIFT(NAME, FUNCTION)                                                                         \
  template <typename T, typename A>                                                                               \
  inline void NAME(tilevl_host::vector_register<T>& dst, const tilevl_host::vector_register<T>& src,              \
                   const tilevl_host::vector_register<A>& amount, const vector_bool& mask) {                      \
    static_assert(sizeof(A) == sizeof(T), #NAME ": amounts must be as wide as the data");                         \
    tilevl_host::count_vector(tilevl_host::Vector::logic);                                                        \
    tilevl_host::map_zeroing(                                                                                     \
        dst, mask, [&](int i) TILEVL_HOST_LANE { return tilevl_host::FUNCTION(src.lane[i], amount.lane[i]); });   \
  }                                                                                                               \
  template <typename T, std::integral A>                                                                          \
  inline void NAME##_scalar(tilevl_host::vector_register<T>& dst, const tilevl_host::vector_register<T>& src,     \
                            A amount, const vector_bool& mask) {                                                  \
    tilevl_host::count_vector(tilevl_host::Vector::logic);                                                        \
    tilevl_host::map_zeroing(                                                                                     \
        dst, mask, [&](int i) TILEVL_HOST_LANE { return tilevl_host::FUNCTION(src.lane[i], amount); });           \
  }
TILEVL_HOST_SHIFT(asc_shiftleft, lane_shift_left)
TILEVL_HOST_SHIFT(asc_shiftright, lane_shift_right)
#undef TILEVL_HOST_SHIFT

// dst = src * scalar + dst.
template <typename T, typename S>
inline void asc_axpy(tilevl_host::vector_register<T>& dst, const tilevl_host::vector_register<T>& src, S scalar,
                     const vector_bool& mask) {
  tilevl_host::count_vector(tilevl_host::Vector::arithmetic);
  const T value = tilevl_host::scalar_operand<T>(scalar);
  tilevl_host::map_zeroing(
      dst, mask, [&](int i) TILEVL_HOST_LANE { return tilevl_host::lane_fma(src.lane[i], value, dst.lane[i]); });
}

// dst = dst * a + b.
template <typename T>
inline void asc_madd(tilevl_host::vector_register<T>& dst, const tilevl_host::vector_register<T>& a,
                     const tilevl_host::vector_register<T>& b, const vector_bool& mask) {
  tilevl_host::count_vector(tilevl_host::Vector::arithmetic);
  tilevl_host::map_zeroing(
      dst, mask, [&](int i) TILEVL_HOST_LANE { return tilevl_host::lane_fma(dst.lane[i], a.lane[i], b.lane[i]); });
}

// The 64-bit product of 32-bit lanes, in two registers.
template <typename T>
inline void asc_mull(tilevl_host::vector_register<T>& low, tilevl_host::vector_register<T>& high,
                     const tilevl_host::vector_register<T>& a, const tilevl_host::vector_register<T>& b,
                     const vector_bool& mask) {
  static_assert(std::is_integral_v<T> && sizeof(T) == 4, "asc_mull takes 32-bit integers");
  using Wide = std::conditional_t<std::is_signed_v<T>, int64_t, uint64_t>;
  tilevl_host::count_vector(tilevl_host::Vector::arithmetic);
  tilevl_host::vector_register<T> upper;
  tilevl_host::map_zeroing(upper, mask, [&](int i) TILEVL_HOST_LANE {
    return static_cast<T>(static_cast<Wide>(a.lane[i]) * static_cast<Wide>(b.lane[i]) >> 32);
  });
  tilevl_host::map_zeroing(low, mask, [&](int i) TILEVL_HOST_LANE { return tilevl_host::lane_mul(a.lane[i], b.lane[i]); });
  high = upper;
}

namespace tilevl_host {

// a + b + carry_in per lane, or a + ~b + carry_in, whose carry means "no borrow".
template <bool Subtract, typename CarryIn>
TILEVL_HOST_REGISTER_OP void add_with_carry(vector_bool& carry, vector_u32& dst, const vector_u32& a, const vector_u32& b,
                                            CarryIn carry_in, const vector_bool& mask) {
  vector_bool carries = vector_bool::none();
  vector_u32 result;
  for (int i = 0; i < result.lanes; ++i) {
    const uint64_t second = Subtract ? ~b.lane[i] : b.lane[i];
    const uint64_t sum = mask.active<uint32_t>(i) ? uint64_t{a.lane[i]} + second + carry_in(i) : 0;
    result.lane[i] = static_cast<uint32_t>(sum);
    carries.set_bit(4 * i, (sum >> 32) != 0);
  }
  dst = result;
  carry = carries;
}

}  // namespace tilevl_host

inline void asc_add(vector_bool& carry, vector_u32& dst, const vector_u32& a, const vector_u32& b, const vector_bool& mask) {
  tilevl_host::count_vector(tilevl_host::Vector::arithmetic);
  tilevl_host::add_with_carry<false>(carry, dst, a, b, [](int) TILEVL_HOST_LANE { return 0u; }, mask);
}
inline void asc_sub(vector_bool& carry, vector_u32& dst, const vector_u32& a, const vector_u32& b, const vector_bool& mask) {
  tilevl_host::count_vector(tilevl_host::Vector::arithmetic);
  tilevl_host::add_with_carry<true>(carry, dst, a, b, [](int) TILEVL_HOST_LANE { return 1u; }, mask);
}
inline void asc_addc(vector_bool& carry, vector_u32& dst, const vector_u32& a, const vector_u32& b, const vector_bool& carry_in,
                     const vector_bool& mask) {
  tilevl_host::count_vector(tilevl_host::Vector::arithmetic);
  tilevl_host::add_with_carry<false>(
      carry, dst, a, b, [carry_in](int i) TILEVL_HOST_LANE { return uint32_t{carry_in.active<uint32_t>(i)}; }, mask);
}
inline void asc_subc(vector_bool& carry, vector_u32& dst, const vector_u32& a, const vector_u32& b, const vector_bool& carry_in,
                     const vector_bool& mask) {
  tilevl_host::count_vector(tilevl_host::Vector::arithmetic);
  tilevl_host::add_with_carry<true>(
      carry, dst, a, b, [carry_in](int i) TILEVL_HOST_LANE { return uint32_t{carry_in.active<uint32_t>(i)}; }, mask);
}
