// Launching the threads of a SIMT function, their barriers, and the operations that the lanes of a warp do together.
//
// Each thread runs on a stack of its own until it waits. When every thread of the block waits or has returned, the lanes that wait
// at one warp operation do it together; where lanes of a warp wait at different ones, the earliest in the code goes first, so
// that lanes that took a branch catch up. A block-wide barrier opens when all threads wait at it.
#pragma once

#include <xmmintrin.h>

#include <vector>

#include "tilevl_host/core.h"
#include "tilevl_host/counters.h"
#include "tilevl_host/faults.h"
#include "tilevl_host/pipes.h"
#include "tilevl_host/qualifiers.h"
#include "tilevl_host/simt_race.h"
#include "tilevl_host/simt_types.h"
#include "tilevl_host/vector_options.h"

namespace tilevl_host {

inline constexpr uint32_t warp_lanes = 32;
inline constexpr uint32_t max_simt_threads = 2048;

enum class ThreadState : uint8_t { ready, at_barrier, in_warp_operation, finished };

struct SimtThread;
// The lanes of a warp; null where a lane does not take part.
using Lanes = SimtThread* const*;

struct WarpOperation {
  const void* site;           // where in the code
  void (*evaluate)(Lanes lanes);  // sets `result` of each lane that takes part
  uint64_t value;
  uint64_t result;
  uint32_t argument;
  uint32_t width;
};

struct SimtThread {
  uint32_t linear;
  cce::dim3 index;
  ThreadState state;
  Fiber* fiber;
  WarpOperation operation;
};

struct SimtLaunch {
  std::vector<SimtThread> threads;
  cce::dim3 extent;
  SimtThread* running = nullptr;
  void (*body)(void*) = nullptr;
  void* context = nullptr;
  RaceTable races;
  bool race_reported = false;
};
[[gnu::visibility("hidden")]] inline SimtLaunch simt_launch;

TILEVL_HOST_REGISTER_OP inline SimtThread& running_thread() {
  if (simt_launch.running == nullptr) fault("simt", "a SIMT builtin must be used inside a SIMT function");
  return *simt_launch.running;
}

// Constant for a thread, and read so often that it must not be instrumented.
[[gnu::const, gnu::noinline, gnu::no_sanitize("thread")]] inline cce::dim3 thread_index() { return running_thread().index; }

TILEVL_HOST_REGISTER_OP inline void watch_access(const void* address, uint32_t bytes, bool write, bool atomic) {
  SimtLaunch& launch = simt_launch;
  if (launch.running == nullptr || launch.race_reported) return;
  const uint32_t thread = launch.running->linear;
  const int other = launch.races.record(reinterpret_cast<uint64_t>(address), bytes, thread, write, atomic);
  if (other < 0) return;
  launch.race_reported = true;
  report("race", "threads %d and %u of a SIMT function touch the same byte of %s, one of them writing, with no barrier between; the "
         "second at %s", other, thread, in_ub(address) ? "UB" : "GM", current_place().text);
}

inline void run_thread_entry(void*) {
  simt_launch.body(simt_launch.context);
  running_thread().state = ThreadState::finished;
  fiber_exit();
}

inline void run_until_it_waits(SimtThread& thread) {
  simt_launch.running = &thread;
  thread.state = ThreadState::ready;
  fiber_resume(thread.fiber);
  simt_launch.running = nullptr;
}

// Does one operation of one warp; false when none of its lanes waits for one. `first` is the warp's first thread.
inline bool run_warp_operation(uint32_t first) {
  std::vector<SimtThread>& threads = simt_launch.threads;
  const WarpOperation* chosen = nullptr;
  for (uint32_t i = first; i < first + warp_lanes && i < threads.size(); ++i) {
    const SimtThread& thread = threads[i];
    if (thread.state != ThreadState::in_warp_operation) continue;
    if (chosen == nullptr || thread.operation.site < chosen->site) chosen = &thread.operation;
  }
  if (chosen == nullptr) return false;
  const void* site = chosen->site;
  SimtThread* lanes[warp_lanes] = {};
  for (uint32_t i = first; i < first + warp_lanes && i < threads.size(); ++i)
    if (threads[i].state == ThreadState::in_warp_operation && threads[i].operation.site == site) lanes[i - first] = &threads[i];
  count_simt(Simt::warp_operations, 1);
  chosen->evaluate(lanes);
  for (SimtThread* lane : lanes)
    if (lane != nullptr) run_until_it_waits(*lane);
  return true;
}

inline void check_barrier_reached_by_all() {
  uint32_t returned = 0;
  const SimtThread* waiting = nullptr;
  const SimtThread* missing = nullptr;
  for (const SimtThread& thread : simt_launch.threads) {
    if (thread.state == ThreadState::at_barrier && waiting == nullptr) waiting = &thread;
    if (thread.state != ThreadState::finished) continue;
    if (missing == nullptr) missing = &thread;
    ++returned;
  }
  if (missing == nullptr) return;
  fault("simt", "asc_syncthreads: every thread must reach it, but %u of %u threads returned (thread %u first) while thread %u waits",
        returned, static_cast<uint32_t>(simt_launch.threads.size()), missing->linear, waiting->linear);
}

inline void run_threads() {
  std::vector<SimtThread>& threads = simt_launch.threads;
  for (SimtThread& thread : threads) {
    thread.fiber = fiber_create(run_thread_entry, nullptr);
    run_until_it_waits(thread);
  }
  for (;;) {
    bool moved = false;
    for (uint32_t first = 0; first < threads.size(); first += warp_lanes)
      while (run_warp_operation(first)) moved = true;
    if (moved) continue;
    uint32_t waiting = 0;
    for (const SimtThread& thread : threads) waiting += thread.state == ThreadState::at_barrier;
    if (waiting == 0) return;
    check_barrier_reached_by_all();
    count_simt(Simt::barriers, 1);
    simt_launch.races.next_epoch();
    for (SimtThread& thread : threads) thread.state = ThreadState::ready;
    for (SimtThread& thread : threads) run_until_it_waits(thread);
  }
}

inline void launch_simt(cce::dim3 extent, void (*body)(void*), void* context) {
  const uint32_t count = extent.x * extent.y * extent.z;
  SimtLaunch& launch = simt_launch;
  launch.threads.assign(count, SimtThread{});
  launch.extent = extent;
  launch.body = body;
  launch.context = context;
  launch.race_reported = false;
  launch.races.start_launch();
  for (uint32_t i = 0; i < count; ++i) {
    launch.threads[i].linear = i;
    launch.threads[i].index = {i % extent.x, i / extent.x % extent.y, i / (extent.x * extent.y)};
  }
  count_simt(Simt::launches, 1);
  count_simt(Simt::threads, count);
  count_simt(Simt::warps, (count + warp_lanes - 1) / warp_lanes);
  const unsigned control = _mm_getcsr();
  if (options().simt_flush_subnormals) _mm_setcsr(control | 0x8040u);  // results and operands
  set_simt_access(watch_access);
  run_threads();
  set_simt_access(nullptr);
  _mm_setcsr(control);
}

// What __launch_bounds__ says of a function; the source's last lines hold one for each, as the qualifier itself is dropped.
struct LaunchBound {
  const void* function;
  uint32_t threads;
  const LaunchBound* next;

