// L0C to UB or global memory, row-major, with a conversion on the way.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "instruction.h"
#include "tilevl_host/cube.h"
#include "tilevl_host/half.h"

namespace tilevl_host {

enum Quant { kCopy = 0, kToF16 = 1, kToS8 = 9, kToF8 = 13, kToBf16 = 16, kToS16 = 28 };

void set_l0c_matrices(uint16_t matrices, uint16_t source_stride, uint32_t destination_stride) {
  acting.core->l0c = {matrices, source_stride, destination_stride};
}

template <typename Integer>
static Integer clamp_to(float value) {
  const float low = static_cast<float>(std::numeric_limits<Integer>::min()), high = static_cast<float>(std::numeric_limits<Integer>::max());
  return static_cast<Integer>(std::min(std::max(std::nearbyint(value), low), high));
}

static int64_t width_of(int quant) { return quant == kCopy ? 4 : quant == kToS8 || quant == kToF8 ? 1 : 2; }

template <typename T>
static void put(uint8_t* to, T value) {
  memcpy(to, &value, sizeof(T));
}

static void convert(uint8_t* to, const uint8_t* from, int quant, bool relu, bool integers) {
  if (quant == kCopy) {
    int32_t bits;  // of a float too: negative ones have the sign bit set, and NaNs pass
    memcpy(&bits, from, 4);
    float value;
    memcpy(&value, from, 4);
    if (relu && (integers ? bits < 0 : value < 0)) bits = 0;
    put(to, bits);
    return;
  }
  float value;
  if (integers) {
    int32_t whole;
    memcpy(&whole, from, 4);
    value = static_cast<float>(whole);
  } else {
    memcpy(&value, from, 4);
  }
  if (relu && value < 0) value = 0;
  switch (quant) {
    case kToF16: put(to, static_cast<half>(value)); break;
    case kToBf16: put(to, static_cast<bfloat16_t>(value)); break;
    case kToS8: put(to, clamp_to<int8_t>(value)); break;
    case kToS16: put(to, clamp_to<int16_t>(value)); break;
    default: put(to, static_cast<float8_e4m3_t>(value));
  }
}

namespace {

struct Out {
  Memory* l0c;
  uint32_t offset;
  TileOut tile;
  bool integers;
  Atomic atomic;
  AtomicType atomic_type;

  // Columns [first, first + columns) of one row, converted.
  void row(int64_t m, int64_t first, int64_t columns, uint8_t* to) const {
    const int64_t width = width_of(tile.quant);
    for (int64_t n = first; n < first + columns;) {
      const int64_t kept = std::min(16 - n % 16, first + columns - n);
      const uint8_t* from = read_scratch(*l0c, offset + ((n / 16 * tile.source_stride + m) * 16 + n % 16) * 4, kept * 4);
      for (int64_t i = 0; i < kept; ++i) convert(to + (n - first + i) * width, from + i * 4, tile.quant, tile.relu != 0, integers);
      n += kept;
    }
  }

  void to_ub(Memory& ub, int64_t to, int64_t first_row, int64_t rows, int64_t first_column, int64_t columns) const {
    const int64_t width = width_of(tile.quant);
    for (int64_t m = 0; m < rows; ++m) {
      row(first_row + m, first_column, columns, write_scratch(ub, to + m * tile.destination_stride * width, columns * width));
    }
    count_copy(Path::l0c_ub, rows * columns * width, rows);
  }

