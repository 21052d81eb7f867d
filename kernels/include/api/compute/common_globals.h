// What all headers of the compute API need. Names and semantics follow tt_metal/hw/inc/api/compute; the implementation, of our
// own, is reprise/compute. A function concerns one thread of the engines or several, and is nothing in the others' images.
#pragma once

#include "hostdevcommon/kernel_structs.h"
#include "reprise/compute/main.h"

#define ALWI static inline __attribute__((always_inline, unused))