  LaunchBound(const void* function_, uint32_t threads_);
};
[[gnu::visibility("hidden")]] inline constinit const LaunchBound* launch_bounds = nullptr;
inline LaunchBound::LaunchBound(const void* function_, uint32_t threads_)
    : function(function_), threads(threads_), next(launch_bounds) {
  launch_bounds = this;
}

inline void require_launch(cce::dim3 extent, const void* function) {
  uint32_t limit = 1024;  // without a bound
  for (const LaunchBound* bound = launch_bounds; bound != nullptr; bound = bound->next)
    if (bound->function == function) limit = bound->threads < max_simt_threads ? bound->threads : max_simt_threads;
  const uint64_t count = uint64_t{extent.x} * extent.y * extent.z;
  if (count == 0 || count > limit)
    fault("range", "asc_vf_call: threads must be 1 to %u, got %u x %u x %u", limit, extent.x, extent.y, extent.z);
}

// Waits until the other lanes that take part arrive, and gives this lane's result. `site` is the caller's own code.
[[gnu::noinline]] inline uint64_t join_warp(void (*evaluate)(Lanes), uint64_t value, uint32_t argument, uint32_t width) {
  SimtThread& thread = running_thread();
  thread.operation = {__builtin_return_address(0), evaluate, value, 0, argument, width};
  thread.state = ThreadState::in_warp_operation;
  fiber_yield();
  return thread.operation.result;
}

}  // namespace tilevl_host

// Starts x * y * z threads of `Function` on the vector pipe.
template <auto Function, typename... Arguments>
TILEVL_HOST_INLINE void asc_vf_call(cce::dim3 extent, Arguments... arguments) {
  tilevl_host::require_launch(extent, reinterpret_cast<const void*>(Function));
  tilevl_host::issue(PIPE_V, "asc_vf_call", [=] {
    auto body = [&] { Function(arguments...); };
    tilevl_host::launch_simt(extent, [](void* context) { (*static_cast<decltype(body)*>(context))(); }, &body);
  });
}

[[gnu::noinline]] inline void asc_syncthreads() {
  tilevl_host::running_thread().state = tilevl_host::ThreadState::at_barrier;
  tilevl_host::fiber_yield();
}

// Makes writes visible and waits for nobody: the model's memory has no delay.
inline void asc_threadfence() {}

#define TILEVL_HOST_LAUNCH_BOUND(FUNCTION, THREADS) \
  static const ::tilevl_host::LaunchBound FUNCTION##_launch_bound(reinterpret_cast<const void*>(&FUNCTION), THREADS);

#define threadIdx (::tilevl_host::thread_index())
#define blockDim (::tilevl_host::simt_launch.extent)
#define gridDim (::cce::dim3(static_cast<uint32_t>(::tilevl_host::self().grid)))
#define blockIdx (::cce::dim3(::tilevl_host::simt_block_index()))
inline constexpr int warpSize = 32;

namespace tilevl_host {

TILEVL_HOST_PURE inline uint32_t simt_block_index() {
  const Identity& core = self();
  const bool by_core = options().simt_block_index_counts_vector_cores != 0;
  return static_cast<uint32_t>(by_core ? core.block * core.sub_blocks + core.sub_block : core.block);
}

}  // namespace tilevl_host

[[gnu::const]] inline uint32_t laneid() { return tilevl_host::running_thread().linear % tilevl_host::warp_lanes; }
