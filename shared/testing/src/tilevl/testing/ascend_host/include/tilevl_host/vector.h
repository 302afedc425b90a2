// The vector core's SIMD instructions.
#pragma once

#include "tilevl_host/gather.h"
#include "tilevl_host/permute.h"
#include "tilevl_host/reduce.h"
#include "tilevl_host/vector_arithmetic.h"
#include "tilevl_host/vector_broadcast.h"
#include "tilevl_host/vector_compare.h"
#include "tilevl_host/vector_convert.h"
#include "tilevl_host/vector_load.h"
#include "tilevl_host/vector_raw.h"
#include "tilevl_host/vector_store.h"
