// Global memory to L1 with a change of layout, fills of L1, and L1 to L0.
#include <cstring>

#include "instruction.h"
#include "tilevl_host/cube.h"
#include "tilevl_host/dma.h"

namespace tilevl_host {

void set_nz_layout(uint16_t matrices, uint16_t row_stride, uint16_t column_stride, uint16_t matrix_stride) {
  acting.core->nz = {matrices, row_stride, column_stride, matrix_stride};
}

namespace {

struct ToNz {
  Memory* l1;
  uint32_t offset;
  const uint8_t* from;
  int64_t row_bytes, n, d, matrix_bytes;
  int matrices, row_stride, column_stride, matrix_stride;
  int64_t size;  // of an element
  bool transpose;

  void run() const {
    for (int matrix = 0; matrix < matrices; ++matrix) {
      run_matrix(from + matrix * matrix_bytes, offset + static_cast<int64_t>(matrix) * matrix_stride * 32);
    }
  }

  // Element (row, column) goes to 32-byte cell (column / c0) * column_stride + row * row_stride.
  void run_matrix(const uint8_t* source, int64_t to) const {
    const int64_t c0 = 32 / size;
    const int64_t columns = up(d, c0) / c0;
    for (int64_t i = 0; i < (transpose ? d : n); ++i) read_gm(source + i * row_bytes, (transpose ? n : d) * size);
    const int64_t padded = option(Option::row_tail) ? up(n, 16) : n;
    for (int64_t c = 0; c < columns; ++c) {
      const int64_t kept = c * c0 + c0 > d ? d - c * c0 : c0;
      const int64_t bytes = option(Option::column_tail) && transpose ? kept * size : 32;
      for (int64_t row = 0; row < padded; ++row) {
        uint8_t* cell = write_scratch(*l1, to + (c * column_stride + row * row_stride) * 32, bytes);
        memset(cell, 0, bytes);
        if (row >= n) continue;
        if (transpose) {
          for (int64_t k = 0; k < kept; ++k) memcpy(cell + k * size, source + (c * c0 + k) * row_bytes + row * size, size);
        } else {
          memcpy(cell, source + row * row_bytes + c * c0 * size, kept * size);
        }
      }
    }
  }
};

}  // namespace

[[gnu::noinline]] void copy_gm_to_l1(bool transpose, void* to, const void* from, int64_t row_bytes, int64_t n, int64_t d, int64_t matrix_bytes,
                                     bool small_c0, uint32_t element_bytes) {
  const Instruction call(transpose ? "asc_copy_gm2l1_dn2nz" : "asc_copy_gm2l1_nd2nz", __builtin_return_address(0), CoreKind::aic);
  const Core& core = *acting.core;
  ToNz copy{};
  copy.l1 = &scratch_of(Space::l1, to, call.name, &copy.offset);
  call.range("n_value", n, 1, 65535);
  call.range("d_value", d, 1, (1 << 21) - 1);
  call.multiple("the L1 address", copy.offset, 32);
  call.require(!small_c0, "small_c0 is not modelled");
  copy.from = static_cast<const uint8_t*>(from);
  copy.row_bytes = row_bytes;
  copy.n = n;
  copy.d = d;
  copy.matrix_bytes = matrix_bytes;
  copy.matrices = core.nz.matrices;
  copy.row_stride = core.nz.rows;
  copy.column_stride = core.nz.columns;
  copy.matrix_stride = core.nz.matrix;
  copy.size = element_bytes;
  copy.transpose = transpose;
  const int64_t cells = up(d, 32 / element_bytes) / (32 / element_bytes);
  call.require(cells == 1 || copy.column_stride >= (n - 1) * copy.row_stride + 1 || copy.row_stride >= cells,
               "c0_stride of asc_set_gm2l1_nz_para must keep the columns apart");
  issue(PIPE_MTE2, call.name, [copy] {
    copy.run();
    count_copy(Path::gm_l1, copy.matrices * copy.n * copy.d * copy.size, copy.matrices * (copy.transpose ? copy.d : copy.n));
  });
}

[[gnu::noinline]] void fill_l1(void* to, Fill fill, int64_t repeat, int64_t blocks, int64_t gap) {
  const Instruction call("asc_fill_l1", __builtin_return_address(0), CoreKind::aic);
  uint32_t offset;
  Memory* l1 = &scratch_of(Space::l1, to, call.name, &offset);
  call.range("repeat", repeat, 1, 32767);
  call.range("blk_num", blocks, 1, 32767);
  call.range("dst_gap", gap, 0, 32767);
  call.multiple("the L1 address", offset, 32);
  issue(PIPE_MTE2, call.name, [=] {
    for (int64_t r = 0; r < repeat; ++r) {
      uint8_t* out = write_scratch(*l1, offset + r * (blocks + gap) * 32, blocks * 32);
      for (int64_t i = 0; i < blocks * 32; i += fill.bytes) memcpy(out + i, &fill.value, fill.bytes);
    }
  });
}

namespace {

struct ToL0 {
  Memory* l1;
  Memory* l0;
  uint32_t from, to;
  Fractals shape;
  int64_t size;
  Path path;

