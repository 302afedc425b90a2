// Functions of SIMT threads on floats: the host's own for f32, the same rounded to f16 for the h-prefixed ones.
#pragma once

#include <math.h>

#include "tilevl_host/simt_warp.h"

inline float rsqrtf(float x) { return 1.0f / sqrtf(x); }
inline float fdividef(float a, float b) { return a / b; }

#define TILEVL_HOST_HALF_FUNCTION(NAME) \
  inline half h##NAME(half x) { return half(NAME##f(float(x))); }
TILEVL_HOST_HALF_FUNCTION(sqrt)
TILEVL_HOST_HALF_FUNCTION(rsqrt)
TILEVL_HOST_HALF_FUNCTION(exp)
TILEVL_HOST_HALF_FUNCTION(exp2)
TILEVL_HOST_HALF_FUNCTION(exp10)
TILEVL_HOST_HALF_FUNCTION(log)
TILEVL_HOST_HALF_FUNCTION(log2)
TILEVL_HOST_HALF_FUNCTION(log10)
TILEVL_HOST_HALF_FUNCTION(log1p)
TILEVL_HOST_HALF_FUNCTION(tanh)
TILEVL_HOST_HALF_FUNCTION(tan)
TILEVL_HOST_HALF_FUNCTION(sin)
TILEVL_HOST_HALF_FUNCTION(cos)
TILEVL_HOST_HALF_FUNCTION(atan)
TILEVL_HOST_HALF_FUNCTION(erf)
TILEVL_HOST_HALF_FUNCTION(floor)
TILEVL_HOST_HALF_FUNCTION(ceil)
TILEVL_HOST_HALF_FUNCTION(fabs)
TILEVL_HOST_HALF_FUNCTION(round)
TILEVL_HOST_HALF_FUNCTION(trunc)
#undef TILEVL_HOST_HALF_FUNCTION
inline half hatan2(half y, half x) { return half(atan2f(float(y), float(x))); }

// Unqualified max and min of two operands of one type.
template <typename T>
  requires(std::is_arithmetic_v<T> || std::is_same_v<T, half> || std::is_same_v<T, bfloat16_t>)
[[gnu::always_inline]] inline T max(T a, T b) {
  return tilevl_host::simt_extreme<true>(a, b);
}
template <typename T>
  requires(std::is_arithmetic_v<T> || std::is_same_v<T, half> || std::is_same_v<T, bfloat16_t>)
[[gnu::always_inline]] inline T min(T a, T b) {
  return tilevl_host::simt_extreme<false>(a, b);
}
