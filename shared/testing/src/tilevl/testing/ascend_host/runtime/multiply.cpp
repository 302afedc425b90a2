// The matrix unit.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "instruction.h"
#include "tilevl_host/cube.h"
#include "tilevl_host/half.h"

namespace tilevl_host {

constexpr int64_t kSmallTile = 10;  // fractals of C below which the next accumulating multiply may start too early

void set_hf32(bool on) { acting.core->hf32 = on; }
void set_hf32_nearest_even(bool on) { acting.core->hf32_nearest_even = on; }

static int size_of(Element kind) {
  switch (kind) {
    case Element::f32:
    case Element::s32: return 4;
    case Element::f16:
    case Element::bf16: return 2;
    default: return 1;
  }
}

// HF32 keeps 11 bits of the fraction.
static float to_hf32(float value, bool nearest_even) {
  uint32_t bits;
  memcpy(&bits, &value, 4);
  if ((bits & 0x7f800000u) == 0x7f800000u) return value;
  bits += nearest_even ? 0x7ffu + (bits >> 12 & 1u) : 0x800u;
  bits &= ~0xfffu;
  memcpy(&value, &bits, 4);
  return value;
}

static float element(const uint8_t* at, Element kind, int hf32) {
  uint16_t bits;
  float value;
  switch (kind) {
    case Element::f16: memcpy(&bits, at, 2); return fp16_to_float(bits);
    case Element::bf16: memcpy(&bits, at, 2); return bf16_to_float(bits);
    case Element::f32: memcpy(&value, at, 4); return hf32 ? to_hf32(value, hf32 == 2) : value;
    case Element::f8e4m3: { float8_e4m3_t narrow; memcpy(&narrow, at, 1); return static_cast<float>(narrow); }
    case Element::f8e5m2: { float8_e5m2_t narrow; memcpy(&narrow, at, 1); return static_cast<float>(narrow); }
    case Element::s8: return static_cast<float>(static_cast<int8_t>(*at));
    default: return static_cast<float>(*at);
  }
}

// An operand in the layout of L0: rows of 32 bytes, column after column of them. Result [rows, k] or, transposed, [k, rows].
static std::vector<float> operand(Memory& memory, int64_t offset, int64_t rows, int64_t k, Element kind, int hf32, bool plain, bool transposed) {
  const int64_t size = size_of(kind), c0 = 32 / size;
  std::vector<float> values(rows * k);
  for (int64_t column = 0; column * c0 < k; ++column) {
    const int64_t kept = std::min(c0, k - column * c0);
    for (int64_t row = 0; row < rows; ++row) {
      const int64_t at = plain ? column * 32 : (column * up(rows, 16) + row) * 32;
      const uint8_t* cell = read_scratch(memory, offset + at, kept * size);
      for (int64_t i = 0; i < kept; ++i) {
        const int64_t depth = column * c0 + i;
        values[transposed ? depth * rows + row : row * k + depth] = element(cell + i * size, kind, hf32);
      }
    }
  }
  return values;
}

template <typename Sum>
[[gnu::optimize("O3")]] static void accumulate(Sum* row, const float* a, const float* b, int64_t k, int64_t n) {
  for (int64_t depth = 0; depth < k; ++depth) {
    const Sum factor = static_cast<Sum>(a[depth]);
    for (int64_t column = 0; column < n; ++column) row[column] += factor * static_cast<Sum>(b[depth * n + column]);
  }
}

namespace {

struct Product {
  Memory *a_memory, *b_memory, *c_memory;
  uint32_t a_offset, b_offset, c_offset;
  Multiply shape;
  Element input, sum;
  int hf32;

  int64_t c_at(int64_t row, int64_t group) const { return c_offset + (group * up(shape.m, 16) + row) * 64; }

