// The 16-, 8- and 4-bit floating types of the device. `half` and `bfloat16_t` behave as arithmetic types: an operation on two
// of them is rounded to the type, an operation with a wider floating type is done in that one.
#pragma once

#include <concepts>

#include "tilevl_host/convert.h"

namespace tilevl_host {

template <typename T>
concept arithmetic = std::is_arithmetic_v<T>;

TILEVL_HOST_PURE constexpr float fp16_to_float(uint16_t bits) {
  const uint32_t sign = static_cast<uint32_t>(bits & 0x8000u) << 16;
  const uint32_t magnitude = bits & 0x7fffu;
  if (magnitude >= 0x7c00u) return bits_as<float>(sign | 0x7f800000u | ((magnitude & 0x3ffu) << 13));
  if (magnitude >= 0x0400u) return bits_as<float>(sign | ((magnitude << 13) + (112u << 23)));
  const float subnormal = static_cast<float>(magnitude) * 0x1p-24f;
  return sign ? -subnormal : subnormal;
}

TILEVL_HOST_PURE constexpr uint16_t float_to_fp16(float value) {
  const uint32_t bits = bits_as<uint32_t>(value);
  const uint32_t magnitude = bits & 0x7fffffffu;
  if (magnitude < 0x38800000u || magnitude >= 0x47800000u) return static_cast<uint16_t>(encode(fp16_format, value));
  const uint32_t rounded = magnitude - (112u << 23) + 0xfffu + ((magnitude >> 13) & 1u);
  return static_cast<uint16_t>(((bits >> 16) & 0x8000u) | (rounded >> 13));
}

TILEVL_HOST_PURE constexpr float bf16_to_float(uint16_t bits) { return bits_as<float>(static_cast<uint32_t>(bits) << 16); }

TILEVL_HOST_PURE constexpr uint16_t float_to_bf16(float value) {
  const uint32_t bits = bits_as<uint32_t>(value);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return static_cast<uint16_t>(((bits >> 16) & 0x8000u) | 0x7fc0u);
  return static_cast<uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}

template <const float_format& Format>
struct float16 {
  static constexpr const float_format& format = Format;
  uint16_t bits;

  float16() = default;
  template <arithmetic A>
  [[gnu::always_inline]] constexpr float16(A value) : bits(encode_value(value)) {}
  template <const float_format& Other>
    requires(&Other != &Format)
  [[gnu::always_inline]] explicit constexpr float16(float16<Other> other) : float16(static_cast<float>(other)) {}

  [[gnu::always_inline]] constexpr operator float() const {
    if constexpr (&Format == &fp16_format) return fp16_to_float(bits);
    return bf16_to_float(bits);
  }

  [[gnu::always_inline]] static constexpr float16 from_bits(uint16_t raw) { return bits_as<float16>(raw); }

  [[gnu::always_inline]] friend constexpr float16 operator+(float16 a, float16 b) { return float(a) + float(b); }
  [[gnu::always_inline]] friend constexpr float16 operator-(float16 a, float16 b) { return float(a) - float(b); }
  [[gnu::always_inline]] friend constexpr float16 operator*(float16 a, float16 b) { return float(a) * float(b); }
  [[gnu::always_inline]] friend constexpr float16 operator/(float16 a, float16 b) { return float(a) / float(b); }
  [[gnu::always_inline]] friend constexpr bool operator==(float16 a, float16 b) { return float(a) == float(b); }
  [[gnu::always_inline]] friend constexpr auto operator<=>(float16 a, float16 b) { return float(a) <=> float(b); }
  [[gnu::always_inline]] constexpr float16 operator-() const { return from_bits(static_cast<uint16_t>(bits ^ 0x8000u)); }
  [[gnu::always_inline]] constexpr float16 operator+() const { return *this; }

  template <typename A>
  [[gnu::always_inline]] constexpr float16& operator+=(A b) { return *this = float16(*this + b); }
  template <typename A>
  [[gnu::always_inline]] constexpr float16& operator-=(A b) { return *this = float16(*this - b); }
  template <typename A>
  [[gnu::always_inline]] constexpr float16& operator*=(A b) { return *this = float16(*this * b); }
  template <typename A>
  [[gnu::always_inline]] constexpr float16& operator/=(A b) { return *this = float16(*this / b); }

