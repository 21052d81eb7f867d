// The beginning and end of a compute kernel. Its source defines kernel_main, or as tt-metal's earlier examples have it, MAIN in
// a namespace NAMESPACE; both become the function that the real kernel_main calls between start and end of the engines.
#pragma once

#include "reprise/compute/math.h"
#include "reprise/compute/pack.h"
#include "reprise/compute/unpack.h"

#define NAMESPACE reprise_kernel
#define MAIN kernel_main()

extern "C" void rp_compute_main(void);
namespace NAMESPACE {
extern "C" void rp_compute_main(void);  // the same function
}

extern "C" void kernel_main(void) {
    UNPACK(reprise::unpack::start());
    MATH(reprise::math::start());
    PACK(reprise::pack::start());
    rp_compute_main();
    rp_tensix_sync();  // the next kernel finds the engines idle
}
#define kernel_main rp_compute_main