  template <typename Sum, typename Stored>
  void run() const {
    const std::vector<float> a = operand(*a_memory, a_offset, shape.m, shape.k, input, hf32, shape.plain_gemv && shape.m == 1, false);
    const std::vector<float> b = operand(*b_memory, b_offset, shape.n, shape.k, input, hf32, false, true);
    std::vector<Sum> row(shape.n);
    const Access access = shape.overwrite ? Access::write : Access::atomic;  // reads what it adds to
    for (int64_t m = 0; m < shape.m; ++m) {
      for (int64_t group = 0; group * 16 < shape.n; ++group) {
        const int64_t kept = std::min<int64_t>(16, shape.n - group * 16);
        touch_scratch(*c_memory, c_at(m, group), kept * 4, access, nullptr, nullptr);
        for (int64_t i = 0; i < kept; ++i) {
          Stored old{};
          if (!shape.overwrite) memcpy(&old, c_memory->base + c_at(m, group) + i * 4, 4);
          row[group * 16 + i] = static_cast<Sum>(old);
        }
      }
      accumulate(row.data(), a.data() + m * shape.k, b.data(), shape.k, shape.n);
      for (int64_t n = 0; n < shape.n; ++n) {
        const Stored value = static_cast<Stored>(row[n]);
        memcpy(c_memory->base + c_at(m, n / 16) + n % 16 * 4, &value, 4);
      }
    }
  }
};

}  // namespace

[[gnu::noinline]] void multiply(void* c, const void* a, const void* b, Multiply shape, Element input, Element sum) {
  const Instruction call("asc_mmad", __builtin_return_address(0), CoreKind::aic);
  Product product{};
  product.a_memory = &scratch_of(Space::l0a, a, call.name, &product.a_offset);
  product.b_memory = &scratch_of(Space::l0b, b, call.name, &product.b_offset);
  product.c_memory = &scratch_of(Space::l0c, c, call.name, &product.c_offset);
  call.range("m", shape.m, 0, 4095);
  call.range("k", shape.k, 0, 4095);
  call.range("n", shape.n, 0, 4095);
  call.multiple("the L0A address", product.a_offset, 512);
  call.multiple("the L0B address", product.b_offset, 512);
  call.multiple("the L0C address", product.c_offset, 1024);
  call.require(!shape.from_bias || shape.overwrite, "a start from the bias table is not modelled");
  const bool integers = input == Element::s8;
  call.require(input != Element::other && input != Element::u8 && input != Element::s32, "operands must be int8, fp16, bf16, fp32 or fp8");
  call.require(integers ? sum == Element::s32 : sum == Element::f32, "C must be int32 for int8 operands and float32 for others");
  if (shape.m == 0 || shape.k == 0 || shape.n == 0) return;
  product.shape = shape;
  product.input = input;
  product.sum = sum;
  product.hf32 = acting.core->hf32 ? 1 + acting.core->hf32_nearest_even : 0;
  issue(PIPE_M, call.name, [product, integers] {
    Core& core = *acting.core;
    const Multiply& shape = product.shape;
    const int64_t fractals = up(shape.m, 16) / 16 * (up(shape.n, 16) / 16);
    if (!shape.overwrite && fractals < kSmallTile && core.last_multiply_place && core.last_multiply_c == product.c_offset &&
        option(Option::small_matrix_barrier)) {
      report("hazard", "asc_mmad at %s accumulates on a C of %lld fractals right after the one at %s: fewer than %lld need asc_sync_pipe(PIPE_M) between",
             current_place().text, static_cast<long long>(fractals), place(core.last_multiply_place).text, static_cast<long long>(kSmallTile));
    }
    core.last_multiply_place = acting.place;
    core.last_multiply_c = product.c_offset;
    if (integers) {
      product.run<double, int32_t>();  // exact: 4095 products of 14 bits on 32 bits
    } else if (option(Option::matrix_accumulation)) {
      product.run<double, float>();
    } else {
      product.run<float, float>();
    }
    const int64_t depth = 32 / size_of(product.input);
    count_macs(shape.m * shape.k * shape.n, fractals * (up(shape.k, depth) / depth));
  });
}

}  // namespace tilevl_host
