// The SIMT API of the vector cores, on the host.
#pragma once

#include "tilevl_host/simt_atomic.h"
#include "tilevl_host/simt_convert.h"
#include "tilevl_host/simt_math.h"
#include "tilevl_host/simt_warp.h"

// Templates put it before `inline`; the model needs nothing there.
#define __SIMT_DEVICE_FUNCTIONS_DECL__
