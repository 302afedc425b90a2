// Gathers and scatters: by element and by 32-byte block of UB, and by lane of a register.
#pragma once

#include "tilevl_host/vector_memory.h"

namespace tilevl_host {

template <typename I>
concept lane_index = std::is_same_v<I, uint16_t> || std::is_same_v<I, uint32_t>;

// How many data lanes an index register serves. 8-bit data and 16-bit data under 32-bit indices lie in every other lane.
template <typename Dst, typename I>
inline constexpr int gather_step = static_cast<int>(sizeof(I) / sizeof(Dst) > 1 ? sizeof(I) / sizeof(Dst) : 1);

template <typename Dst, typename T, lane_index I>
inline constexpr bool can_gather = (sizeof(T) == 1 && sizeof(I) == 2 && sizeof(Dst) <= 2) ||
                                   (sizeof(T) == 2 && sizeof(Dst) == 2) ||
                                   (sizeof(T) == 4 && sizeof(Dst) == 4 && sizeof(I) == 4);

// One element of UB to a lane; an 8-bit one is extended with zeros, signed or not.
template <typename Dst, typename T>
TILEVL_HOST_INLINE void gather_lane(Dst& lane, const T* from) {
  word<sizeof(T)> bits;
  ub_load(from, &bits, sizeof(T), sizeof(T), "asc_gather");
  if constexpr (sizeof(T) == sizeof(Dst)) {
    std::memcpy(&lane, &bits, sizeof bits);
  } else {
    lane = static_cast<Dst>(bits);
  }
}

template <typename T, std::unsigned_integral I>
TILEVL_HOST_REGISTER_OP void gather_register(vector_register<T>& dst, const vector_register<T>& src,
                                             const vector_register<I>& index) {
  static_assert(sizeof(I) == sizeof(T), "asc_gather: indices must be as wide as the data");
  vector_register<T> result;
  for (int i = 0; i < result.lanes; ++i) result.lane[i] = src.lane[index.lane[i] % result.lanes];
  dst = result;
}

inline void require_base(const void* base, const char* name) {
  if (reinterpret_cast<uint64_t>(base) % block_bytes != 0)
    fault("alignment", "%s: base must be a multiple of 32 bytes, got %p", name, base);
}

// Sets in `seen` the elements that a scatter writes; two lanes that disagree about one leave it undefined.
template <typename T, lane_index I>
TILEVL_HOST_REGISTER_OP void check_scatter(const vector_register<T>& data, const vector_register<I>& index,
                                           const vector_bool& mask, int step) {
  for (int i = 0; i < index.lanes && i * step < data.lanes; ++i) {
    if (!mask.active<T>(i * step)) continue;
    for (int j = 0; j < i; ++j) {
      if (!mask.active<T>(j * step) || index.lane[i] != index.lane[j]) continue;
      if (std::memcmp(&data.lane[i * step], &data.lane[j * step], sizeof(T)) == 0) continue;
      report("scatter", "asc_scatter: lanes %d and %d write different values to element %u, and one unspecified value wins, at %s", j,
             i, static_cast<unsigned>(index.lane[i]), current_place().text);
      return;
    }
  }
}

}  // namespace tilevl_host

// dst[i] = base[index[i]]; inactive lanes and the lanes between are zero.
template <typename Dst, typename T, tilevl_host::lane_index I>
TILEVL_HOST_INLINE void asc_gather(tilevl_host::vector_register<Dst>& dst, T* base,
                                   const tilevl_host::vector_register<I>& index, const vector_bool& mask) {
  static_assert(tilevl_host::can_gather<Dst, T, I>,
                "asc_gather takes 8- and 16-bit data with 16-bit indices, 16- and 32-bit data with 32-bit ones");
  constexpr int step = tilevl_host::gather_step<Dst, I>;
  tilevl_host::count_vector(tilevl_host::Vector::gather);
  tilevl_host::require_base(base, "asc_gather");
  tilevl_host::vector_register<Dst> result;
  std::memset(&result, 0, sizeof result);
  for (int i = 0; i * step < result.lanes && i < index.lanes; ++i)
    if (mask.active<Dst>(i * step)) tilevl_host::gather_lane(result.lane[i * step], base + index.lane[i]);
  dst = result;
}

// dst[i] = src[index[i] mod lanes], in all lanes.
template <typename T, std::unsigned_integral I>
inline void asc_gather(tilevl_host::vector_register<T>& dst, const tilevl_host::vector_register<T>& src,
                       const tilevl_host::vector_register<I>& index) {
  tilevl_host::count_vector(tilevl_host::Vector::permute);
  tilevl_host::gather_register(dst, src, index);
}

// Eight blocks; lanes 0 to 7 of the index hold byte offsets, the mask's first eight 32-bit lanes choose the blocks.
template <typename T>
TILEVL_HOST_INLINE void asc_gather_datablock(tilevl_host::vector_register<T>& dst, T* base, const vector_u32& index,
                                             const vector_bool& mask) {
  tilevl_host::count_vector(tilevl_host::Vector::gather);
  tilevl_host::require_base(base, "asc_gather_datablock");
  tilevl_host::vector_register<T> result = dst;
  if (!tilevl_host::options().block_gather_keeps_inactive) std::memset(&result, 0, sizeof result);
  for (int b = 0; b < 8; ++b) {
    if (!mask.active<uint32_t>(b)) continue;
    if (index.lane[b] % tilevl_host::block_bytes != 0)
      tilevl_host::fault("alignment", "asc_gather_datablock: offset %d must be a multiple of 32 bytes, got %u", b, index.lane[b]);
    tilevl_host::ub_load(reinterpret_cast<const uint8_t*>(base) + index.lane[b], &result.lane[b * result.lanes_per_block],
                         tilevl_host::block_bytes, tilevl_host::block_bytes, "asc_gather_datablock");
  }
  dst = result;
}
template <typename T>
TILEVL_HOST_INLINE void asc_gather_datablock(tilevl_host::vector_register<T>& dst, T* base, const vector_u32& index) {
  asc_gather_datablock(dst, base, index, vector_bool{{~0ull, ~0ull, ~0ull, ~0ull}});
}

// base[index[i]] = data[i] for active lanes. Of 8-bit data only the even lanes are stored: lane 2j by index j.
template <typename T, tilevl_host::lane_index I>
TILEVL_HOST_INLINE void asc_scatter(T* base, const tilevl_host::vector_register<T>& data,
                                    const tilevl_host::vector_register<I>& index, const vector_bool& mask) {
  static_assert((sizeof(T) <= 2 && sizeof(I) == 2) || (sizeof(T) == 4 && sizeof(I) == 4),
                "asc_scatter takes 8- and 16-bit data with 16-bit indices, 32-bit data with 32-bit ones");
  constexpr int step = sizeof(T) == 1 ? 2 : 1;
  tilevl_host::count_vector(tilevl_host::Vector::scatter);
  tilevl_host::require_base(base, "asc_scatter");
  tilevl_host::check_scatter(data, index, mask, step);
  for (int i = 0; i < index.lanes; ++i)
    if (mask.active<T>(i * step)) tilevl_host::ub_store(base + index.lane[i], &data.lane[i * step], sizeof(T), sizeof(T));
}
