// Which thread of a SIMT launch touched which byte since the last barrier, to find two threads on one byte.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <cstring>

#include "tilevl_host/convert.h"

namespace tilevl_host {

// The accesses to one byte in one epoch, the time between two barriers. A state of an older epoch says nothing. A step is the
// warp's count of its own synchronisations at the time of the access.
struct ByteAccesses {
  uint64_t epoch : 20;
  uint64_t written : 1;
  uint64_t writer : 11;
  uint64_t write_step : 9;
  uint64_t atomic : 1;  // the write was an atomic
  uint64_t read : 1;
  uint64_t reader : 11;
  uint64_t read_step : 9;
  uint64_t more_readers : 1;
};
static_assert(sizeof(ByteAccesses) == 8);

class RaceTable {
 public:
  // Forgets all accesses: a barrier.
  TILEVL_HOST_PURE void next_epoch() {
    std::memset(steps_, 0, sizeof steps_);
    if (++epoch_ < (1u << 20)) return;
    release_pages();
    epoch_ = 1;
  }

  TILEVL_HOST_PURE void start_launch() {
    if (used_ > max_kept_pages) release_pages();
    next_epoch();
  }

  // What the lanes of a warp did before is ordered before what they do from now on.
  TILEVL_HOST_PURE void synchronise_warp(uint32_t warp) {
    if (++steps_[warp] == (1u << 9)) next_epoch();
  }

  // The other thread, where this access and an earlier one may come in either order; else -1.
  TILEVL_HOST_PURE int record(uint64_t address, uint32_t bytes, uint32_t thread, bool write, bool atomic) {
    ByteAccesses first = {.epoch = epoch_};  // the state after this access, if it is the epoch's first to a byte
    record_byte(first, thread, write, atomic);
    const uint64_t first_bits = bits_as<uint64_t>(first);
    int other = -1;
    for (uint32_t done = 0; done < bytes;) {
      const uint64_t offset = (address + done) % page_bytes;
      ByteAccesses* const states = page((address + done) / page_bytes) + offset;
      const uint32_t count = bytes - done < page_bytes - offset ? bytes - done : static_cast<uint32_t>(page_bytes - offset);
      for (uint32_t i = 0; i < count; ++i) {
        const uint64_t bits = bits_as<uint64_t>(states[i]);
        if (bits == first_bits) continue;
        if (states[i].epoch != epoch_) {
          states[i] = first;
          continue;
        }
        const int found = record_byte(states[i], thread, write, atomic);
        if (other < 0) other = found;
      }
      done += count;
    }
    return other;
  }

 private:
  static constexpr uint64_t page_bytes = 4096;
  static constexpr uint64_t max_kept_pages = 2048;  // 64 MiB of states

  TILEVL_HOST_PURE bool ordered(uint32_t before, uint32_t step, uint32_t thread) const {
    return before == thread || (before / 32 == thread / 32 && step < steps_[thread / 32]);
  }

  TILEVL_HOST_PURE int record_byte(ByteAccesses& state, uint32_t thread, bool write, bool atomic) {
    int other = -1;
    const bool unordered_write = state.written && !ordered(state.writer, state.write_step, thread);
    const bool unordered_read = state.read && (state.more_readers || !ordered(state.reader, state.read_step, thread));
    if (unordered_write && !(atomic && state.atomic)) other = state.writer;
    else if (write && unordered_read) other = state.reader;
    if (write) {
      state.written = 1;
      state.writer = thread;
      state.write_step = steps_[thread / 32];
      state.atomic = atomic;
    } else {
      state.more_readers = unordered_read;
      state.read = 1;
      state.reader = thread;
      state.read_step = steps_[thread / 32];
    }
    return other;
  }

  TILEVL_HOST_PURE ByteAccesses* page(uint64_t number) {
    if (number == last_number_) return last_page_;
    if (used_ * 2 >= capacity_) grow();
    Slot& slot = find(number);
    if (slot.page == nullptr) {
      slot = {number, static_cast<ByteAccesses*>(std::calloc(page_bytes, sizeof(ByteAccesses)))};
      ++used_;
    }
    last_number_ = number;
    last_page_ = slot.page;
    return slot.page;
  }

  struct Slot {
    uint64_t number;
    ByteAccesses* page;
  };

  TILEVL_HOST_PURE Slot& find(uint64_t number) {
    for (uint64_t at = number * 0x9e3779b97f4a7c15u >> 20;; ++at) {
      Slot& slot = slots_[at & (capacity_ - 1)];
      if (slot.page == nullptr || slot.number == number) return slot;
    }
  }

  TILEVL_HOST_PURE void grow() {
    Slot* const old = slots_;
    const uint64_t old_capacity = capacity_;
    capacity_ = capacity_ == 0 ? 256 : 2 * capacity_;
    slots_ = static_cast<Slot*>(std::calloc(capacity_, sizeof(Slot)));
    for (uint64_t i = 0; i < old_capacity; ++i)
      if (old[i].page != nullptr) find(old[i].number) = old[i];
    std::free(old);
  }

  TILEVL_HOST_PURE void release_pages() {
    for (uint64_t i = 0; i < capacity_; ++i) std::free(slots_[i].page);
    std::free(slots_);
    slots_ = nullptr;
    capacity_ = used_ = 0;
    last_number_ = ~uint64_t{0};
    last_page_ = nullptr;
  }

  Slot* slots_ = nullptr;
  uint64_t capacity_ = 0;
  uint64_t used_ = 0;
  uint64_t last_number_ = ~uint64_t{0};
  ByteAccesses* last_page_ = nullptr;
  uint32_t epoch_ = 0;
  uint32_t steps_[64] = {};  // by warp
};

}  // namespace tilevl_host