  void run() const {
    for (int64_t j = 0; j < shape.k_step; ++j) {
      const int64_t source = from + ((shape.k_start + j) * shape.source_stride + shape.m_start) * 512;
      const uint8_t* bytes = read_scratch(*l1, source, shape.m_step * 512);
      memcpy(write_scratch(*l0, to + j * shape.destination_stride * 512, shape.m_step * 512), bytes, shape.m_step * 512);
    }
  }

  // Source element (r, c) of the fractals goes where run() would put element (c, r) of the transposed matrix.
  void run_transposed() const {
    const int64_t c0 = 32 / size;
    for (int64_t c = 0; c < shape.k_step * c0; ++c) {
      for (int64_t r = 0; r < shape.m_step * 16; ++r) {
        const int64_t row = shape.m_start * 16 + r;
        const int64_t source = (((shape.k_start + c / c0) * shape.source_stride * 16 + row) * c0 + c % c0) * size;
        const int64_t target = ((r / c0 * shape.destination_stride + c / 16) * 16 * c0 + c % 16 * c0 + r % c0) * size;
        memcpy(write_scratch(*l0, to + target, size), read_scratch(*l1, from + source, size), size);
      }
    }
  }
};

}  // namespace

[[gnu::noinline]] void copy_l1_to_l0(bool b_side, bool transpose, void* to, const void* from, Fractals shape, uint32_t element_bytes) {
  static const char* const names[2][2] = {{"asc_copy_l12l0a", "asc_copy_l12l0a_transpose"}, {"asc_copy_l12l0b", "asc_copy_l12l0b_transpose"}};
  const Instruction call(names[b_side][transpose], __builtin_return_address(0), CoreKind::aic);
  ToL0 copy{};
  copy.l1 = &scratch_of(Space::l1, from, call.name, &copy.from);
  copy.l0 = &scratch_of(b_side ? Space::l0b : Space::l0a, to, call.name, &copy.to);
  call.multiple("the L1 address", copy.from, 32);
  call.multiple("the L0 address", copy.to, 512);
  call.range("m_start", shape.m_start, 0, 65535);
  call.range("k_start", shape.k_start, 0, 65535);
  call.range("m_step", shape.m_step, 0, 255);
  call.range("k_step", shape.k_step, 0, 255);
  call.range("src_stride", shape.source_stride, -32768, 32767);
  call.range("dst_stride", shape.destination_stride, 0, 65535);
  if (shape.m_step == 0 || shape.k_step == 0) return;
  if (transpose) {
    call.require(element_bytes != 1 || shape.m_step % 2 == 0, "m_step must be even for 8-bit elements");
    call.require(element_bytes != 4 || shape.k_step % 2 == 0, "k_step must be even for 32-bit elements");
    call.require(element_bytes == 2 || !option(Option::narrow_transpose), "the order of 8- and 32-bit elements is not settled (option narrow_transpose)");
  } else {
    call.require(shape.k_step == 1 || shape.destination_stride >= shape.m_step, "dst_stride must be at least m_step, so that columns don't overwrite each other");
  }
  copy.shape = shape;
  copy.size = element_bytes;
  copy.path = b_side ? Path::l1_l0b : Path::l1_l0a;
  issue(PIPE_MTE1, call.name, [copy, transpose] {
    transpose ? copy.run_transposed() : copy.run();
    count_copy(copy.path, copy.shape.m_step * copy.shape.k_step * 512, copy.shape.k_step);
  });
}

}  // namespace tilevl_host
