// Rearranging lanes between registers.
#pragma once

#include "tilevl_host/counters.h"
#include "tilevl_host/lanes.h"
#include "tilevl_host/vector_options.h"

namespace tilevl_host {

template <typename T>
TILEVL_HOST_REGISTER_OP void interleave(vector_register<T>& d0, vector_register<T>& d1, const vector_register<T>& a,
                                        const vector_register<T>& b) {
  vector_register<T> low, high;
  constexpr int half_lanes = vector_register<T>::lanes / 2;
  for (int i = 0; i < half_lanes; ++i) {
    low.lane[2 * i] = a.lane[i];
    low.lane[2 * i + 1] = b.lane[i];
    high.lane[2 * i] = a.lane[half_lanes + i];
    high.lane[2 * i + 1] = b.lane[half_lanes + i];
  }
  d0 = low;
  d1 = high;
}

template <typename T>
TILEVL_HOST_REGISTER_OP void deinterleave(vector_register<T>& d0, vector_register<T>& d1, const vector_register<T>& a,
                                          const vector_register<T>& b) {
  vector_register<T> even, odd;
  constexpr int half_lanes = vector_register<T>::lanes / 2;
  for (int i = 0; i < half_lanes; ++i) {
    even.lane[i] = a.lane[2 * i];
    even.lane[half_lanes + i] = b.lane[2 * i];
    odd.lane[i] = a.lane[2 * i + 1];
    odd.lane[half_lanes + i] = b.lane[2 * i + 1];
  }
  d0 = even;
  d1 = odd;
}

// The low half of each element, packed into the low or high half of the result; the other half is zero.
template <typename Dst, typename T>
TILEVL_HOST_REGISTER_OP void pack(vector_register<Dst>& dst, const vector_register<T>& src, bool high) {
  static_assert(2 * sizeof(Dst) == sizeof(T), "pack halves the width of the elements");
  vector_register<Dst> result;
  std::memset(&result, 0, register_bytes);
  for (int i = 0; i < src.lanes; ++i) std::memcpy(&result.lane[i + (high ? src.lanes : 0)], &src.lane[i], sizeof(Dst));
  dst = result;
}

// Half of the elements at twice the width: unsigned ones extended with zeros, signed ones with their sign.
template <typename Dst, typename T>
TILEVL_HOST_REGISTER_OP void unpack(vector_register<Dst>& dst, const vector_register<T>& src, bool upper) {
  static_assert(sizeof(Dst) == 2 * sizeof(T), "unpack doubles the width of the elements");
  vector_register<Dst> result;
  for (int i = 0; i < result.lanes; ++i) result.lane[i] = static_cast<Dst>(src.lane[i + (upper ? result.lanes : 0)]);
  dst = result;
}

template <typename T>
TILEVL_HOST_REGISTER_OP void squeeze(vector_register<T>& dst, const vector_register<T>& src, const vector_bool& mask) {
  vector_register<T> result;
  std::memset(&result, 0, register_bytes);
  int kept = 0;
  for (int i = 0; i < src.lanes; ++i)
    if (mask.active<T>(i)) result.lane[kept++] = src.lane[i];
  dst = result;
}

// The number of active lanes before each lane.
template <typename T>
TILEVL_HOST_REGISTER_OP void unsqueeze(vector_register<T>& dst, const vector_bool& mask) {
  int before = 0;
  for (int i = 0; i < dst.lanes; ++i) {
    dst.lane[i] = static_cast<T>(before);
    before += mask.active<T>(i);
  }
}

}  // namespace tilevl_host

template <typename T>
inline void asc_select(tilevl_host::vector_register<T>& dst, const tilevl_host::vector_register<T>& a,
                       const tilevl_host::vector_register<T>& b, const vector_bool& mask) {
  tilevl_host::count_vector(tilevl_host::Vector::permute);
  tilevl_host::select_lanes(dst, a, b, mask);
}
template <typename T>
inline void asc_intlv(tilevl_host::vector_register<T>& d0, tilevl_host::vector_register<T>& d1,
                      const tilevl_host::vector_register<T>& a, const tilevl_host::vector_register<T>& b) {
  tilevl_host::count_vector(tilevl_host::Vector::permute);
  tilevl_host::interleave(d0, d1, a, b);
}
template <typename T>
inline void asc_deintlv(tilevl_host::vector_register<T>& d0, tilevl_host::vector_register<T>& d1,
                        const tilevl_host::vector_register<T>& a, const tilevl_host::vector_register<T>& b) {
  tilevl_host::count_vector(tilevl_host::Vector::permute);
  tilevl_host::deinterleave(d0, d1, a, b);
}
template <typename Dst, typename T>
inline void asc_pack_to_low(tilevl_host::vector_register<Dst>& dst, const tilevl_host::vector_register<T>& src) {
  tilevl_host::count_vector(tilevl_host::Vector::permute);
  tilevl_host::pack(dst, src, false);
}
template <typename Dst, typename T>
inline void asc_pack_to_high(tilevl_host::vector_register<Dst>& dst, const tilevl_host::vector_register<T>& src) {
  tilevl_host::count_vector(tilevl_host::Vector::permute);
  tilevl_host::pack(dst, src, true);
}
template <typename Dst, typename T>
inline void asc_unpack_lower(tilevl_host::vector_register<Dst>& dst, const tilevl_host::vector_register<T>& src) {
  tilevl_host::count_vector(tilevl_host::Vector::permute);
  tilevl_host::unpack(dst, src, false);
}
template <typename Dst, typename T>
inline void asc_unpack_upper(tilevl_host::vector_register<Dst>& dst, const tilevl_host::vector_register<T>& src) {
  tilevl_host::count_vector(tilevl_host::Vector::permute);
  tilevl_host::unpack(dst, src, true);
}
template <typename T>
inline void asc_squeeze(tilevl_host::vector_register<T>& dst, const tilevl_host::vector_register<T>& src,
                        const vector_bool& mask) {
  tilevl_host::count_vector(tilevl_host::Vector::permute);
  tilevl_host::squeeze(dst, src, mask);
}
template <typename T>
inline void asc_unsqueeze(tilevl_host::vector_register<T>& dst, const vector_bool& mask) {
  tilevl_host::count_vector(tilevl_host::Vector::permute);
  tilevl_host::unsqueeze(dst, mask);
}
