// Tiles from circular buffers to Dst.
#pragma once

#include "api/compute/common.h"