 private:
  template <arithmetic A>
  [[gnu::always_inline]] static constexpr uint16_t encode_value(A value) {
    if constexpr (std::is_same_v<A, float>) {
      if constexpr (&Format == &fp16_format) return float_to_fp16(value);
      return float_to_bf16(value);
    } else if constexpr (std::is_floating_point_v<A>) {
      return static_cast<uint16_t>(encode(Format, static_cast<double>(value)));
    } else {
      return static_cast<uint16_t>(encode(Format, split_integer(value), rounding::nearest_even, false));
    }
  }
};

// The usual arithmetic conversions with a built-in type: a wider floating type wins, an integer becomes the 16-bit type.
template <const float_format& Format, arithmetic A>
using common_with = std::conditional_t<std::is_floating_point_v<A>, A, float16<Format>>;

#define TILEVL_HOST_MIXED_OPERATOR(OP, RESULT)                         \
  template <const float_format& F, arithmetic A>                       \
  [[gnu::always_inline]] constexpr RESULT operator OP(float16<F> a, A b) {                    \
    return static_cast<common_with<F, A>>(a) OP static_cast<common_with<F, A>>(b); \
  }                                                                    \
  template <const float_format& F, arithmetic A>                       \
  [[gnu::always_inline]] constexpr RESULT operator OP(A a, float16<F> b) {                    \
    return static_cast<common_with<F, A>>(a) OP static_cast<common_with<F, A>>(b); \
  }
#define TILEVL_HOST_COMMON common_with<F, A>
TILEVL_HOST_MIXED_OPERATOR(+, TILEVL_HOST_COMMON)
TILEVL_HOST_MIXED_OPERATOR(-, TILEVL_HOST_COMMON)
TILEVL_HOST_MIXED_OPERATOR(*, TILEVL_HOST_COMMON)
TILEVL_HOST_MIXED_OPERATOR(/, TILEVL_HOST_COMMON)
TILEVL_HOST_MIXED_OPERATOR(==, bool)
TILEVL_HOST_MIXED_OPERATOR(!=, bool)
TILEVL_HOST_MIXED_OPERATOR(<, bool)
TILEVL_HOST_MIXED_OPERATOR(<=, bool)
TILEVL_HOST_MIXED_OPERATOR(>, bool)
TILEVL_HOST_MIXED_OPERATOR(>=, bool)
#undef TILEVL_HOST_COMMON
#undef TILEVL_HOST_MIXED_OPERATOR

// Nearest even, with values past the largest finite one and infinities set to it and NaN kept: the scalar casts' rule.
template <const float_format& Format>
TILEVL_HOST_PURE constexpr uint8_t encode_satfinite(float value) {
  if (value != value) return static_cast<uint8_t>(Format.nan_bits());
  return static_cast<uint8_t>(encode(Format, value, rounding::nearest_even, true));
}

// An 8-bit float: storage with conversions, no arithmetic of its own.
template <const float_format& Format>
struct float8 {
  uint8_t bits;

  float8() = default;
  [[gnu::always_inline]] explicit constexpr float8(float value) : bits(encode_satfinite<Format>(value)) {}
  [[gnu::always_inline]] explicit constexpr operator float() const { return static_cast<float>(decode(Format, bits)); }
};

// A power of two with bias 127; 0xff is NaN. Only a scale, so it has no conversion from float.
struct float8_scale {
  uint8_t bits;
  [[gnu::always_inline]] explicit operator float() const { return bits == 0xff ? __builtin_nanf("") : __builtin_ldexpf(1.0f, bits - 127); }
};

// Two 4-bit floats in a byte, the first in the low half.
template <const float_format& Format>
struct float4_pair {
  uint8_t bits;
};

}  // namespace tilevl_host

using half = tilevl_host::float16<tilevl_host::fp16_format>;
using bfloat16_t = tilevl_host::float16<tilevl_host::bf16_format>;
using float8_e4m3_t = tilevl_host::float8<tilevl_host::e4m3_format>;
using float8_e5m2_t = tilevl_host::float8<tilevl_host::e5m2_format>;
using float8_e8m0_t = tilevl_host::float8_scale;
using fp8_e8m0_t = tilevl_host::float8_scale;
using float4_e2m1x2_t = tilevl_host::float4_pair<tilevl_host::e2m1_format>;
using float4_e1m2x2_t = tilevl_host::float4_pair<tilevl_host::e1m2_format>;
