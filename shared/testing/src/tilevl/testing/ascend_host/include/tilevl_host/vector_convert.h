// Conversions between element types, with the controls in the documented order.
//
// Lane placement: of the same width, lane to lane. Narrowing by k puts source lane i at k * i + part and zeroes the lanes
// between; widening by k reads source lane k * i + part. The mask is read per source lane at the source's width.
#pragma once

#include "tilevl_host/counters.h"
#include "tilevl_host/lane_math.h"
#include "tilevl_host/lanes.h"
#include "tilevl_host/vector_options.h"

namespace tilevl_host {

struct CastControls {
  round_tag round = round_tag::nearest_even;
  saturation saturate = saturation::disable;
  int part = 0;
  write_mode mode = write_mode::zeroing;
};

// A conversion's control tail as letters: r(ound), s(aturation), p(art of two), q(uarter), m(ode).
template <typename Kind>
inline constexpr char control_letter = std::is_same_v<Kind, round_tag>    ? 'r'
                                       : std::is_same_v<Kind, saturation> ? 's'
                                       : std::is_same_v<Kind, part>       ? 'p'
                                       : std::is_same_v<Kind, quarter>    ? 'q'
                                       : std::is_same_v<Kind, write_mode> ? 'm'
                                                                          : '?';

template <char... Letters>
struct tail {
  template <char... Others>
  static constexpr bool same(tail<Others...>) { return std::is_same_v<tail, tail<Others...>>; }
};

template <typename T>
inline constexpr bool is_fp8 = std::is_same_v<T, float8_e4m3_t> || std::is_same_v<T, float8_e5m2_t>;

// Which tail the conversion From -> To takes; void for none. The 4-bit floats are left out: no document places their lanes.
template <typename To, typename From>
constexpr auto tail_of() {
  if constexpr (std::is_same_v<From, float>) {
    if constexpr (is_float16<To> || std::is_same_v<To, int16_t> || std::is_same_v<To, int64_t>) return tail<'r', 's', 'p', 'm'>{};
    else if constexpr (std::is_same_v<To, int32_t>) return tail<'r', 's', 'm'>{};
    else if constexpr (is_fp8<To>) return tail<'r', 's', 'q', 'm'>{};
  } else if constexpr (std::is_same_v<From, half>) {
    if constexpr (std::is_same_v<To, float>) return tail<'p', 'm'>{};
    else if constexpr (std::is_same_v<To, bfloat16_t>) return tail<'r', 'm'>{};
    else if constexpr (std::is_same_v<To, int16_t>) return tail<'r', 's', 'm'>{};
    else if constexpr (std::is_same_v<To, int32_t>) return tail<'r', 'p', 'm'>{};
    else if constexpr (std::is_same_v<To, int8_t> || std::is_same_v<To, uint8_t> || is_fp8<To>) return tail<'r', 's', 'p', 'm'>{};
  } else if constexpr (std::is_same_v<From, bfloat16_t>) {
    if constexpr (std::is_same_v<To, float>) return tail<'p', 'm'>{};
    else if constexpr (std::is_same_v<To, half>) return tail<'s', 'r', 'm'>{};
    else if constexpr (std::is_same_v<To, int32_t> || is_fp8<To>) return tail<'r', 's', 'p', 'm'>{};
  } else if constexpr (is_fp8<From>) {
    if constexpr (std::is_same_v<To, float>) return tail<'q', 'm'>{};
  } else if constexpr (std::is_same_v<To, float>) {
    if constexpr (std::is_same_v<From, int16_t>) return tail<'p', 'm'>{};
    else if constexpr (std::is_same_v<From, int32_t>) return tail<'r', 'm'>{};
    else if constexpr (std::is_same_v<From, int64_t>) return tail<'r', 'p', 'm'>{};
  } else if constexpr (std::is_same_v<To, half>) {
    if constexpr (sizeof(From) == 1) return tail<'p', 'm'>{};
    else if constexpr (std::is_same_v<From, int16_t>) return tail<'r', 'm'>{};
  } else if constexpr (std::is_integral_v<From> && std::is_integral_v<To>) {
    if constexpr (sizeof(To) == 2 * sizeof(From)) return tail<'p', 'm'>{};
    else if constexpr (sizeof(To) == 4 * sizeof(From)) return tail<'q', 'm'>{};
    else if constexpr (2 * sizeof(To) == sizeof(From)) return tail<'s', 'p', 'm'>{};
    else if constexpr (4 * sizeof(To) == sizeof(From)) return tail<'s', 'q', 'm'>{};
  }
}

template <typename Tag>
constexpr void read_control(CastControls& controls) {
  using Kind = typename Tag::kind;
  if constexpr (std::is_same_v<Kind, round_tag>) controls.round = Tag::value;
  if constexpr (std::is_same_v<Kind, saturation>) controls.saturate = Tag::value;
  if constexpr (std::is_same_v<Kind, part> || std::is_same_v<Kind, quarter>) controls.part = static_cast<int>(Tag::value);
  if constexpr (std::is_same_v<Kind, write_mode>) controls.mode = Tag::value;
}

[[gnu::always_inline]] inline rounding rounding_of(round_tag tag) {
  switch (tag) {
    case round_tag::nearest_even: return rounding::nearest_even;
    case round_tag::half_away: return rounding::half_away;
    case round_tag::floor: return rounding::floor;
    case round_tag::ceil: return rounding::ceil;
    case round_tag::zero: return rounding::zero;
    case round_tag::odd: return options().round_odd_sticky ? rounding::odd_sticky : rounding::odd_ties;
    case round_tag::hybrid: return rounding::half_away;
  }
  return rounding::nearest_even;
}

template <typename T>
[[gnu::always_inline]] inline double number(T value) {
  if constexpr (std::is_same_v<T, float8_e4m3_t>) return decode(e4m3_format, value.bits);
  else if constexpr (std::is_same_v<T, float8_e5m2_t>) return decode(e5m2_format, value.bits);
  else return static_cast<float>(value);
}

template <typename To>
[[gnu::always_inline]] inline const float_format& format_of() {
  if constexpr (std::is_same_v<To, float>) return fp32_format;
  else if constexpr (std::is_same_v<To, float8_e4m3_t>) return e4m3_format;
  else if constexpr (std::is_same_v<To, float8_e5m2_t>) return e5m2_format;
  else return To::format;
}

template <typename To, typename From>
TILEVL_HOST_PURE inline To cast_lane(From value, rounding mode, bool saturate) {
  if constexpr (std::is_integral_v<From> && std::is_integral_v<To>) {
    return narrow<To>(value, saturate);
  } else if constexpr (std::is_integral_v<To>) {
    return to_integer<To>(number(value), mode, saturate);
  } else {
    using Bits = word<static_cast<int>(sizeof(To))>;
    if constexpr (std::is_integral_v<From>) {
      return bits_as<To>(static_cast<Bits>(encode(format_of<To>(), split_integer(value), mode, saturate)));
    } else if constexpr (sizeof(To) > sizeof(From)) {
      return static_cast<To>(static_cast<float>(number(value)));
    } else {
      if constexpr (is_float16<To> && std::is_same_v<From, float>) {
        const bool overflows = !(__builtin_fabsf(value) < static_cast<float>(decode(To::format, To::format.max_bits())));
        if (mode == rounding::nearest_even && !(saturate && overflows)) return To(value);
      }
      return bits_as<To>(static_cast<Bits>(encode(format_of<To>(), number(value), mode, saturate)));
    }
  }
}

template <typename To, typename From>
TILEVL_HOST_REGISTER_OP void convert(vector_register<To>& dst, const vector_register<From>& src, const vector_bool& mask,
                                     CastControls controls) {
  const rounding mode = rounding_of(controls.round);
  const int whole = options().cast_saturation;
  const bool saturate = whole == 0 ? controls.saturate == saturation::enable : whole == 1;
  constexpr int narrowing = sizeof(From) > sizeof(To) ? sizeof(From) / sizeof(To) : 1;
  constexpr int widening = sizeof(To) > sizeof(From) ? sizeof(To) / sizeof(From) : 1;
  constexpr int count = vector_register<To>::lanes / narrowing;
  vector_register<To> result = dst;
  if (controls.mode == write_mode::zeroing) std::memset(&result, 0, register_bytes);
  for (int i = 0; i < count; ++i) {
    const int from = widening * i + (widening > 1 ? controls.part : 0);
    const int to = narrowing * i + (narrowing > 1 ? controls.part : 0);
    if (mask.active<From>(from)) result.lane[to] = cast_lane<To>(src.lane[from], mode, saturate);
  }
  dst = result;
}

}  // namespace tilevl_host

// Converts the active source lanes. When merging, the lanes that no active source lane reaches keep their value.
template <typename To, typename From, typename... Controls>
inline void vcvt(tilevl_host::vector_register<To>& dst, const tilevl_host::vector_register<From>& src,
                 const vector_bool& mask, Controls...) {
  using Expected = decltype(tilevl_host::tail_of<To, From>());
  static_assert(!std::is_void_v<Expected>, "vcvt: the model has no such conversion");
  static_assert(std::is_same_v<Expected, tilevl_host::tail<tilevl_host::control_letter<typename Controls::kind>...>>,
                "vcvt: the controls are not those of this conversion, in its order");
  tilevl_host::count_vector(tilevl_host::Vector::convert);
  tilevl_host::CastControls controls;
  (tilevl_host::read_control<Controls>(controls), ...);
  tilevl_host::convert(dst, src, mask, controls);
}
