// The state of a launch. Private to the runtime.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "tilevl_host/core.h"
#include "tilevl_host/counters.h"
#include "tilevl_host/dma.h"
#include "tilevl_host/memory.h"
#include "tilevl_host/options.h"
#include "tilevl_host/sync.h"

namespace tilevl_host {

// A pipe as the hazard detector counts it. The scalar pipe has two lanes: issuing an instruction orders it after the scalar
// reads before it (their values are in registers), but only a flag orders it after scalar writes.
enum Lane : uint8_t { kScalar, kScalarWrites, kVector, kMatrix, kMte1, kMte2, kMte3, kFix, kLanes };
constexpr int kCores = 3;  // cube, vector 0, vector 1
constexpr int kAgents = kCores * kLanes;
constexpr int kEventIds = 8;
constexpr int kLockIds = 32;
Lane lane_of(pipe_t pipe, const char* name);
extern const char* const kLaneNames[kLanes];

struct Clock {
  std::array<uint32_t, kAgents> at{};
  void join(const Clock& other) {
    for (int i = 0; i < kAgents; ++i) at[i] = at[i] < other.at[i] ? other.at[i] : at[i];
  }
};

// When things happen, in cycles since the block began, by each set of rates. A pipe does one instruction after the other;
// a flag, lock or arrival carries the time at which it was set. Nothing here changes what runs when.
constexpr int kRateSets = 3;  // RATE_SETS of rates.py
using Time = std::array<double, kRateSets>;
inline void not_before(Time& time, const Time& other, const Time& delay = {}) {
  for (int i = 0; i < kRateSets; ++i) time[i] = std::max(time[i], other[i] + delay[i]);
}

// The last access of one agent to a 32-byte cell.
struct Record {
  uint32_t clock;
  uint32_t mask;
  uint32_t place;
  uint32_t issued;  // place of the call, where the access has one of its own
};

// A scratch memory of one core, in its window.
struct Memory {
  Space space{};
  int owner = 0;  // core of the group
  uint8_t* base = nullptr;
  uint32_t size = 0;
  int slots = 0;                                // agents that may touch it
  std::array<int8_t, kAgents> slot_of{};        // -1: never
  std::array<uint8_t, 8> agent_of{};
  std::vector<uint32_t> written;                // a bit per byte, a word per cell
  uint32_t used = 0;                            // cells from here on are as the last reset left them
  std::vector<Record> records;                  // [cell][slot][write, read]
};

struct Op {
  enum Kind : uint8_t { work, notify, wait, lock, unlock, arrive, wait_cross, barrier, drain } kind = work;
  Lane lane = kScalar;
  const char* name = "";
  const void* place = nullptr;
  std::function<void()> body;
  Lane source{}, destination{};
  CrossMode mode{};
  int id = 0;
  uint32_t ticket = 0;
  Clock issued;
  Time issue_time{};
};

struct Flag {
  bool set = false;
  Clock clock;
  const void* place = nullptr;
  Time time{};
};

struct Mutex {
  uint32_t unlocks_issued = 0;
  uint32_t unlocks_done = 0;
  int held_by = -1;  // lane, in program order
  int mode = 0;
  const void* place = nullptr;
  Clock clock;
  Time time{};
};

// Arrivals of one core at one id; the waits of those it pairs with take them in order.
struct CrossFlag {
  std::vector<Clock> arrivals;
  std::vector<const void*> places;
  std::vector<Time> times;
  uint32_t waited = 0;
};

struct Counts {
  uint64_t bytes[static_cast<int>(Path::count)]{};
  uint64_t descriptors[static_cast<int>(Path::count)]{};  // instructions
  uint64_t bursts[static_cast<int>(Path::count)]{};       // contiguous pieces they move
  uint64_t vector[static_cast<int>(Vector::count)]{};
  uint64_t simt[static_cast<int>(Simt::count)]{};
  uint64_t macs = 0;
  uint64_t matrix_cycles = 0;
};
constexpr int kCountWords = sizeof(Counts) / sizeof(uint64_t);

// What one set of rates says, in cycles. Mirrored by rates.py.
struct Rates {
  double word[kCountWords];  // for each unit of a count
  double flag;               // from a flag's setting to the end of the wait for it
  double cross;              // the same between cores
};

struct Group;

struct Core {
  Identity identity{};
  int index = 0;
  Group* group = nullptr;
  Fiber* body = nullptr;
  bool finished = false;  // the body; queues may still hold work
  bool waiting = false;
  Op wait_for;            // what the body waits for, when waiting
  std::array<std::deque<Op>, kLanes> queue;
  std::array<Clock, kLanes> clock;
  std::array<Time, kLanes> time{};           // at which each pipe is done with what it was given
  uint64_t scalar_bytes = 0;                 // of global memory, that the time of the scalar pipe has in it
  Flag flags[kLanes][kLanes][kEventIds];
  Mutex mutexes[kLockIds];
  CrossFlag intra[kLockIds];                 // waiting for this core
  CrossFlag generations[3][kLockIds];        // of this core, by mode 0, 1, 2
  uint32_t epoch = 0;                        // launch-wide barriers passed
  // Sticky state, read when an instruction is issued.
  uint64_t pad_value = 0;
  struct { uint16_t matrices, rows, columns, matrix; } nz{1, 1, 1, 0};
  struct { uint16_t matrices, source; uint32_t destination; } l0c{1, 0, 0};
  Atomic atomic = Atomic::none;
  AtomicType atomic_type = AtomicType::none;
  bool hf32 = false, hf32_nearest_even = false;
  // For accumulating multiplies that follow each other too closely.
  const void* last_multiply_place = nullptr;
  uint32_t last_multiply_c = ~0u;
  Counts counts;

