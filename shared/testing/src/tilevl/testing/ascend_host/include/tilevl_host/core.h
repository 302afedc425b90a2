// What runs now: a block, one of its cores, and the pipe of the instruction.
#pragma once

#include <cstdint>

enum pipe_t : uint8_t {
  PIPE_S = 0,
  PIPE_V = 1,
  PIPE_M = 2,
  PIPE_MTE1 = 3,
  PIPE_MTE2 = 4,
  PIPE_MTE3 = 5,
  PIPE_ALL = 6,
  PIPE_FIX = 10,
};

namespace tilevl_host {

enum class CoreKind : uint8_t { aic, aiv };

struct Identity {
  int32_t block;         // block_idx
  int32_t grid;          // number of blocks
  CoreKind kind;
  int32_t sub_block;     // 0 on the AIC, 0 or 1 on an AIV
  int32_t sub_blocks;    // 1 on the AIC; on an AIV 2 in a mixed kernel, else 1
};
const Identity& self();

// Fibers: stacks that are switched by hand, on one thread. For SIMT threads inside one vector operation.
struct Fiber;
Fiber* fiber_create(void (*entry)(void*), void* argument);  // from a pool; entry must end with fiber_exit
void fiber_resume(Fiber* fiber);                            // runs it until it yields or exits
void fiber_yield();                                         // back to whoever resumed the running fiber
[[noreturn]] void fiber_exit();                             // the fiber goes back to the pool

// Set while the threads of a SIMT launch run: called for each of their accesses (raw ones too) after the common checks.
using SimtAccess = void (*)(const void* address, uint32_t bytes, bool write, bool atomic);
void set_simt_access(SimtAccess hook);

}  // namespace tilevl_host
