// The checks of every access: bounds, written before read, and order against the other pipes and blocks.
#include <cstring>

#include "state.h"
#include "tilevl_host/faults.h"

namespace tilevl_host {

Place place_of_code(uint32_t code, uint32_t issued);

static const char* const kSpaceNames[kSpaces] = {"global memory", "UB", "L1", "L0A", "L0B", "L0C"};
static const char* const kCoreNames[kCores] = {"cube core", "vector core 0", "vector core 1"};

static int agent_of(Access access) {
  const int lane = acting.lane == kScalar && access != Access::read ? kScalarWrites : acting.lane;
  return acting.core->index * kLanes + lane;
}

static const Clock& clock_now() { return acting.core->clock[acting.lane]; }

// A place for messages: that of the instruction, or the code that made the access itself.
static const void* place_here(const void* own) { return acting.place ? acting.place : own; }

// One report for two places, however many cells they share.
static bool seen(uint32_t other, uint32_t mine, int what) {
  return !launch->seen.insert({other, mine, static_cast<uint32_t>(what)}).second;
}

static void hazard(const Memory& memory, uint32_t cell, int other, const Record& record, bool other_writes, Access access, const void* pc) {
  if (seen(record.place, place_code(pc), other_writes * 2 + (access != Access::read))) return;
  const char* const mine = access == Access::read ? "read" : "written";
  report("hazard", "%s of %s, bytes %u to %u: %s by %s at %s and %s by %s at %s with no flag, lock or barrier between them",
         kSpaceNames[static_cast<int>(memory.space)], kCoreNames[memory.owner], cell * 32, cell * 32 + 32,
         other_writes ? "written" : "read", kLaneNames[other % kLanes], place_of_code(record.place, record.issued).text, mine,
         kLaneNames[acting.lane], place(pc).text);
}

static uint32_t mask_of(uint32_t cell, int64_t offset, int64_t bytes) {
  const int64_t first = static_cast<int64_t>(cell) * 32;
  const int64_t begin = offset > first ? offset - first : 0;
  const int64_t end = offset + bytes < first + 32 ? offset + bytes - first : 32;
  return static_cast<uint32_t>((end == 32 ? ~uint64_t{0} << begin : ((uint64_t{1} << end) - 1) & (~uint64_t{0} << begin)) & 0xffffffffu);
}

// The bits of a byte mask (relative to the access) that lie in a cell.
static uint32_t masked(uint32_t cell, int64_t offset, int64_t bytes, const uint8_t* byte_mask) {
  uint32_t bits = 0;
  for (uint32_t whole = mask_of(cell, offset, bytes); whole; whole &= whole - 1) {
    const int bit = __builtin_ctz(whole);
    const int64_t index = static_cast<int64_t>(cell) * 32 + bit - offset;
    if (byte_mask[index / 8] >> (index % 8) & 1) bits |= 1u << bit;
  }
  return bits;
}

// How strict an access is about bytes that nothing wrote; the first values of the options.
enum class Unwritten { whole_access, any_byte, allowed };

static Unwritten unwritten_rule(Space space) {
  if (space == Space::ub && acting.lane == kVector) return static_cast<Unwritten>(option(Option::unwritten_vector_reads));
  if (space != Space::ub && acting.lane == kMatrix && option(Option::unwritten_matrix_rows)) return Unwritten::allowed;
  return Unwritten::any_byte;
}

[[noreturn]] static void unwritten(const Memory& memory, int64_t byte, const void* pc) {
  fault("unwritten", "%s of %s: byte %lld read by %s at %s, but nothing wrote it in this block", kSpaceNames[static_cast<int>(memory.space)],
        kCoreNames[memory.owner], static_cast<long long>(byte), kLaneNames[acting.lane], place(pc).text);
}

void touch_scratch(Memory& memory, int64_t offset, int64_t bytes, Access access, const uint8_t* byte_mask, const void* own_place) {
  if (bytes <= 0) return;
  const void* pc = place_here(own_place);
  if (offset < 0 || offset + bytes > memory.size) {
    fault("bounds", "%s of %s: bytes %lld to %lld %s by %s at %s, but it holds %u", kSpaceNames[static_cast<int>(memory.space)],
          kCoreNames[memory.owner], static_cast<long long>(offset), static_cast<long long>(offset + bytes),
          access == Access::read ? "read" : "written", kLaneNames[acting.lane], place(pc).text, memory.size);
  }
  const int agent = agent_of(access);
  const int slot = memory.slot_of[agent];
  if (slot < 0) {
    fault("core", "%s of %s can't be reached by %s, at %s", kSpaceNames[static_cast<int>(memory.space)], kCoreNames[memory.owner],
          kLaneNames[acting.lane], place(pc).text);
  }
  const Clock& now = clock_now();
  const uint32_t code = place_code(pc);
  const uint32_t issued = place_code(acting.issued);
  const uint32_t last = static_cast<uint32_t>((offset + bytes - 1) / 32);
  if (last >= memory.used) memory.used = last + 1;
  const bool reads = access != Access::write;
  const bool writes = access != Access::read;
  const Unwritten rule = unwritten_rule(memory.space);
  bool any_written = false;
  for (uint32_t cell = static_cast<uint32_t>(offset / 32); cell <= last; ++cell) {
    const uint32_t mask = byte_mask ? masked(cell, offset, bytes, byte_mask) : mask_of(cell, offset, bytes);
    if (!mask) continue;
    Record* records = &memory.records[static_cast<size_t>(cell) * memory.slots * 2];
    for (int other = 0; other < memory.slots; ++other) {
      const Record& wrote = records[other * 2];
      const Record& read = records[other * 2 + 1];
      if (!((wrote.mask | read.mask) & mask) || other == slot) continue;
      const int who = memory.agent_of[other];
      if (acting.lane == kScalar && who / kLanes == acting.core->index && who % kLanes <= kScalarWrites) continue;
      if (wrote.mask & mask && wrote.clock > now.at[who]) hazard(memory, cell, who, wrote, true, access, pc);
      if (writes && read.mask & mask && read.clock > now.at[who]) hazard(memory, cell, who, read, false, access, pc);
    }
    if (reads && (~memory.written[cell] & mask) && rule == Unwritten::any_byte) {
      unwritten(memory, cell * 32 + __builtin_ctz(~memory.written[cell] & mask), pc);
    }
    any_written |= (memory.written[cell] & mask) != 0;
    if (writes) memory.written[cell] |= mask;
    Record& mine = records[slot * 2 + (writes ? 0 : 1)];
    mine = {now.at[agent], mine.mask | mask, code, issued};
  }
  if (reads && !any_written && rule == Unwritten::whole_access) unwritten(memory, offset, pc);
}

static void gm_hazard(const Allocation& allocation, int64_t cell, const GmRecord& record, bool other_writes, Access access, const void* pc) {
  if (seen(record.place, place_code(pc), 4 + other_writes * 2 + (access != Access::read))) return;
  const char* name = "a tensor";
  for (const Tensor& tensor : launch->tensors) {
    if (&launch->allocations[tensor.allocation] == &allocation && cell * 32 < tensor.end && cell * 32 + 32 > tensor.begin) name = tensor.name.c_str();
  }
  const char* const mine = access == Access::read ? "read" : "written";
  if (record.block != static_cast<uint16_t>(acting.core->identity.block)) {
    report("race", "%s, bytes %lld to %lld: %s by block %d at %s and %s by block %d at %s, and nothing orders the blocks", name,
           static_cast<long long>(cell * 32), static_cast<long long>(cell * 32 + 32), other_writes ? "written" : "read", record.block,
           place_of_code(record.place, 0).text, mine, acting.core->identity.block, place(pc).text);
  } else {
    report("hazard", "%s, bytes %lld to %lld: %s by %s of %s at %s and %s by %s at %s with no flag, lock or barrier between them", name,
           static_cast<long long>(cell * 32), static_cast<long long>(cell * 32 + 32), other_writes ? "written" : "read",
           kLaneNames[record.agent % kLanes], kCoreNames[record.agent / kLanes], place_of_code(record.place, 0).text, mine,
           kLaneNames[acting.lane], place(pc).text);
  }
}

static void gm_cell(const Allocation& allocation, GmCell& cell, int64_t index, uint32_t mask, Access access, const void* pc, uint32_t code) {
  const int agent = agent_of(access);
  const Clock& now = clock_now();
  const uint16_t block = static_cast<uint16_t>(acting.core->identity.block);
  const uint8_t epoch = static_cast<uint8_t>(acting.core->epoch & 127);
  const auto conflicts = [&](const GmRecord& record, bool other_writes) {
    if (!(record.mask & mask) || (record.atomic && access == Access::atomic)) return;
    if (record.block == block) {
      const bool scalar = record.agent / kLanes == agent / kLanes && record.agent % kLanes <= kScalarWrites && acting.lane == kScalar;
      if (record.agent != agent && !scalar && record.clock > now.at[record.agent]) gm_hazard(allocation, index, record, other_writes, access, pc);
    } else if (record.epoch >= epoch) {
      gm_hazard(allocation, index, record, other_writes, access, pc);
    }
  };
  for (const GmRecord& record : cell.write) conflicts(record, true);
  if (access != Access::read) {
    for (const GmRecord& record : cell.read) conflicts(record, false);
    if (cell.many_readers & mask && cell.many_epoch >= epoch) {
      report("race", "a tensor's bytes are read by several blocks and written by block %d at %s, and nothing orders the blocks", block, place(pc).text);
    }
  }
  GmRecord* set = access == Access::read ? cell.read : cell.write;
  GmRecord* chosen = nullptr;
  for (int i = 0; i < 2 && !chosen; ++i) {
    if (set[i].mask && set[i].block == block && set[i].agent == agent) chosen = &set[i];
  }
  for (int i = 0; i < 2 && !chosen; ++i) {
    if (!set[i].mask) chosen = &set[i];
  }
  if (!chosen) {
    if (access == Access::read && set[0].block != block) {
      cell.many_readers |= set[0].mask;
      cell.many_epoch = set[0].epoch;
    }
    set[0] = set[1];
    set[1] = GmRecord{};
    chosen = &set[1];
  }
  const bool same = chosen->mask != 0;
  *chosen = {now.at[agent], chosen->mask | mask, code, block, static_cast<uint8_t>(agent), epoch,
             static_cast<uint8_t>(access == Access::atomic && (!same || chosen->atomic))};
}

void touch_gm(const void* address, int64_t bytes, Access access, const void* own_place) {
  if (bytes <= 0) return;
  const void* pc = place_here(own_place);
  auto [allocation, offset] = gm_at(address);
  const char* const verb = access == Access::read ? "read" : "written";
  if (!allocation) fault("bounds", "global memory %s by %s at %s, at an address that is in no tensor", verb, kLaneNames[acting.lane], place(pc).text);
  const Tensor* nearest = nullptr;
  bool inside = false;
  for (const Tensor& tensor : launch->tensors) {
    if (&launch->allocations[tensor.allocation] != allocation) continue;
    if (offset >= tensor.begin && offset + bytes <= tensor.end) inside = true;
    if (!nearest || llabs(offset - tensor.begin) < llabs(offset - nearest->begin)) nearest = &tensor;
  }
  if (!inside) {
    fault("bounds", "%s: bytes %lld to %lld %s by %s at %s, but it holds %lld", nearest->name.c_str(), static_cast<long long>(offset - nearest->begin),
          static_cast<long long>(offset - nearest->begin + bytes), verb, kLaneNames[acting.lane], place(pc).text,
          static_cast<long long>(nearest->end - nearest->begin));
  }
  if (access != Access::read) allocation->dirty = true;
  const uint32_t code = place_code(pc);
  for (int64_t cell = offset / 32; cell <= (offset + bytes - 1) / 32; ++cell) {
    const int64_t first = cell * 32;
    const int64_t begin = offset > first ? offset - first : 0;
    const int64_t end = offset + bytes < first + 32 ? offset + bytes - first : 32;
    const uint32_t mask = static_cast<uint32_t>(((uint64_t{1} << end) - 1) & ~((uint64_t{1} << begin) - 1));
    gm_cell(*allocation, allocation->cells[cell], cell, mask, access, pc, code);
  }
}

uint8_t* read_scratch(Memory& memory, int64_t offset, int64_t bytes) {
  touch_scratch(memory, offset, bytes, Access::read, nullptr, nullptr);
  return memory.base + offset;
}

uint8_t* write_scratch(Memory& memory, int64_t offset, int64_t bytes) {
  touch_scratch(memory, offset, bytes, Access::write, nullptr, nullptr);
  return memory.base + offset;
}

const uint8_t* read_gm(const void* address, int64_t bytes) {
  touch_gm(address, bytes, Access::read, nullptr);
  return static_cast<const uint8_t*>(address);
}

uint8_t* write_gm(void* address, int64_t bytes) {
  touch_gm(address, bytes, Access::write, nullptr);
  return static_cast<uint8_t*>(address);
}

}  // namespace tilevl_host
