// Groups of threads that the warp operations define.
#pragma once

#include "tilevl_host/simt_warp.h"
