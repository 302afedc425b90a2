// Conversions of SIMT threads; all of them to nearest even.
#pragma once

#include "tilevl_host/simt_types.h"

// Two 8-bit floats, the first in the low byte.
struct float8_e4m3x2_t {
  uint16_t bits;
};
struct float8_e5m2x2_t {
  uint16_t bits;
};
using __asc_fp8x2_storage_t = uint16_t;
using __asc_fp8_storage_t = uint8_t;

enum __asc_saturation_t { __ASC_NOSAT, __ASC_SATFINITE };
enum __asc_fp8_interpretation_t { __ASC_E4M3, __ASC_E5M2 };

inline float __half2float(half x) { return x; }
inline half __float2half(float x) { return half(x); }
inline half __float2half_rn(float x) { return half(x); }
inline float2 __half22float2(half2 x) { return {x.x, x.y}; }
inline half2 __float22half2_rn(float2 x) { return {half(x.x), half(x.y)}; }
inline float __bfloat162float(bfloat16_t x) { return x; }
inline bfloat16_t __float2bfloat16(float x) { return bfloat16_t(x); }
inline bfloat16_t __float2bfloat16_rn(float x) { return bfloat16_t(x); }
inline float2 __bfloat1622float2(bfloat16x2_t x) { return {x.x, x.y}; }
inline bfloat16x2_t __float22bfloat162_rn(float2 x) { return {bfloat16_t(x.x), bfloat16_t(x.y)}; }

namespace tilevl_host {

template <const float_format& Format>
TILEVL_HOST_PURE inline uint16_t encode_fp8_pair(float2 x, bool saturate) {
  const auto one = [saturate](float value) TILEVL_HOST_LANE {
    return saturate ? uint32_t{encode_satfinite<Format>(value)} : encode(Format, value);
  };
  return static_cast<uint16_t>(one(x.x) | one(x.y) << 8);
}

template <const float_format& Format>
TILEVL_HOST_PURE inline float2 decode_fp8_pair(uint16_t bits) {
  return {static_cast<float>(decode(Format, bits & 0xffu)), static_cast<float>(decode(Format, bits >> 8))};
}

}  // namespace tilevl_host

inline __asc_fp8x2_storage_t __asc_cvt_float2_to_fp8x2(float2 x, __asc_saturation_t saturate, __asc_fp8_interpretation_t format) {
  const bool finite = saturate == __ASC_SATFINITE;
  return format == __ASC_E4M3 ? tilevl_host::encode_fp8_pair<tilevl_host::e4m3_format>(x, finite)
                              : tilevl_host::encode_fp8_pair<tilevl_host::e5m2_format>(x, finite);
}
inline float2 __e4m3x22float2(float8_e4m3x2_t x) { return tilevl_host::decode_fp8_pair<tilevl_host::e4m3_format>(x.bits); }
inline float2 __e5m2x22float2(float8_e5m2x2_t x) { return tilevl_host::decode_fp8_pair<tilevl_host::e5m2_format>(x.bits); }
