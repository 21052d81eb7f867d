// Arguments, circular buffers and Dst: what every compute kernel uses.
#pragma once

#include "api/compute/cb_api.h"
#include "api/compute/common_globals.h"
#include "api/compute/reg_api.h"
