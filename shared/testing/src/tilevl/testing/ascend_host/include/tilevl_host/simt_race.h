// Which thread of a SIMT launch touched which byte since the last barrier, to find two threads on one byte.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <cstring>

#include "tilevl_host/attributes.h"

namespace tilevl_host {

struct ByteAccess {
  uint16_t thread;
  uint16_t valid;
  uint32_t step;  // the warp's count of coalesced synchronisations at the time
};

// The accesses to four neighbouring bytes in one epoch (the time between two barriers).
struct RaceCell {
  uint64_t word;
  uint32_t epoch;
  uint8_t atomic;   // bit for each byte: the write was an atomic
  uint8_t readers;  // bit for each byte: more than one thread has read
  ByteAccess write[4];
  ByteAccess read[4];
};

struct RaceTable {
  RaceCell* cells = nullptr;
  uint64_t capacity = 0;
  uint64_t used = 0;
  uint32_t epoch = 1;
  uint32_t steps[64] = {};  // by warp

  // Forgets everything: a barrier, or a new launch.
  TILEVL_HOST_PURE void next_epoch() {
    ++epoch;
    if (used * 2 > capacity) resize();
  }

  // The other thread, where this access and an earlier one may come in either order; else -1.
  TILEVL_HOST_PURE int record(uint64_t address, uint32_t bytes, uint16_t thread, bool write, bool atomic) {
    int other = -1;
    for (uint32_t i = 0; i < bytes; ++i) {
      const int found = record_byte(find((address + i) >> 2), static_cast<int>((address + i) & 3), thread, write, atomic);
      if (other < 0) other = found;
    }
    return other;
  }

 private:
  TILEVL_HOST_PURE bool ordered(const ByteAccess& before, uint16_t thread) const {
    if (!before.valid || before.thread == thread) return true;
    return before.thread / 32 == thread / 32 && before.step < steps[thread / 32];
  }

  TILEVL_HOST_PURE int record_byte(RaceCell& cell, int byte, uint16_t thread, bool write, bool atomic) {
    const uint8_t bit = static_cast<uint8_t>(1u << byte);
    ByteAccess& last_write = cell.write[byte];
    ByteAccess& last_read = cell.read[byte];
    int other = -1;
    if (!ordered(last_write, thread) && !(atomic && (cell.atomic & bit))) other = last_write.thread;
    if (write && other < 0 && !ordered(last_read, thread)) other = last_read.thread;
    if (write && other < 0 && (cell.readers & bit)) other = last_read.thread;
    const ByteAccess now{thread, 1, steps[thread / 32]};
    if (write) {
      last_write = now;
      cell.atomic = static_cast<uint8_t>(atomic ? cell.atomic | bit : cell.atomic & ~bit);
    } else {
      if (!ordered(last_read, thread)) cell.readers |= bit;
      last_read = now;
    }
    return other;
  }

  TILEVL_HOST_PURE RaceCell& find(uint64_t word) {
    if (used * 2 >= capacity) resize();
    for (uint64_t at = word * 0x9e3779b97f4a7c15u >> 20;; ++at) {
      RaceCell& cell = cells[at & (capacity - 1)];
      if (cell.word == word && cell.epoch == epoch) return cell;
      if (cell.word != 0 && cell.word != word) continue;
      if (cell.word == 0) ++used;
      std::memset(&cell, 0, sizeof cell);
      cell.word = word;
      cell.epoch = epoch;
      return cell;
    }
  }

  // Keeps the cells of this epoch only, in twice the room if they fill a quarter.
  TILEVL_HOST_PURE void resize() {
    RaceCell* old = cells;
    const uint64_t old_capacity = capacity;
    uint64_t live = 0;
    for (uint64_t i = 0; i < old_capacity; ++i) live += old[i].word != 0 && old[i].epoch == epoch;
    if (capacity == 0) capacity = 1024;
    while (live * 4 >= capacity) capacity *= 2;
    cells = static_cast<RaceCell*>(std::calloc(capacity, sizeof(RaceCell)));
    used = 0;
    for (uint64_t i = 0; i < old_capacity; ++i)
      if (old[i].word != 0 && old[i].epoch == epoch) find(old[i].word) = old[i];
    std::free(old);
  }
};

}  // namespace tilevl_host
