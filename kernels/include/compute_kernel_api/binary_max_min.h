// The place of this header in earlier releases of tt-metal.
#pragma once
#include "api/compute/binary_max_min.h"
