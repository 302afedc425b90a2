// The copies of the vector core: global memory to UB and back, UB to L1, UB to UB.
#include <cstring>

#include "instruction.h"
#include "tilevl_host/dma.h"

namespace tilevl_host {

constexpr int64_t kMaxBursts = 4095;
constexpr int64_t kMaxLength = (1 << 21) - 1;

void set_pad_value(uint64_t bits) { acting.core->pad_value = bits; }

void set_atomic(Atomic operation, AtomicType type) {
  acting.core->atomic = operation;
  acting.core->atomic_type = type;
}

namespace {

struct ToUb {
  Memory* ub;
  uint32_t offset;
  const uint8_t* from;
  int64_t bursts, length, left, right, source_stride, destination_stride;
  uint32_t element_bytes;
  uint64_t fill;
  bool filled_from_register;

  // The hardware writes whole blocks: what lies behind the data in the last one is lost.
  void fill_to(uint8_t* begin, uint8_t* end, const uint8_t* first_element) const {
    uint8_t value[8];
    memcpy(value, filled_from_register ? reinterpret_cast<const uint8_t*>(&fill) : first_element, element_bytes);
    for (int64_t i = 0; begin + i < end; ++i) begin[i] = value[i % element_bytes];
  }

  void run_compact() const {
    const int64_t total = bursts * length;
    uint8_t* to = write_scratch(*ub, offset, up(total, 32));
    for (int64_t b = 0; b < bursts; ++b) memcpy(to + b * length, read_gm(from + b * source_stride, length), length);
    fill_to(to + total, to + up(total, 32), to);
  }

