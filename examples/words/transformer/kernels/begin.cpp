// Begins a word: says that it goes on, if there are tokens left to make. The kernel that chose the end of the word before has left
// all else of the state, the input and the mask as the first token wants them. BRISC.
//
// Common arguments: address of the interleaved DRAM buffer of the state. Circular buffer 0 is only used as memory in L1.
#include "layout.h"

void kernel_main() {
    const Tiles states = {.bank_base_address = get_common_arg_val<uint32_t>(0), .page_size = kStateBytes};
    const uint32_t room = get_write_ptr(0);
    noc_async_read(get_noc_addr(0, states), room, kStateBytes);
    noc_async_read_barrier();
    volatile uint32_t* state = reinterpret_cast<volatile uint32_t*>(room);
    state[kMore] = state[kLeft] != 0;
    rp_publish();
    noc_async_write(room, get_noc_addr(0, states), kStateBytes);
    noc_async_write_barrier();
}
