// The C API of the AI cores, on the host.
#pragma once

#include <algorithm>
#include <cassert>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <type_traits>

#include "tilevl_host/counters.h"
#include "tilevl_host/cube.h"
#include "tilevl_host/dma.h"
#include "tilevl_host/faults.h"
#include "tilevl_host/memory.h"
#include "tilevl_host/options.h"
#include "tilevl_host/pipes.h"
#include "tilevl_host/qualifiers.h"
#include "tilevl_host/scalar.h"
#include "tilevl_host/sync.h"

#include "tilevl_host/half.h"
#include "tilevl_host/mask.h"
#include "tilevl_host/registers.h"
#include "tilevl_host/vector.h"