  void to_gm(uint8_t* to) const {
    const int64_t width = width_of(tile.quant);
    std::vector<uint8_t> bytes(tile.n * width);
    for (int64_t m = 0; m < tile.m; ++m) {
      row(m, 0, tile.n, bytes.data());
      store_gm(to + m * tile.destination_stride * width, bytes.data(), tile.n * width, atomic, atomic_type);
    }
    count_copy(Path::l0c_gm, tile.m * tile.n * width, tile.m);
  }
};

}  // namespace

static void check_tile(const Instruction& call, const TileOut& tile, Element source, Element destination) {
  call.range("n_size", tile.n, 1, 4095);
  call.range("m_size", tile.m, 1, 65535);
  call.require(tile.rows && !tile.transposed && !tile.channel_split && !tile.clip, "only row-major output is modelled (nz2nd 1, nz2dn 0, channel_split 0, clip 0)");
  call.require(tile.relu == 0 || tile.relu == 1, "a ReLU with a slope is not modelled");
  call.require(acting.core->l0c.matrices == 1, "asc_set_l0c_copy_nz_para of several matrices is not modelled");
  const bool scaled = tile.quant == kToS8 || tile.quant == kToF8 || tile.quant == kToS16;
  call.require(tile.quant == kCopy || tile.quant == kToF16 || tile.quant == kToBf16 || scaled, "this quant code is not modelled");
  call.require(!scaled || option(Option::unscaled_requantisation), "this quant code needs a scale, and none is set (option unscaled_requantisation)");
  call.require(tile.quant != kCopy || source == destination, "quant 0 copies: source and destination must have one type");
  call.require(tile.source_stride >= tile.m || tile.n <= 16, "src_stride must be at least m_size");
}

[[gnu::noinline]] void copy_l0c(bool to_ub, void* to, const void* from, TileOut tile, Element source, Element destination) {
  const Instruction call(to_ub ? "asc_copy_l0c2ub" : "asc_copy_l0c2gm", __builtin_return_address(0), CoreKind::aic);
  Out out{};
  out.l0c = &scratch_of(Space::l0c, from, call.name, &out.offset);
  call.multiple("the L0C address", out.offset, 64);
  check_tile(call, tile, source, destination);
  out.tile = tile;
  out.integers = source == Element::s32;
  out.atomic = acting.core->atomic;
  out.atomic_type = acting.core->atomic_type;
  if (!to_ub) {
    uint8_t* const target = static_cast<uint8_t*>(to);
    call.require(tile.m == 1 || tile.destination_stride >= tile.n, "dst_stride must be at least n_size");
    issue(PIPE_FIX, call.name, [out, target] { out.to_gm(target); });
    return;
  }
  uint32_t offset;
  scratch_of(Space::ub, to, call.name, &offset);
  const int64_t width = width_of(tile.quant);
  call.multiple("the UB address", offset, 32);
  call.multiple("n_size in bytes", tile.n * width, 32);
  call.multiple("dst_stride in bytes", tile.destination_stride * width, 32);
  call.range("dual_dst_mode", tile.dual, 0, 2);
  call.range("sub_blockid", tile.sub_block, 0, 1);
  call.require(tile.dual == 0 || (tile.quant == kCopy && tile.relu == 0), "a split between the vector cores can't convert");
  call.require(tile.dual != 1 || tile.m % 2 == 0, "m_size must be even to be split");
  call.require(tile.dual != 2 || tile.n % 32 == 0, "n_size must be a multiple of 32 to be split");
  Memory* const first = acting.core->group->memory[1][static_cast<int>(Space::ub)];
  Memory* const second = acting.core->group->memory[2][static_cast<int>(Space::ub)];
  issue(PIPE_FIX, call.name, [out, offset, first, second] {
    const TileOut& tile = out.tile;
    switch (tile.dual) {
      case 0: out.to_ub(tile.sub_block ? *second : *first, offset, 0, tile.m, 0, tile.n); break;
      case 1:
        out.to_ub(*first, offset, 0, tile.m / 2, 0, tile.n);
        out.to_ub(*second, offset, tile.m / 2, tile.m / 2, 0, tile.n);
        break;
      default:
        out.to_ub(*first, offset, 0, tile.m, 0, tile.n / 2);
        out.to_ub(*second, offset, 0, tile.m, tile.n / 2, tile.n / 2);
    }
  });
}

}  // namespace tilevl_host