  void run_normal() const {
    const int64_t used = up(left + length + right, 32);
    for (int64_t b = 0; b < bursts; ++b) {
      uint8_t* to = write_scratch(*ub, offset + b * destination_stride, used);
      const uint8_t* source = read_gm(from + b * source_stride, length);
      memcpy(to + left, source, length);
      fill_to(to, to + left, source);
      fill_to(to + left + length, to + used, source);
    }
  }
};

}  // namespace

[[gnu::noinline]] void copy_gm_to_ub(void* to, const void* from, int64_t bursts, int64_t length, int64_t left_pad, int64_t right_pad,
                                     bool constant_pad, int64_t source_stride, int64_t destination_stride, uint32_t element_bytes) {
  const Instruction call("asc_copy_gm2ub_align", __builtin_return_address(0), CoreKind::aiv);
  ToUb copy{};
  copy.ub = &scratch_of(Space::ub, to, call.name, &copy.offset);
  call.range("n_burst", bursts, 1, kMaxBursts);
  call.range("len_burst", length, 1, kMaxLength);
  call.range("left_pad in bytes", left_pad * element_bytes, 0, 32);
  call.range("right_pad in bytes", right_pad * element_bytes, 0, 32);
  call.multiple("the UB address", copy.offset, 32);
  const bool compact = destination_stride == length;
  if (compact) {
    call.require(left_pad == 0 && right_pad == 0, "pads must be 0 where dst_stride equals len_burst");
  } else if (bursts > 1) {
    call.multiple("dst_stride", destination_stride, 32);
    call.require(destination_stride >= up((left_pad + right_pad) * element_bytes + length, 32), "dst_stride must hold a padded burst, so that bursts don't overwrite each other");
  }
  copy.from = static_cast<const uint8_t*>(from);
  copy.bursts = bursts;
  copy.length = length;
  copy.left = left_pad * element_bytes;
  copy.right = right_pad * element_bytes;
  copy.source_stride = source_stride;
  copy.destination_stride = destination_stride;
  copy.element_bytes = element_bytes;
  copy.fill = acting.core->pad_value;
  copy.filled_from_register = left_pad || right_pad || constant_pad;
  issue(PIPE_MTE2, call.name, [copy, compact] {
    compact ? copy.run_compact() : copy.run_normal();
    count_copy(Path::gm_ub, copy.bursts * copy.length, copy.bursts);
  });
}

[[gnu::noinline]] void copy_ub_to_gm(void* to, const void* from, int64_t bursts, int64_t length, int64_t destination_stride, int64_t source_stride) {
  const Instruction call("asc_copy_ub2gm_align", __builtin_return_address(0), CoreKind::aiv);
  uint32_t offset;
  Memory* ub = &scratch_of(Space::ub, from, call.name, &offset);
  call.range("n_burst", bursts, 1, kMaxBursts);
  call.range("len_burst", length, 1, kMaxLength);
  call.multiple("the UB address", offset, 32);
  if (bursts > 1) {
    if (source_stride != length) {
      call.multiple("src_stride", source_stride, 32);
      call.require(source_stride != 0, "src_stride must not be 0");
    }
    call.require(llabs(destination_stride) >= length, "dst_stride must be at least len_burst, so that bursts don't overwrite each other");
  }
  const Atomic operation = acting.core->atomic;
  const AtomicType type = acting.core->atomic_type;
  uint8_t* const target = static_cast<uint8_t*>(to);
  issue(PIPE_MTE3, call.name, [=] {
    for (int64_t b = 0; b < bursts; ++b) {
      store_gm(target + b * destination_stride, read_scratch(*ub, offset + b * source_stride, length), length, operation, type);
    }
    count_copy(Path::ub_gm, bursts * length, bursts);
  });
}

static void copy_blocks(Memory& to, int64_t to_offset, Memory& from, int64_t from_offset, int64_t bursts, int64_t length, int64_t source_gap,
                        int64_t destination_gap) {
  for (int64_t b = 0; b < bursts; ++b) {
    const uint8_t* source = read_scratch(from, from_offset + b * (length + source_gap) * 32, length * 32);
    memmove(write_scratch(to, to_offset + b * (length + destination_gap) * 32, length * 32), source, length * 32);
  }
}

static void check_blocks(const Instruction& call, uint32_t from, uint32_t to, int64_t bursts, int64_t length, int64_t source_gap, int64_t destination_gap) {
  call.range("n_burst", bursts, 1, kMaxBursts);
  call.range("len_burst", length, 1, 65535);
  call.range("src_gap", source_gap, 0, 65535);
  call.range("dst_gap", destination_gap, 0, 65535);
  call.multiple("the source address", from, 32);
  call.multiple("the destination address", to, 32);
}

[[gnu::noinline]] void copy_ub_to_l1(void* to, const void* from, int64_t bursts, int64_t length, int64_t source_gap, int64_t destination_gap) {
  const Instruction call("asc_copy_ub2l1", __builtin_return_address(0), CoreKind::aiv);
  uint32_t from_offset, to_offset;
  Memory* ub = &scratch_of(Space::ub, from, call.name, &from_offset);
  Memory* l1 = &scratch_of(Space::l1, to, call.name, &to_offset);
  check_blocks(call, from_offset, to_offset, bursts, length, source_gap, destination_gap);
  issue(PIPE_MTE3, call.name, [=] {
    copy_blocks(*l1, to_offset, *ub, from_offset, bursts, length, source_gap, destination_gap);
    count_copy(Path::ub_l1, bursts * length * 32, bursts);
  });
}

[[gnu::noinline]] void copy_ub_to_ub(void* to, const void* from, int64_t bursts, int64_t length, int64_t source_gap, int64_t destination_gap) {
  const Instruction call("asc_copy_ub2ub", __builtin_return_address(0), CoreKind::aiv);
  uint32_t from_offset, to_offset;
  Memory* ub = &scratch_of(Space::ub, from, call.name, &from_offset);
  scratch_of(Space::ub, to, call.name, &to_offset);
  check_blocks(call, from_offset, to_offset, bursts, length, source_gap, destination_gap);
  issue(PIPE_V, call.name, [=] {
    copy_blocks(*ub, to_offset, *ub, from_offset, bursts, length, source_gap, destination_gap);
    count_copy(Path::ub_ub, bursts * length * 32, bursts);
  });
}

}  // namespace tilevl_host
