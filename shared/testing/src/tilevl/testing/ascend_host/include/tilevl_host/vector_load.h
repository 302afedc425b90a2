// Loads from UB to a register in every distribution. Offsets count elements; a post-update form loads at the old pointer and then
// advances it.
#pragma once

#include "tilevl_host/vector_memory.h"

namespace tilevl_host {

template <typename T>
inline void load_norm(vector_register<T>& dst, const T* src) {
  std::memcpy(&dst, ub_read(src, register_bytes, block_bytes, "asc_loadalign"), register_bytes);
}

template <typename T>
inline void load_brc_elem(vector_register<T>& dst, const T* src) {
  T value;
  std::memcpy(&value, ub_read(src, sizeof(T), sizeof(T), "asc_loadalign_brc_elem"), sizeof(T));
  for (T& lane : dst.lane) lane = value;
}

template <typename T>
inline void load_brc_datablock(vector_register<T>& dst, const T* src) {
  const uint8_t* block = ub_read(src, block_bytes, block_bytes, "asc_loadalign_brc_datablock");
  for (int b = 0; b < 8; ++b) std::memcpy(reinterpret_cast<uint8_t*>(&dst) + b * block_bytes, block, block_bytes);
}

template <typename T>
inline void load_brc_elem2datablock(vector_register<T>& dst, const T* src) {
  static_assert(sizeof(T) == 2 || sizeof(T) == 4, "asc_loadalign_brc_elem2datablock takes 16- and 32-bit elements");
  T value[8];
  std::memcpy(value, ub_read(src, sizeof value, 8 * sizeof(T), "asc_loadalign_brc_elem2datablock"), sizeof value);
  for (int i = 0; i < dst.lanes; ++i) dst.lane[i] = value[i / dst.lanes_per_block];
}

template <typename T>
inline void load_upsample(vector_register<T>& dst, const T* src) {
  static_assert(sizeof(T) <= 2, "asc_loadalign_upsample takes 8- and 16-bit elements");
  T value[vector_register<T>::lanes / 2];
  std::memcpy(value, ub_read(src, sizeof value, block_bytes, "asc_loadalign_upsample"), sizeof value);
  for (int i = 0; i < dst.lanes; ++i) dst.lane[i] = value[i / 2];
}

template <typename T>
inline void load_downsample(vector_register<T>& dst, const T* src) {
  static_assert(sizeof(T) <= 2, "asc_loadalign_downsample takes 8- and 16-bit elements");
  T value[vector_register<T>::lanes * 2];
  std::memcpy(value, ub_read(src, sizeof value, block_bytes, "asc_loadalign_downsample"), sizeof value);
  for (int i = 0; i < dst.lanes; ++i) dst.lane[i] = value[2 * i];
}

// Every Factor-th lane holds an element, the lanes between are zero: elements widened with zeros.
template <int Factor, typename T>
inline void load_spread(vector_register<T>& dst, const T* src, const char* name) {
  T value[vector_register<T>::lanes / Factor];
  std::memcpy(value, ub_read(src, sizeof value, block_bytes, name), sizeof value);
  std::memset(&dst, 0, register_bytes);
  for (int i = 0; i < dst.lanes / Factor; ++i) dst.lane[Factor * i] = value[i];
}

template <typename T>
inline void load_unpack(vector_register<T>& dst, const T* src) {
  static_assert(sizeof(T) <= 4, "asc_loadalign_unpack takes 8-, 16- and 32-bit elements");
  load_spread<2>(dst, src, "asc_loadalign_unpack");
}

template <typename T>
inline void load_unpack4(vector_register<T>& dst, const T* src) {
  static_assert(sizeof(T) == 1, "asc_loadalign_unpack4 takes 8-bit elements");
  load_spread<4>(dst, src, "asc_loadalign_unpack4");
}

template <typename T>
inline void load_deinterleaved(vector_register<T>& even, vector_register<T>& odd, const T* src) {
  T value[vector_register<T>::lanes * 2];
  std::memcpy(value, ub_read(src, sizeof value, block_bytes, "asc_loadalign_deintlv"), sizeof value);
  for (int i = 0; i < even.lanes; ++i) {
    even.lane[i] = value[2 * i];
    odd.lane[i] = value[2 * i + 1];
  }
}

// The address register of a hardware loop: its step is known, the loop's counter is not visible to a C++ program.
struct address_register {
  uint32_t step;
};

inline const uint8_t* mask_source(const uint32_t* src, int32_t offset, int bytes, int alignment, const char* name) {
  return ub_read(reinterpret_cast<const uint8_t*>(src) + offset, bytes, alignment, name);
}

}  // namespace tilevl_host

