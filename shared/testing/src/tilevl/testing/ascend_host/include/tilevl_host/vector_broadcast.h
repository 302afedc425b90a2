// One value to many lanes, ramps of indices, and histograms.
#pragma once

#include "tilevl_host/counters.h"
#include "tilevl_host/lane_math.h"
#include "tilevl_host/lanes.h"
#include "tilevl_host/vector_options.h"

template <typename T, typename S>
inline void asc_duplicate_scalar(tilevl_host::vector_register<T>& dst, S scalar, const vector_bool& mask) {
  tilevl_host::count_vector(tilevl_host::Vector::broadcast);
  const T value = static_cast<T>(scalar);
  tilevl_host::map_zeroing(dst, mask, [value](int) TILEVL_HOST_LANE { return value; });
}

// The first or last lane of src, whatever its own mask bit.
template <typename T>
inline void asc_duplicate(tilevl_host::vector_register<T>& dst, const tilevl_host::vector_register<T>& src,
                          const vector_bool& mask) {
  tilevl_host::count_vector(tilevl_host::Vector::broadcast);
  const T value = src.lane[0];
  tilevl_host::map_zeroing(dst, mask, [value](int) TILEVL_HOST_LANE { return value; });
}
template <typename T>
inline void asc_duplicate_highest(tilevl_host::vector_register<T>& dst, const tilevl_host::vector_register<T>& src,
                                  const vector_bool& mask) {
  tilevl_host::count_vector(tilevl_host::Vector::broadcast);
  const T value = src.lane[src.lanes - 1];
  tilevl_host::map_zeroing(dst, mask, [value](int) TILEVL_HOST_LANE { return value; });
}

namespace tilevl_host {

template <typename T, typename Step>
TILEVL_HOST_REGISTER_OP void ramp(vector_register<T>& dst, T start, Step step) {
  for (int i = 0; i < dst.lanes; ++i) {
    if constexpr (is_floating<T>) dst.lane[i] = lane_add(start, static_cast<T>(step(i)));
    else dst.lane[i] = static_cast<T>(wrapping<T>(start) + static_cast<wrapping<T>>(step(i)));
  }
}

// Counts of the source's bytes 128 * Bin to 128 * Bin + 127, added to dst; cumulative counts all bytes up to each.
template <int Bin, bool Cumulative>
TILEVL_HOST_REGISTER_OP inline void add_histogram(vector_u16& dst, const vector_u8& src, const vector_bool& mask) {
  uint16_t counts[256] = {};
  for (int i = 0; i < src.lanes; ++i)
    if (mask.active<uint8_t>(i)) ++counts[src.lane[i]];
  uint16_t below = 0;
  for (int value = 0; value < 256; ++value) {
    below = static_cast<uint16_t>(below + counts[value]);
    const int lane = value - 128 * Bin;
    if (lane >= 0 && lane < 128) dst.lane[lane] = static_cast<uint16_t>(dst.lane[lane] + (Cumulative ? below : counts[value]));
  }
}

}  // namespace tilevl_host

// start + i in lane i.
template <typename T, typename S>
inline void asc_arange(tilevl_host::vector_register<T>& dst, S start) {
  tilevl_host::count_vector(tilevl_host::Vector::broadcast);
  tilevl_host::ramp(dst, static_cast<T>(start), [](int i) TILEVL_HOST_LANE { return i; });
}
// start + lanes - 1 - i in lane i, so that the last lane holds start; or start - i, by the option.
template <typename T, typename S>
inline void asc_arange_descend(tilevl_host::vector_register<T>& dst, S start) {
  tilevl_host::count_vector(tilevl_host::Vector::broadcast);
  const int first = tilevl_host::options().arange_descends_from_value ? 0 : dst.lanes - 1;
  tilevl_host::ramp(dst, static_cast<T>(start), [first](int i) TILEVL_HOST_LANE { return first - i; });
}

#define TILEVL_HOST_HISTOGRAM(NAME, BIN, CUMULATIVE)                                       \
  inline void NAME(vector_u16& dst, const vector_u8& src, const vector_bool& mask) {       \
    tilevl_host::count_vector(tilevl_host::Vector::reduce);                                \
    tilevl_host::add_histogram<BIN, CUMULATIVE>(dst, src, mask);                           \
  }
TILEVL_HOST_HISTOGRAM(asc_frequency_histogram_bin0, 0, false)
TILEVL_HOST_HISTOGRAM(asc_frequency_histogram_bin1, 1, false)
TILEVL_HOST_HISTOGRAM(asc_cumulative_histogram_bin0, 0, true)
TILEVL_HOST_HISTOGRAM(asc_cumulative_histogram_bin1, 1, true)
#undef TILEVL_HOST_HISTOGRAM
