// Loads from UB to a register in every distribution. Offsets count elements; a post-update form loads at the old pointer and then
// advances it.
#pragma once

#include "tilevl_host/vector_memory.h"

namespace tilevl_host {

// The bytes of a load before they are spread over the lanes.
template <typename T, int Count>
struct alignas(64) LoadedRow {
  T element[Count];
};

// dst lane i becomes element source(i), or zero where source(i) is negative.
template <typename T, int Count, typename Source>
TILEVL_HOST_REGISTER_OP void spread(vector_register<T>& dst, const LoadedRow<T, Count>& row, Source source) {
  for (int i = 0; i < dst.lanes; ++i) {
    const int at = source(i);
    if (at < 0) {
      std::memset(&dst.lane[i], 0, sizeof(T));
    } else {
      dst.lane[i] = row.element[at];
    }
  }
}

template <typename T>
TILEVL_HOST_INLINE void load_norm(vector_register<T>& dst, const T* src, const char* name) {
  ub_load(src, &dst, register_bytes, block_bytes, name);
}

template <typename T>
TILEVL_HOST_INLINE void load_brc_elem(vector_register<T>& dst, const T* src, const char* name) {
  LoadedRow<T, 1> row;
  ub_load(src, &row, sizeof(T), sizeof(T), name);
  spread(dst, row, [](int) TILEVL_HOST_LANE { return 0; });
}

template <typename T>
TILEVL_HOST_INLINE void load_brc_datablock(vector_register<T>& dst, const T* src, const char* name) {
  constexpr int count = vector_register<T>::lanes_per_block;
  LoadedRow<T, count> row;
  ub_load(src, &row, block_bytes, block_bytes, name);
  spread(dst, row, [](int i) TILEVL_HOST_LANE { return i % count; });
}

// Element i fills block i.
template <typename T>
TILEVL_HOST_INLINE void load_brc_elem2datablock(vector_register<T>& dst, const T* src, const char* name) {
  static_assert(sizeof(T) == 2 || sizeof(T) == 4, "asc_loadalign_brc_elem2datablock takes 16- and 32-bit elements");
  LoadedRow<T, 8> row;
  ub_load(src, &row, 8 * sizeof(T), 8 * sizeof(T), name);
  spread(dst, row, [](int i) TILEVL_HOST_LANE { return i / vector_register<T>::lanes_per_block; });
}

template <typename T>
TILEVL_HOST_INLINE void load_upsample(vector_register<T>& dst, const T* src, const char* name) {
  static_assert(sizeof(T) <= 2, "asc_loadalign_upsample takes 8- and 16-bit elements");
  LoadedRow<T, vector_register<T>::lanes / 2> row;
  ub_load(src, &row, register_bytes / 2, block_bytes, name);
  spread(dst, row, [](int i) TILEVL_HOST_LANE { return i / 2; });
}

template <typename T>
TILEVL_HOST_INLINE void load_downsample(vector_register<T>& dst, const T* src, const char* name) {
  static_assert(sizeof(T) <= 2, "asc_loadalign_downsample takes 8- and 16-bit elements");
  LoadedRow<T, vector_register<T>::lanes * 2> row;
  ub_load(src, &row, register_bytes * 2, block_bytes, name);
  spread(dst, row, [](int i) TILEVL_HOST_LANE { return 2 * i; });
}

// Every Factor-th lane holds an element and the lanes between are zero: elements widened with zeros.
template <int Factor, typename T>
TILEVL_HOST_INLINE void load_widened(vector_register<T>& dst, const T* src, const char* name) {
  LoadedRow<T, vector_register<T>::lanes / Factor> row;
  ub_load(src, &row, register_bytes / Factor, block_bytes, name);
  spread(dst, row, [](int i) TILEVL_HOST_LANE { return i % Factor == 0 ? i / Factor : -1; });
}

template <typename T>
TILEVL_HOST_INLINE void load_unpack(vector_register<T>& dst, const T* src, const char* name) {
  static_assert(sizeof(T) <= 4, "asc_loadalign_unpack takes 8-, 16- and 32-bit elements");
  load_widened<2>(dst, src, name);
}

template <typename T>
TILEVL_HOST_INLINE void load_unpack4(vector_register<T>& dst, const T* src, const char* name) {
  static_assert(sizeof(T) == 1, "asc_loadalign_unpack4 takes 8-bit elements");
  load_widened<4>(dst, src, name);
}

// The address register of a hardware loop: its step is known, the loop's counter is not visible to a C++ program.
struct AddressRegister {
  uint32_t step;
};

struct MaskBytes {
  uint8_t byte[64];
};

// Mask bit i becomes bit source(i) of the bytes.
template <typename Source>
TILEVL_HOST_REGISTER_OP void spread_bits(vector_bool& dst, const MaskBytes& bytes, Source source) {
  dst = vector_bool::none();
  for (int i = 0; i < 256; ++i) dst.set_bit(i, (bytes.byte[source(i) / 8] >> (source(i) % 8)) & 1);
}

TILEVL_HOST_INLINE MaskBytes load_mask(const uint32_t* src, int32_t offset, int count, int alignment, const char* name) {
  MaskBytes bytes;
  count_vector(Vector::load);
  ub_load(reinterpret_cast<const uint8_t*>(src) + offset, &bytes, count, alignment, name);
  return bytes;
}

}  // namespace tilevl_host

