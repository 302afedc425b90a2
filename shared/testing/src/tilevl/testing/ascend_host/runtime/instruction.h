// What the copies and the cube instructions share: who issues, and the ranges of their operands.
#pragma once

#include "state.h"
#include "tilevl_host/faults.h"
#include "tilevl_host/pipes.h"

namespace tilevl_host {

// While it lives, checks report the place of the call.
struct Instruction {
  explicit Instruction(const char* name, const void* place, CoreKind kind) : name(name) {
    acting.place = place;
    require_core(kind, name);
  }
  ~Instruction() { acting.place = nullptr; }
  Instruction(const Instruction&) = delete;

  void range(const char* what, int64_t value, int64_t low, int64_t high) const {
    if (value < low || value > high) {
      fault("range", "%s: %s must be %lld to %lld, got %lld, at %s", name, what, static_cast<long long>(low), static_cast<long long>(high),
            static_cast<long long>(value), current_place().text);
    }
  }
  void multiple(const char* what, int64_t value, int64_t of) const {
    if (value % of != 0) {
      fault("alignment", "%s: %s must be a multiple of %lld, got %lld, at %s", name, what, static_cast<long long>(of),
            static_cast<long long>(value), current_place().text);
    }
  }
  void require(bool condition, const char* rule) const {
    if (!condition) fault("range", "%s: %s, at %s", name, rule, current_place().text);
  }
  const char* const name;
};

inline void count_copy(Path path, uint64_t bytes, uint64_t bursts) {
  Counts& counts = acting.core->counts;
  counts.bytes[static_cast<int>(path)] += bytes;
  ++counts.descriptors[static_cast<int>(path)];
  counts.bursts[static_cast<int>(path)] += bursts;
}

// Writes to global memory as the store mode of the core says.
void store_gm(uint8_t* to, const uint8_t* from, int64_t bytes, Atomic operation, AtomicType type);

constexpr int64_t up(int64_t value, int64_t to) { return (value + to - 1) / to * to; }

}  // namespace tilevl_host