  Op* head(int lane) { return queue[lane].empty() ? nullptr : &queue[lane].front(); }
  bool drained() const;
};

// The cores of one block, and their memories.
struct Group {
  int block = 0;
  int window = 0;
  bool mixed = false;
  std::vector<int> cores;  // those that run
  Core core[kCores];
  Memory* memory[kCores][kSpaces]{};
  bool done() const;
};

struct GmRecord {
  uint32_t clock, mask, place;
  uint16_t block;
  uint8_t agent;
  uint8_t epoch : 7;
  uint8_t atomic : 1;
};
struct GmCell {
  GmRecord write[2], read[2];
  uint32_t many_readers;
  uint32_t many_epoch;
};
struct Tensor {
  std::string name;
  int allocation;
  int64_t begin, end;  // in the allocation
};
struct Allocation {
  uint8_t* base = nullptr;  // address of offset `begin`, less begin
  int64_t begin = 0, end = 0;
  GmCell* cells = nullptr;
  int64_t cell_count = 0;
  bool dirty = false;
};

enum class Order : int { eager, lazy, random };

struct Launch {
  Order order = Order::eager;
  uint64_t random = 0;
  int grid = 0;
  CoreKind kind = CoreKind::aiv;
  bool mixed = false;
  bool uses_simt = false;
  int max_blocks = 0;
  void (*entry)(void**) = nullptr;
  void** arguments = nullptr;
  std::vector<int> blocks;  // in the order they start
  size_t next_block = 0;
  std::vector<std::unique_ptr<Group>> active;
  std::vector<Tensor> tensors;
  std::vector<Allocation> allocations;
  std::set<std::array<uint32_t, 3>> seen;  // pairs of places that a hazard was reported for
  std::vector<std::string> reports;
  std::string fault;
  struct Finished {
    int block, core;
    Counts counts;
    Time time;
  };
  std::vector<Finished> finished;
  Rates rates[kRateSets]{};
  int options[static_cast<int>(Option::count)]{};

  uint64_t draw(uint64_t below);
};
extern Launch* launch;

// Whose instruction runs now.
struct Acting {
  Core* core = nullptr;
  Lane lane = kScalar;
  const void* place = nullptr;   // set: the place of all its accesses
  const void* issued = nullptr;  // place of the call that queued the instruction
};
extern Acting acting;

// arena.cpp
void arena_prepare(Launch&);
void arena_release(Launch&);
bool in_arena(const void* address);
Group* group_create(int block);
void group_destroy(Group*);
void group_poison(Group&);
Memory* scratch_at(const void* address);                       // of the running group; null: none
Memory& scratch_of(Space space, const void* address, const char* name, uint32_t* offset);
std::pair<Allocation*, int64_t> gm_at(const void* address);

// access.cpp
enum class Access : uint8_t { read, write, atomic };
void touch_scratch(Memory&, int64_t offset, int64_t bytes, Access, const uint8_t* byte_mask, const void* place);
void touch_gm(const void* address, int64_t bytes, Access, const void* place);
uint8_t* read_scratch(Memory&, int64_t offset, int64_t bytes);   // of the running instruction
uint8_t* write_scratch(Memory&, int64_t offset, int64_t bytes);
const uint8_t* read_gm(const void* address, int64_t bytes);
uint8_t* write_gm(void* address, int64_t bytes);

// Of the library. A return address points behind the call; one byte back lies in it.
extern const uintptr_t load_base;
inline uint32_t place_code(const void* address) {
  return address ? static_cast<uint32_t>(reinterpret_cast<uintptr_t>(address) - load_base - 1) : 0;
}

// pipes.cpp
void enqueue(Op op, const void* place);
void perform(Core&, Op&);
bool ready(Core&, const Op&);
void spend_scalar_accesses(Core&);
void check_end(Group&);
std::string describe(const Core&, const Op&);

// scheduler.cpp
void run_blocks();
void scalar_wait(Op op);
void after_issue();

[[noreturn]] void leave_launch();

}  // namespace tilevl_host