#define TILEVL_HOST_LOAD(NAME, FUNCTION)                                                                \
  template <typename T, std::integral Offset>                                                           \
  TILEVL_HOST_INLINE void NAME(tilevl_host::vector_register<T>& dst, T* src, Offset offset) {           \
    tilevl_host::count_vector(tilevl_host::Vector::load);                                               \
    tilevl_host::FUNCTION(dst, src + offset, #NAME);                                                    \
  }                                                                                                     \
  template <typename T>                                                                                 \
  TILEVL_HOST_INLINE void NAME(tilevl_host::vector_register<T>& dst, T* src) { NAME(dst, src, 0); }     \
  template <typename T, std::integral Offset>                                                           \
  TILEVL_HOST_INLINE void NAME##_postupdate(tilevl_host::vector_register<T>& dst, T*& src, Offset offset) { \
    NAME(dst, src, 0);                                                                                  \
    src += offset;                                                                                      \
  }

TILEVL_HOST_LOAD(asc_loadalign, load_norm)
TILEVL_HOST_LOAD(asc_loadalign_brc_elem, load_brc_elem)
TILEVL_HOST_LOAD(asc_loadalign_brc_datablock, load_brc_datablock)
TILEVL_HOST_LOAD(asc_loadalign_brc_elem2datablock, load_brc_elem2datablock)
TILEVL_HOST_LOAD(asc_loadalign_upsample, load_upsample)
TILEVL_HOST_LOAD(asc_loadalign_downsample, load_downsample)
TILEVL_HOST_LOAD(asc_loadalign_unpack, load_unpack)
TILEVL_HOST_LOAD(asc_loadalign_unpack4, load_unpack4)
#undef TILEVL_HOST_LOAD

// Even elements to one register, odd ones to the other.
template <typename T, std::integral Offset>
TILEVL_HOST_INLINE void asc_loadalign_deintlv(tilevl_host::vector_register<T>& even, tilevl_host::vector_register<T>& odd,
                                              T* src, Offset offset) {
  tilevl_host::count_vector(tilevl_host::Vector::load);
  tilevl_host::LoadedRow<T, tilevl_host::vector_register<T>::lanes * 2> row;
  tilevl_host::ub_load(src + offset, &row, 2 * tilevl_host::register_bytes, tilevl_host::block_bytes, "asc_loadalign_deintlv");
  tilevl_host::spread(even, row, [](int i) TILEVL_HOST_LANE { return 2 * i; });
  tilevl_host::spread(odd, row, [](int i) TILEVL_HOST_LANE { return 2 * i + 1; });
}
template <typename T>
TILEVL_HOST_INLINE void asc_loadalign_deintlv(tilevl_host::vector_register<T>& even, tilevl_host::vector_register<T>& odd,
                                              T* src) {
  asc_loadalign_deintlv(even, odd, src, 0);
}
template <typename T>
inline void asc_loadalign_deintlv(tilevl_host::vector_register<T>&, tilevl_host::vector_register<T>&, T*,
                                  tilevl_host::AddressRegister) {
  tilevl_host::fault("range", "asc_loadalign_deintlv: an address register counts a hardware loop, which the model cannot see; "
                              "give the offset in the pointer");
}

inline tilevl_host::AddressRegister asc_update_addr_reg_b8(uint32_t step) { return {step}; }
inline tilevl_host::AddressRegister asc_update_addr_reg_b16(uint32_t step) { return {step}; }
inline tilevl_host::AddressRegister asc_update_addr_reg_b32(uint32_t step) { return {step}; }

// Masks from UB; the offset counts bytes.
TILEVL_HOST_INLINE void asc_loadalign(vector_bool& dst, uint32_t* src, int32_t offset) {
  const auto bytes = tilevl_host::load_mask(src, offset, 32, 32, "asc_loadalign (mask)");
  tilevl_host::spread_bits(dst, bytes, [](int i) TILEVL_HOST_LANE { return i; });
}
TILEVL_HOST_INLINE void asc_loadalign_upsample(vector_bool& dst, uint32_t* src, int32_t offset) {
  const auto bytes = tilevl_host::load_mask(src, offset, 16, 16, "asc_loadalign_upsample (mask)");
  tilevl_host::spread_bits(dst, bytes, [](int i) TILEVL_HOST_LANE { return i / 2; });
}
TILEVL_HOST_INLINE void asc_loadalign_downsample(vector_bool& dst, uint32_t* src, int32_t offset) {
  const auto bytes = tilevl_host::load_mask(src, offset, 64, 32, "asc_loadalign_downsample (mask)");
  tilevl_host::spread_bits(dst, bytes, [](int i) TILEVL_HOST_LANE { return 2 * i; });
}
