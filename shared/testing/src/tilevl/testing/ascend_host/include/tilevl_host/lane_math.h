// What one lane of an arithmetic instruction computes.
#pragma once

#include "tilevl_host/faults.h"
#include "tilevl_host/registers.h"
#include "tilevl_host/vector_options.h"

namespace tilevl_host {

template <typename T>
inline constexpr bool is_float16 = std::is_same_v<T, half> || std::is_same_v<T, bfloat16_t>;
template <typename T>
inline constexpr bool is_floating = std::is_same_v<T, float> || is_float16<T>;

// Integers wrap, so they are computed unsigned; 8- and 16-bit ones are promoted to int by C++ first, which is why they are cast
// back.
template <typename T>
using wrapping = std::conditional_t<is_floating<T>, T, std::make_unsigned_t<std::conditional_t<is_floating<T>, int, T>>>;

// Options about what a result past the type's range becomes.
template <typename T, typename Wide>
[[gnu::always_inline]] inline T settled(Wide exact) {
  if constexpr (is_float16<T>) {
    if (options().float16_results_saturate) return T::from_bits(static_cast<uint16_t>(encode(T::format, float(exact), rounding::nearest_even, true)));
    return T(exact);
  } else if constexpr (is_floating<T>) {
    return exact;
  } else {
    return options().integer_arithmetic_saturates ? narrow<T>(exact, true) : static_cast<T>(exact);
  }
}

template <typename T>
[[gnu::always_inline]] inline T lane_add(T a, T b) {
  if constexpr (is_floating<T>) return settled<T>(float(a) + float(b));
  else if constexpr (sizeof(T) < 8) return settled<T>(int64_t{a} + int64_t{b});
  else return static_cast<T>(wrapping<T>(a) + wrapping<T>(b));
}
template <typename T>
[[gnu::always_inline]] inline T lane_sub(T a, T b) {
  if constexpr (is_floating<T>) return settled<T>(float(a) - float(b));
  else if constexpr (sizeof(T) < 8) return settled<T>(int64_t{a} - int64_t{b});
  else return static_cast<T>(wrapping<T>(a) - wrapping<T>(b));
}
template <typename T>
[[gnu::always_inline]] inline T lane_mul(T a, T b) {
  if constexpr (is_floating<T>) return settled<T>(float(a) * float(b));
  else if constexpr (std::is_signed_v<T> && sizeof(T) < 8) return settled<T>(int64_t{a} * int64_t{b});
  else if constexpr (sizeof(T) < 8) return settled<T>(uint64_t{a} * uint64_t{b});
  else return static_cast<T>(wrapping<T>(a) * wrapping<T>(b));
}

// A subnormal becomes a zero of its sign where the unit is said to flush and the option agrees.
[[gnu::always_inline]] inline float flushed(float value) {
  if (options().flush_subnormals && __builtin_fabsf(value) < 0x1p-126f && value != 0.0f) return __builtin_copysignf(0.0f, value);
  return value;
}

template <typename T>
[[gnu::always_inline]] inline T lane_div(T a, T b) {
  if constexpr (std::is_same_v<T, float>) {
    return flushed(flushed(a) / flushed(b));
  } else if constexpr (is_floating<T>) {
    return settled<T>(float(a) / float(b));
  } else {
    if (b == 0) return options().integer_division_by_zero_gives_zero ? T(0) : static_cast<T>(~T(0));
    if constexpr (std::is_signed_v<T>) {
      if (b == T(-1)) return static_cast<T>(wrapping<T>(0) - wrapping<T>(a));
    }
    return static_cast<T>(a / b);
  }
}

// NaN if either is NaN; +0 is above -0.
template <typename T>
[[gnu::always_inline]] inline T lane_max(T a, T b) {
  if constexpr (is_floating<T>) {
    const float x = a, y = b;
    if (x != x) return a;
    if (y != y) return b;
    if (x == y) return __builtin_signbit(x) ? b : a;
    return x > y ? a : b;
  } else {
    return a > b ? a : b;
  }
}
template <typename T>
[[gnu::always_inline]] inline T lane_min(T a, T b) {
  if constexpr (is_floating<T>) {
    const float x = a, y = b;
    if (x != x) return a;
    if (y != y) return b;
    if (x == y) return __builtin_signbit(x) ? a : b;
    return x < y ? a : b;
  } else {
    return a < b ? a : b;
  }
}

template <typename T>
[[gnu::always_inline]] inline T lane_abs(T a) {
  if constexpr (is_floating<T>) return static_cast<T>(__builtin_fabsf(static_cast<float>(a)));
  else if constexpr (std::is_signed_v<T>) return a < 0 ? static_cast<T>(wrapping<T>(0) - wrapping<T>(a)) : a;
  else return a;
}
template <typename T>
[[gnu::always_inline]] inline T lane_neg(T a) {
  if constexpr (is_floating<T>) return static_cast<T>(-a);
  else return static_cast<T>(wrapping<T>(0) - wrapping<T>(a));
}
// abs(a - b); of integers the distance itself, which wraps to the type.
template <typename T>
[[gnu::always_inline]] inline T lane_abs_sub(T a, T b) {
  if constexpr (is_floating<T>) return lane_abs(lane_sub(a, b));
  else return a > b ? lane_sub(a, b) : lane_sub(b, a);
}
template <typename T>
[[gnu::always_inline]] inline T lane_relu(T a) {
  if constexpr (is_floating<T>) {
    const float x = a;
    return x != x || x > 0.0f ? a : T(0.0f);
  } else {
    return a > 0 ? a : T(0);
  }
}
template <typename T>
[[gnu::always_inline]] inline T lane_prelu(T a, T slope) {
  return static_cast<float>(a) > 0.0f ? a : lane_mul(a, slope);
}

// a * b + c with one rounding (or two, by the option).
template <typename T>
[[gnu::always_inline]] inline T lane_fma(T a, T b, T c) {
  if constexpr (!is_floating<T>) {
    return lane_add(lane_mul(a, b), c);
  } else if (!options().fused_multiply_add) {
    return lane_add(lane_mul(a, b), c);
  } else if constexpr (std::is_same_v<T, float>) {
    return __builtin_fmaf(a, b, c);
  } else {
    const double odd = fused_for_rounding(float(a), float(b), float(c));
    return T::from_bits(static_cast<uint16_t>(
        encode(T::format, odd, rounding::nearest_even, options().float16_results_saturate != 0)));
  }
}

template <typename T>
[[gnu::always_inline]] inline T lane_exp(T a) {
  if constexpr (std::is_same_v<T, float>) return flushed(__builtin_expf(flushed(a)));
  else return T(__builtin_expf(static_cast<float>(a)));
}
template <typename T>
[[gnu::always_inline]] inline T lane_ln(T a) {
  if constexpr (std::is_same_v<T, float>) return __builtin_logf(flushed(a));
  else return T(__builtin_logf(static_cast<float>(a)));
}
template <typename T>
[[gnu::always_inline]] inline T lane_sqrt(T a) {
  if constexpr (std::is_same_v<T, float>) return __builtin_sqrtf(flushed(a));
  else return T(__builtin_sqrtf(static_cast<float>(a)));
}
// exp(a - b) of f32, the difference rounded to f32 first or kept exact, by the option; f16 operands give f16.
template <typename T>
[[gnu::always_inline]] inline T lane_exp_sub(T a, T b) {
  if (options().exp_sub_rounds_difference) return lane_exp(lane_sub(a, b));
  const double difference = static_cast<double>(static_cast<float>(a)) - static_cast<double>(static_cast<float>(b));
  const float result = static_cast<float>(__builtin_exp(difference));
  return std::is_same_v<T, float> ? T(flushed(result)) : T(result);
}

template <typename T>
using lane_bits_of = word<static_cast<int>(sizeof(T))>;
template <typename T, typename F>
[[gnu::always_inline]] inline T on_bits(T a, T b, F f) {
  return bits_as<T>(static_cast<lane_bits_of<T>>(f(bits_as<lane_bits_of<T>>(a), bits_as<lane_bits_of<T>>(b))));
}
template <typename T>
[[gnu::always_inline]] inline T lane_and(T a, T b) {
  return on_bits(a, b, [](auto x, auto y) TILEVL_HOST_LANE { return x & y; });
}
template <typename T>
[[gnu::always_inline]] inline T lane_or(T a, T b) {
  return on_bits(a, b, [](auto x, auto y) TILEVL_HOST_LANE { return x | y; });
}
template <typename T>
[[gnu::always_inline]] inline T lane_xor(T a, T b) {
  return on_bits(a, b, [](auto x, auto y) TILEVL_HOST_LANE { return x ^ y; });
}
template <typename T>
[[gnu::always_inline]] inline T lane_not(T a) {
  return on_bits(a, a, [](auto x, auto) TILEVL_HOST_LANE { return ~x; });
}

// An amount past the width leaves 0, or the sign. A negative amount is undefined: reported.
template <typename T, typename A>
[[gnu::always_inline]] inline T lane_shift_left(T a, A amount) {
  if (amount < A(0)) fault("range", "shift: amount must be at least 0, got %lld", static_cast<long long>(amount));
  if (amount >= A(8 * sizeof(T))) return T(0);
  return static_cast<T>(static_cast<uint64_t>(a) << amount);
}
template <typename T, typename A>
[[gnu::always_inline]] inline T lane_shift_right(T a, A amount) {
  if (amount < A(0)) fault("range", "shift: amount must be at least 0, got %lld", static_cast<long long>(amount));
  if (amount >= A(8 * sizeof(T))) return a < T(0) ? static_cast<T>(-1) : T(0);
  return static_cast<T>(a >> amount);
}

}  // namespace tilevl_host