#define TILEVL_HOST_LOAD(NAME, FUNCTION)                                                            \
  template <typename T, std::integral Offset>                                                       \
  inline void NAME(tilevl_host::vector_register<T>& dst, T* src, Offset offset) {                   \
    tilevl_host::issue(tilevl_host::vector_kind::load);                                             \
    tilevl_host::FUNCTION(dst, src + offset);                                                       \
  }                                                                                                 \
  template <typename T>                                                                             \
  inline void NAME(tilevl_host::vector_register<T>& dst, T* src) { NAME(dst, src, 0); }             \
  template <typename T, std::integral Offset>                                                       \
  inline void NAME##_postupdate(tilevl_host::vector_register<T>& dst, T*& src, Offset offset) {     \
    NAME(dst, src, 0);                                                                              \
    src += offset;                                                                                  \
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

template <typename T, std::integral Offset>
inline void asc_loadalign_deintlv(tilevl_host::vector_register<T>& even, tilevl_host::vector_register<T>& odd, T* src,
                                  Offset offset) {
  tilevl_host::issue(tilevl_host::vector_kind::load);
  tilevl_host::load_deinterleaved(even, odd, src + offset);
}
template <typename T>
inline void asc_loadalign_deintlv(tilevl_host::vector_register<T>& even, tilevl_host::vector_register<T>& odd, T* src) {
  asc_loadalign_deintlv(even, odd, src, 0);
}
template <typename T>
inline void asc_loadalign_deintlv(tilevl_host::vector_register<T>&, tilevl_host::vector_register<T>&, T*,
                                  tilevl_host::address_register) {
  tilevl_host::report_vector_fault("asc_loadalign_deintlv",
                                   "an address register counts a hardware loop, which the model cannot see: give an offset");
}

inline tilevl_host::address_register asc_update_addr_reg_b8(uint32_t step) { return {step}; }
inline tilevl_host::address_register asc_update_addr_reg_b16(uint32_t step) { return {step}; }
inline tilevl_host::address_register asc_update_addr_reg_b32(uint32_t step) { return {step}; }

// Masks from UB; the offset counts bytes.
inline void asc_loadalign(vector_bool& dst, uint32_t* src, int32_t offset) {
  tilevl_host::issue(tilevl_host::vector_kind::load);
  std::memcpy(&dst, tilevl_host::mask_source(src, offset, 32, 32, "asc_loadalign (mask)"), 32);
}
inline void asc_loadalign_upsample(vector_bool& dst, uint32_t* src, int32_t offset) {
  tilevl_host::issue(tilevl_host::vector_kind::load);
  const uint8_t* bits = tilevl_host::mask_source(src, offset, 16, 16, "asc_loadalign_upsample (mask)");
  for (int i = 0; i < 256; ++i) dst.set_bit(i, (bits[i / 16] >> (i / 2 % 8)) & 1);
}
inline void asc_loadalign_downsample(vector_bool& dst, uint32_t* src, int32_t offset) {
  tilevl_host::issue(tilevl_host::vector_kind::load);
  const uint8_t* bits = tilevl_host::mask_source(src, offset, 64, 32, "asc_loadalign_downsample (mask)");
  for (int i = 0; i < 256; ++i) dst.set_bit(i, (bits[i / 4] >> (2 * i % 8)) & 1);
}
