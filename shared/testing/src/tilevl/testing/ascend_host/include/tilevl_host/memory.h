// Access to the memories of the chip. Everything an instruction reads or writes goes through these functions: they check
// the owner, bounds, alignment, that scratch was written before it is read, and order against the other pipes.
#pragma once

#include <cstdint>

namespace tilevl_host {

enum class Space : uint8_t { gm, ub, l1, l0a, l0b, l0c };
constexpr int kSpaces = 6;
constexpr uint32_t kCapacity[kSpaces] = {0, 248 * 1024, 512 * 1024, 64 * 1024, 64 * 1024, 256 * 1024};

// Copies `bytes` out of a memory of the current core. `alignment` in bytes (1: none). Call from always-inlined code: the
// return address is what tells the source line.
void load(Space space, const void* from, void* to, uint32_t bytes, uint32_t alignment);
void store(Space space, void* to, const void* from, uint32_t bytes, uint32_t alignment);

// Stores the bytes whose bit is set in `byte_mask` (bit i of byte i/8), at most 512 bytes.
void store_masked(Space space, void* to, const void* from, uint32_t bytes, const uint8_t* byte_mask, uint32_t alignment);

// The check alone, for a caller that moves the bytes itself. Any space: UB or GM is told by the address.
void touch_read(const void* from, uint32_t bytes);
void touch_write(void* to, uint32_t bytes);
void touch_atomic(void* to, uint32_t bytes);

// Whether the address lies in the UB window of the current core.
bool in_ub(const void* address);

// Base of the current core's window of a memory: what a literal-zero pointer of the generated source becomes.
uint8_t* window(Space space);

}  // namespace tilevl_host
