// Rounding and number formats, exactly and without state: every conversion of the model goes through here.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "tilevl_host/attributes.h"

namespace tilevl_host {

// The standard's std::bit_cast and std::bit_width, inlined whatever the instrumentation of the caller.
template <typename To, typename From>
[[gnu::always_inline]] constexpr To bits_as(From value) {
  return __builtin_bit_cast(To, value);
}
[[gnu::always_inline]] constexpr int bit_width(uint64_t value) { return value == 0 ? 0 : 64 - __builtin_clzll(value); }

// The rounding tags of the API. `odd_ties` sends a tie to the odd neighbour, `odd_sticky` any inexact value (von Neumann).
enum class rounding : uint8_t { nearest_even, half_away, floor, ceil, zero, odd_ties, odd_sticky };

// What the all-ones exponent of a format holds.
enum class specials : uint8_t { infinity_and_nan, nan_only, none };

struct float_format {
  int exponent_bits;
  int fraction_bits;
  specials special;

  TILEVL_HOST_PURE constexpr int bias() const { return (1 << (exponent_bits - 1)) - 1 + (exponent_bits == 1); }
  TILEVL_HOST_PURE constexpr uint32_t sign_bit() const { return 1u << (exponent_bits + fraction_bits); }
  TILEVL_HOST_PURE constexpr uint32_t exponent_mask() const { return ((1u << exponent_bits) - 1u) << fraction_bits; }
  TILEVL_HOST_PURE constexpr uint32_t fraction_mask() const { return (1u << fraction_bits) - 1u; }
  // The largest finite magnitude.
  TILEVL_HOST_PURE constexpr uint32_t max_bits() const {
    if (special == specials::infinity_and_nan) return exponent_mask() - 1u;
    return (exponent_mask() | fraction_mask()) - (special == specials::nan_only ? 1u : 0u);
  }
  TILEVL_HOST_PURE constexpr uint32_t nan_bits() const {
    if (special == specials::infinity_and_nan) return exponent_mask() | (1u << (fraction_bits - 1));
    return exponent_mask() | fraction_mask();
  }
};

inline constexpr float_format fp32_format{8, 23, specials::infinity_and_nan};
inline constexpr float_format fp16_format{5, 10, specials::infinity_and_nan};
inline constexpr float_format bf16_format{8, 7, specials::infinity_and_nan};
inline constexpr float_format e4m3_format{4, 3, specials::nan_only};
inline constexpr float_format e5m2_format{5, 2, specials::infinity_and_nan};
inline constexpr float_format e2m1_format{2, 1, specials::none};
inline constexpr float_format e1m2_format{1, 2, specials::none};

// A finite number as (-1)^negative * significand * 2^exponent.
struct finite {
  bool negative;
  uint64_t significand;
  int exponent;
};

TILEVL_HOST_PURE constexpr finite split(double value) {
  const uint64_t bits = bits_as<uint64_t>(value);
  const int field = static_cast<int>((bits >> 52) & 0x7ffu);
  const uint64_t fraction = bits & ((uint64_t{1} << 52) - 1);
  return {(bits >> 63) != 0, field == 0 ? fraction : fraction | (uint64_t{1} << 52), (field == 0 ? 1 : field) - 1075};
}

template <typename Int>
TILEVL_HOST_PURE constexpr finite split_integer(Int value) {
  const bool negative = value < 0;
  const uint64_t magnitude = negative ? uint64_t{0} - static_cast<uint64_t>(value) : static_cast<uint64_t>(value);
  return {negative, magnitude, 0};
}

// significand / 2^shift, rounded to a whole number by `mode`.
TILEVL_HOST_PURE constexpr uint64_t round_shift(uint64_t significand, int shift, bool negative, rounding mode) {
  if (shift <= 0) return significand << -shift;
  const bool all_dropped = shift > 64;
  const uint64_t kept = shift >= 64 ? 0 : significand >> shift;
  const uint64_t half = all_dropped ? 0 : uint64_t{1} << (shift - 1);
  const uint64_t rest = shift >= 64 ? significand : significand & ((uint64_t{1} << shift) - 1);
  const bool tie = !all_dropped && rest == half;
  const bool above = !all_dropped && rest > half;
  bool up = false;
  switch (mode) {
    case rounding::nearest_even: up = above || (tie && (kept & 1)); break;
    case rounding::half_away: up = above || tie; break;
    case rounding::floor: up = negative && rest != 0; break;
    case rounding::ceil: up = !negative && rest != 0; break;
    case rounding::zero: break;
    case rounding::odd_ties: up = above || (tie && !(kept & 1)); break;
    case rounding::odd_sticky: up = rest != 0 && !(kept & 1); break;
  }
  return kept + (up ? 1 : 0);
}

// What becomes of a value past the largest finite one: `saturate` gives that one, else infinity (NaN where there is none).
TILEVL_HOST_PURE constexpr uint32_t overflow_bits(const float_format& format, bool saturate) {
  if (saturate || format.special == specials::none) return format.max_bits();
  return format.special == specials::nan_only ? format.nan_bits() : format.exponent_mask();
}

TILEVL_HOST_PURE constexpr uint32_t encode(const float_format& format, finite value, rounding mode, bool saturate) {
  const uint32_t sign = value.negative ? format.sign_bit() : 0u;
  if (value.significand == 0) return sign;
  const int top = bit_width(value.significand) - 1 + value.exponent;
  const int lowest = 1 - format.bias();
  int unit = (top > lowest ? top : lowest) - format.fraction_bits;
  uint64_t kept = round_shift(value.significand, unit - value.exponent, value.negative, mode);
  if (kept >> (format.fraction_bits + 1)) {
    kept >>= 1;
    ++unit;
  }
  if (!(kept >> format.fraction_bits)) return sign | static_cast<uint32_t>(kept);
  const int field = unit + format.fraction_bits + format.bias();
  if (field >= (1 << format.exponent_bits)) return sign | overflow_bits(format, saturate);
  const uint32_t magnitude =
      (static_cast<uint32_t>(field) << format.fraction_bits) | (static_cast<uint32_t>(kept) & format.fraction_mask());
  return sign | (magnitude > format.max_bits() ? overflow_bits(format, saturate) : magnitude);
}

// float -> float: with `saturate`, infinities become the largest finite value and NaN becomes 0; without, both are kept.
TILEVL_HOST_PURE constexpr uint32_t encode(const float_format& format, double value, rounding mode = rounding::nearest_even,
                          bool saturate = false) {
  const uint64_t bits = bits_as<uint64_t>(value);
  const bool negative = (bits >> 63) != 0;
  if (((bits >> 52) & 0x7ffu) != 0x7ffu) return encode(format, split(value), mode, saturate);
  const uint32_t sign = negative ? format.sign_bit() : 0u;
  const bool is_nan = (bits & ((uint64_t{1} << 52) - 1)) != 0;
  if (!is_nan) return sign | overflow_bits(format, saturate);
  return saturate || format.special == specials::none ? 0u : sign | format.nan_bits();
}

TILEVL_HOST_PURE constexpr double decode(const float_format& format, uint32_t bits) {
  const bool negative = (bits & format.sign_bit()) != 0;
  const uint32_t magnitude = bits & (format.sign_bit() - 1u);
  const uint64_t sign = negative ? uint64_t{1} << 63 : 0;
  if (magnitude > format.max_bits()) {
    const bool infinite = format.special == specials::infinity_and_nan && magnitude == format.exponent_mask();
    return bits_as<double>(sign | (uint64_t{0x7ff} << 52) | (infinite ? 0 : uint64_t{1} << 51));
  }
  int field = static_cast<int>(magnitude >> format.fraction_bits);
  uint64_t significand = magnitude & format.fraction_mask();
  if (field != 0) significand |= uint64_t{1} << format.fraction_bits;
  if (significand == 0) return bits_as<double>(sign);
  const int shift = 53 - bit_width(significand);
  const int exponent = (field == 0 ? 1 : field) - format.bias() - format.fraction_bits - shift;
  const uint64_t fraction = (significand << shift) & ((uint64_t{1} << 52) - 1);
  return bits_as<double>(sign | (static_cast<uint64_t>(exponent + 1075) << 52) | fraction);
}

// float -> int: infinities give the type's extreme and NaN gives 0 either way; a finite value past the range is clamped with
// `saturate`, else its low bits remain.
template <typename Int>
TILEVL_HOST_PURE constexpr Int to_integer(double value, rounding mode, bool saturate) {
  constexpr Int lowest = std::numeric_limits<Int>::min(), highest = std::numeric_limits<Int>::max();
  const uint64_t bits = bits_as<uint64_t>(value);
  const finite parts = split(value);
  if (((bits >> 52) & 0x7ffu) == 0x7ffu) {
    if (bits & ((uint64_t{1} << 52) - 1)) return Int{0};
    return parts.negative ? lowest : highest;
  }
  const bool huge = parts.exponent > 10;  // at least 2^63, as the significand then has its 53 bits
  const uint64_t magnitude = parts.exponent >= 64 ? 0
                             : parts.exponent >= 0
                                 ? parts.significand << parts.exponent
                                 : round_shift(parts.significand, -parts.exponent, parts.negative, mode);
  const uint64_t low = parts.negative ? uint64_t{0} - magnitude : magnitude;
  if (!saturate) return static_cast<Int>(low);
  const uint64_t furthest =
      parts.negative ? uint64_t{0} - static_cast<uint64_t>(lowest) : static_cast<uint64_t>(highest);
  if (huge || magnitude > furthest) return parts.negative ? lowest : highest;
  return static_cast<Int>(low);
}

// int -> int: clamp with `saturate`, else keep the low bits.
template <typename To, typename From>
TILEVL_HOST_PURE constexpr To narrow(From value, bool saturate) {
  if (!saturate) return static_cast<To>(value);
  constexpr To lowest = std::numeric_limits<To>::min(), highest = std::numeric_limits<To>::max();
  if constexpr (std::is_signed_v<From>) {
    const int64_t wide = value;
    if constexpr (sizeof(To) < 8) {
      if (wide < static_cast<int64_t>(lowest)) return lowest;
      if (wide > static_cast<int64_t>(highest)) return highest;
    }
  } else {
    if (static_cast<uint64_t>(value) > static_cast<uint64_t>(highest)) return highest;
  }
  return static_cast<To>(value);
}

// a * b + c as a double whose rounding to a format of at most 24 bits is the single rounding of the exact value: the sum
// is rounded to odd. The product of two such numbers is exact in double.
TILEVL_HOST_PURE inline double fused_for_rounding(double a, double b, double c) {
  const double product = a * b;
  const double sum = product + c;
  if (!__builtin_isfinite(sum)) return sum;
  const double shadow = sum - product;
  const double error = (product - (sum - shadow)) + (c - shadow);
  const uint64_t bits = bits_as<uint64_t>(sum);
  if (error == 0.0 || (bits & 1)) return sum;
  const bool outward = (error > 0.0) == (sum > 0.0);
  return bits_as<double>(outward ? bits + 1 : bits - 1);
}

}  // namespace tilevl_host
