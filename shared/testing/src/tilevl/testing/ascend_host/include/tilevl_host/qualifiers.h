// The language extensions of AscendC, as far as a host compiler needs them.
#pragma once

#include "tilevl_host/core.h"

#define __NPU_ARCH__ 3510

#define __global__
#define __aicore__
#define __gm__
#define __ubuf__
#define __cbuf__
#define __ca__
#define __cb__
#define __cc__

#define __vector__
#define __cube__
#define __mix__(cubes, vectors)

#define __simd_vf__ __attribute__((noinline))
#define __simd_callee__ __attribute__((always_inline))
#define __simt_vf__ __attribute__((noinline))
#define __simt_callee__ __attribute__((always_inline))
#define __launch_bounds__(threads)

#define block_idx (::tilevl_host::self().block)
#define ASC_IS_AIC (::tilevl_host::self().kind == ::tilevl_host::CoreKind::aic)
#define ASC_IS_AIV (::tilevl_host::self().kind == ::tilevl_host::CoreKind::aiv)

#define TILEVL_HOST_INLINE [[gnu::always_inline]] inline

// The generated source opens this namespace by name.
namespace AscendC {}
