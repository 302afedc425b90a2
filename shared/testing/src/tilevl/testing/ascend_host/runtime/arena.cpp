// Where the memories lie: one reserved range, tensors and windows far apart in it.
#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>

#include "state.h"
#include "tilevl_host/faults.h"

namespace tilevl_host {

constexpr uint64_t kSpacing = uint64_t{64} << 30;  // between tensors: a 32-bit index can't leap from one to the next
constexpr int kMaxTensors = 63;
constexpr uint64_t kArenaBytes = kSpacing * (kMaxTensors + 1);
constexpr uint64_t kWindowSpacing = uint64_t{16} << 20;
constexpr int kWindowsPerGroup = 32;  // 3 cores of 8
constexpr uint64_t kPage = 4096;
constexpr int kMaxGroups = static_cast<int>(kSpacing / (kWindowSpacing * kWindowsPerGroup));

static uint8_t* arena = nullptr;
static std::vector<int> free_windows;
static std::vector<std::unique_ptr<Memory>> memories[kMaxGroups];

static uint8_t* window_base(int group, int core, Space space) {
  const uint64_t index = static_cast<uint64_t>(group) * kWindowsPerGroup + core * 8 + static_cast<int>(space);
  return arena + index * kWindowSpacing + kWindowSpacing / 2;
}

bool in_arena(const void* address) {
  return static_cast<uint64_t>(static_cast<const uint8_t*>(address) - arena) < kArenaBytes;
}

static void open_pages(uint8_t* begin, uint8_t* end) {
  const uintptr_t first = reinterpret_cast<uintptr_t>(begin) & ~(kPage - 1);
  const uintptr_t last = (reinterpret_cast<uintptr_t>(end) + kPage - 1) & ~(kPage - 1);
  if (mprotect(reinterpret_cast<void*>(first), last - first, PROT_READ | PROT_WRITE) != 0) {
    fault("memory", "no memory for another %zu bytes", static_cast<size_t>(last - first));
  }
}

void arena_prepare(Launch& now) {
  void* range = mmap(nullptr, kArenaBytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (range == MAP_FAILED) fault("memory", "the model can't reserve 4 TiB of address space (a limit on virtual memory?)");
  arena = static_cast<uint8_t*>(range);
  free_windows.clear();
  for (int i = kMaxGroups; i-- > 0;) free_windows.push_back(i);
  if (now.allocations.size() > kMaxTensors) fault("range", "a kernel may take at most %d tensors of different storages", kMaxTensors);
  for (size_t i = 0; i < now.allocations.size(); ++i) {
    Allocation& allocation = now.allocations[i];
    allocation.base = arena + kSpacing * (i + 1) + kSpacing / 2;
    if (allocation.end > allocation.begin) open_pages(allocation.base + allocation.begin, allocation.base + allocation.end);
    allocation.cell_count = allocation.end / 32 + 1;
    allocation.cells = static_cast<GmCell*>(calloc(allocation.cell_count, sizeof(GmCell)));
    if (!allocation.cells) fault("memory", "no memory for the records of a tensor of %lld bytes", static_cast<long long>(allocation.end));
  }
}

// The range goes back after each launch: many kernels share the address space of the process.
void arena_release(Launch& now) {
  for (Allocation& allocation : now.allocations) free(allocation.cells);
  now.active.clear();
  for (auto& group : memories) group.clear();
  if (arena) munmap(arena, kArenaBytes);
  arena = nullptr;
}

static uint32_t capacity(Space space) {
  // The data cache of SIMT code takes 32 KiB of UB.
  if (space == Space::ub && launch->uses_simt) return 216 * 1024;
  return kCapacity[static_cast<int>(space)];
}

static void add_agents(Memory& memory, int core, std::initializer_list<Lane> lanes) {
  for (Lane lane : lanes) {
    memory.agent_of[memory.slots] = static_cast<uint8_t>(core * kLanes + lane);
    memory.slot_of[core * kLanes + lane] = static_cast<int8_t>(memory.slots++);
  }
}

static std::unique_ptr<Memory> memory_create(int window, int owner, Space space) {
  auto memory = std::make_unique<Memory>();
  memory->space = space;
  memory->owner = owner;
  memory->base = window_base(window, owner, space);
  memory->slot_of.fill(-1);
  switch (space) {
    case Space::ub:
      add_agents(*memory, owner, {kScalar, kScalarWrites, kVector, kMte2, kMte3});
      add_agents(*memory, 0, {kFix});
      break;
    case Space::l1:
      add_agents(*memory, 0, {kMte1, kMte2});
      add_agents(*memory, 1, {kMte3});
      add_agents(*memory, 2, {kMte3});
      break;
    case Space::l0a:
    case Space::l0b: add_agents(*memory, 0, {kMte1, kMatrix}); break;
    default: add_agents(*memory, 0, {kMatrix, kFix});
  }
  const uint32_t whole = kCapacity[static_cast<int>(space)];
  open_pages(memory->base, memory->base + whole);
  memory->written.assign(whole / 32, 0);
  memory->used = whole / 32;  // the first reset fills all of it
  memory->records.assign(static_cast<size_t>(whole) / 32 * memory->slots * 2, Record{});
  return memory;
}

static Memory* memory_of(int window, int owner, Space space) {
  for (auto& memory : memories[window]) {
    if (memory->owner == owner && memory->space == space) return memory.get();
  }
  memories[window].push_back(memory_create(window, owner, space));
  return memories[window].back().get();
}

Group* group_create(int block) {
  if (free_windows.empty()) fault("range", "at most %d blocks can wait for each other", kMaxGroups);
  auto group = std::make_unique<Group>();
  group->block = block;
  group->window = free_windows.back();
  free_windows.pop_back();
  group->mixed = launch->mixed;
  if (launch->mixed) {
    group->cores = {0, 1, 2};
  } else {
    group->cores = {launch->kind == CoreKind::aic ? 0 : 1};
  }
  for (int index : group->cores) {
    Core& core = group->core[index];
    core.index = index;
    core.group = group.get();
    for (int lane = 0; lane < kLanes; ++lane) core.clock[lane].at[index * kLanes + lane] = 1;
    core.clock[kScalar].at[index * kLanes + kScalarWrites] = 1;  // nobody else knows of it yet
    const bool cube = index == 0;
    core.identity = {block, launch->grid, cube ? CoreKind::aic : CoreKind::aiv, cube ? 0 : index - 1, cube || !launch->mixed ? 1 : 2};
    if (cube) {
      for (Space space : {Space::l1, Space::l0a, Space::l0b, Space::l0c}) {
        group->memory[0][static_cast<int>(space)] = memory_of(group->window, 0, space);
      }
    } else {
      group->memory[index][static_cast<int>(Space::ub)] = memory_of(group->window, index, Space::ub);
    }
  }
  group_poison(*group);
  launch->active.push_back(std::move(group));
  return launch->active.back().get();
}

// Signalling patterns: 0x7fbd is a signalling NaN in fp16, bf16 and fp32, and a large odd index as an integer.
static void fill_poison(uint8_t* base, uint32_t bytes) {
  for (uint32_t i = 0; i < bytes; i += 2) {
    base[i] = 0xbd;
    base[i + 1] = 0x7f;
  }
}

void group_poison(Group& group) {
  for (auto& row : group.memory) {
    for (Memory* memory : row) {
      if (!memory) continue;
      memory->size = capacity(memory->space);
      fill_poison(memory->base, memory->used * 32);
      std::fill_n(memory->written.begin(), memory->used, 0u);
      std::fill_n(memory->records.begin(), static_cast<size_t>(memory->used) * memory->slots * 2, Record{});
      memory->used = 0;
    }
  }
}

void group_destroy(Group* group) {
  free_windows.push_back(group->window);
  for (size_t i = 0; i < launch->active.size(); ++i) {
    if (launch->active[i].get() == group) {
      launch->active.erase(launch->active.begin() + i);
      return;
    }
  }
}

Memory* scratch_at(const void* address) {
  const uint64_t offset = static_cast<const uint8_t*>(address) - arena;
  if (offset >= kSpacing) return nullptr;
  const uint64_t index = offset / kWindowSpacing;
  const Group& group = *acting.core->group;
  if (static_cast<int>(index / kWindowsPerGroup) != group.window) return nullptr;
  const int core = static_cast<int>(index % kWindowsPerGroup) / 8;
  const int space = static_cast<int>(index % 8);
  return core < kCores && space < kSpaces ? group.memory[core][space] : nullptr;
}

// The memory an instruction's operand names, and the offset in it. Addresses of a memory that the core doesn't own (UB on the
// cube core, L1 on a vector core) name the owner's by the caller's choice, so only the offset counts here.
Memory& scratch_of(Space space, const void* address, const char* name, uint32_t* offset) {
  Core& core = *acting.core;
  const int64_t in_window = static_cast<const uint8_t*>(address) - window_base(core.group->window, core.index, space);
  const uint64_t plain = reinterpret_cast<uint64_t>(address);
  const int64_t reach = static_cast<int64_t>(kWindowSpacing / 2);
  if (in_window >= -reach && in_window < reach) {
    if (in_window < 0) fault("bounds", "%s: address must not lie before the memory, got offset %lld at %s", name, static_cast<long long>(in_window), current_place().text);
    *offset = static_cast<uint32_t>(in_window);
  } else if (plain < kWindowSpacing) {  // a literal zero base in a template
    *offset = static_cast<uint32_t>(plain);
  } else {
    fault("bounds", "%s: operand is no address of the memory it must be in, at %s", name, current_place().text);
  }
  const int owner = space == Space::ub ? (core.index == 0 ? 1 : core.index) : 0;
  Memory* memory = core.group->memory[owner][static_cast<int>(space)];
  if (!memory) fault("core", "%s: needs a memory that this kind of kernel doesn't have, at %s", name, current_place().text);
  return *memory;
}

std::pair<Allocation*, int64_t> gm_at(const void* address) {
  const uint64_t offset = static_cast<const uint8_t*>(address) - arena;
  if (offset < kSpacing || offset >= kArenaBytes) return {nullptr, 0};
  const size_t index = offset / kSpacing - 1;
  if (index >= launch->allocations.size()) return {nullptr, 0};
  Allocation& allocation = launch->allocations[index];
  return {&allocation, static_cast<const uint8_t*>(address) - allocation.base};
}

uint8_t* window(Space space) { return window_base(acting.core->group->window, acting.core->index, space); }

bool in_ub(const void* address) {
  const Memory* memory = acting.core ? scratch_at(address) : nullptr;
  return memory && memory->space == Space::ub;
}

}  // namespace tilevl_host
