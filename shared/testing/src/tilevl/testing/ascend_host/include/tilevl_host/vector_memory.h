// How SIMD functions reach UB, and the order of what one of them stores and loads again.
//
// Inside a SIMD function the loads and stores are not ordered by themselves: reading bytes that it has stored needs an
// asc_mem_bar between. A load without one is reported.
#pragma once

#include <concepts>

#include "tilevl_host/counters.h"
#include "tilevl_host/faults.h"
#include "tilevl_host/lanes.h"
#include "tilevl_host/memory.h"
#include "tilevl_host/pipes.h"
#include "tilevl_host/tags.h"

namespace tilevl_host {

// The bytes stored since the last barrier, a cell for each 32-byte block of UB. A cell of an older epoch is empty.
struct StoredBytes {
  struct Cell {
    uint32_t epoch;
    uint32_t bytes;
    const void* code;  // of the last store
  };
  static constexpr uint32_t blocks = kCapacity[static_cast<int>(Space::ub)] / block_bytes;
  Cell cells[blocks] = {};
  uint32_t epoch = 1;
};
[[gnu::visibility("hidden")]] inline constinit StoredBytes stored_bytes{};

inline void begin_vector_function() { ++stored_bytes.epoch; }

TILEVL_HOST_PURE inline uint32_t bits_from(uint32_t first, uint32_t count) {
  return (count >= 32 ? ~0u : (1u << count) - 1u) << first;
}

// Calls visit(cell, bits) for each block that [address, address + bytes) of UB touches. An address below the capacity is an offset.
template <typename Visit>
TILEVL_HOST_PURE inline void visit_blocks(const void* address, uint32_t bytes, Visit visit) {
  uint64_t offset = reinterpret_cast<uint64_t>(address);
  if (offset >= kCapacity[static_cast<int>(Space::ub)]) offset -= reinterpret_cast<uint64_t>(window(Space::ub));
  for (uint32_t done = 0; done < bytes;) {
    const uint32_t at = static_cast<uint32_t>(offset) + done, inside = at % block_bytes;
    const uint32_t count = block_bytes - inside < bytes - done ? block_bytes - inside : bytes - done;
    visit(stored_bytes.cells[at / block_bytes], inside, count, done);
    done += count;
  }
}

// `byte_mask` has a bit for each byte and 8 bytes to spare, or is null for all.
TILEVL_HOST_REGISTER_OP inline void remember_store(const void* address, uint32_t bytes, const uint8_t* byte_mask) {
  const void* const code = __builtin_return_address(0);
  visit_blocks(address, bytes, [byte_mask, code](StoredBytes::Cell& cell, uint32_t inside, uint32_t count, uint32_t done) TILEVL_HOST_LANE {
    uint32_t bits = bits_from(inside, count);
    if (byte_mask != nullptr) {
      uint64_t chosen = 0;  // the bits from `done` on; a row has room behind its mask
      std::memcpy(&chosen, byte_mask + done / 8, sizeof chosen);
      bits &= static_cast<uint32_t>(chosen >> (done % 8)) << inside;
    }
    if (cell.epoch != stored_bytes.epoch) cell = {stored_bytes.epoch, 0, nullptr};
    cell.bytes |= bits;
    cell.code = code;
  });
}

TILEVL_HOST_REGISTER_OP inline void check_load(const void* address, uint32_t bytes, const char* name) {
  const void* stored_by = nullptr;
  visit_blocks(address, bytes, [&stored_by](StoredBytes::Cell& cell, uint32_t inside, uint32_t count, uint32_t) TILEVL_HOST_LANE {
    if (cell.epoch == stored_bytes.epoch && (cell.bytes & bits_from(inside, count)) != 0) stored_by = cell.code;
  });
  if (stored_by == nullptr) return;
  report("vector_order", "%s at %s reads UB bytes that the same SIMD function stored at %s, with no asc_mem_bar(VST_VLD) between",
         name, place(__builtin_return_address(0)).text, place(stored_by).text);
}

TILEVL_HOST_INLINE void ub_load(const void* from, void* to, uint32_t bytes, uint32_t alignment, const char* name) {
  load(Space::ub, from, to, bytes, alignment);
  check_load(from, bytes, name);
}
TILEVL_HOST_INLINE void ub_store(void* to, const void* from, uint32_t bytes, uint32_t alignment) {
  store(Space::ub, to, from, bytes, alignment);
  remember_store(to, bytes, nullptr);
}

// The bytes of a store, in order, and which of them are written.
struct StoreRow {
  uint8_t data[2 * register_bytes];
  uint8_t mask[2 * register_bytes / 8 + 8];
};
TILEVL_HOST_INLINE void ub_store_row(void* to, const StoreRow& row, uint32_t bytes, uint32_t alignment) {
  store_masked(Space::ub, to, row.data, bytes, row.mask, alignment);
  remember_store(to, bytes, row.mask);
}

// Puts value(i), of type E, where active(i) says so, for the elements i of a store.
template <typename E, typename Active, typename Value>
TILEVL_HOST_REGISTER_OP void fill_row(StoreRow& row, int elements, Active active, Value value) {
  std::memset(row.mask, 0, sizeof row.mask);
  for (int i = 0; i < elements; ++i) {
    const E element = value(i);
    std::memcpy(row.data + i * sizeof(E), &element, sizeof(E));
    const int first = i * static_cast<int>(sizeof(E));
    if (active(i)) row.mask[first / 8] |= static_cast<uint8_t>(((1u << sizeof(E)) - 1) << (first % 8));
  }
}

}  // namespace tilevl_host

// Orders the UB accesses inside a SIMD function. Only what orders loads after stores matters to the check.
template <tilevl_host::vector_barrier Barrier>
inline void asc_mem_bar(tilevl_host::tag<tilevl_host::vector_barrier, Barrier>) {
  using enum tilevl_host::vector_barrier;
  if (Barrier == vst_vld || Barrier == vv_all) tilevl_host::begin_vector_function();
}
