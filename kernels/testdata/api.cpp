// Every name of the data-movement API that kernels written against tt-metal may use, in the forms they use them.

#include <cstdint>

#include "dataflow_api.h"

constexpr uint32_t first = get_compile_time_arg_val(0);

template <typename Gen>
static void pages(const Gen& gen, uint32_t l1) {
    noc_async_read_page(1, gen, l1);
    noc_async_read_tile(2, gen, l1, 32);
    noc_async_write_page(3, gen, l1);
    noc_async_write_tile(4, gen, l1, 1 - noc_index);
    uint64_t addr = get_noc_addr(5, gen, 64);
    noc_async_read(addr, l1, 32);
}

void kernel_main() {
    uint32_t l1 = get_arg_val<uint32_t>(0);
    int32_t number = get_common_arg_val<int32_t>(1);
    volatile tt_l1_ptr uint32_t* args = (volatile tt_l1_ptr uint32_t*)get_arg_addr(0);
    args[1] = *(volatile tt_l1_ptr uint32_t*)get_common_arg_addr(2) + number + get_compile_time_arg_val(1) + first;

    const InterleavedAddrGen<true> dram = {.bank_base_address = l1, .page_size = 2048};
    const InterleavedAddrGen<false> sram = {.bank_base_address = l1, .page_size = 48};
    const InterleavedPow2AddrGen<true> pow2 = {.bank_base_address = l1, .log_base_2_of_page_size = 11};
    const InterleavedPow2AddrGen<false> small = {.bank_base_address = l1, .log_base_2_of_page_size = 2};
    pages(dram, l1);
    pages(sram, l1);
    noc_async_write(l1, get_noc_addr(7, pow2), 2048);
    noc_async_write(l1, get_noc_addr(7, small), 16);
    noc_async_read(get_noc_addr_from_bank_id<true>(3, 64), l1, 64);
    noc_async_read(get_noc_addr_from_bank_id<false>(3, 64), l1, 64);

    uint64_t there = get_noc_addr(NOC_X(1), NOC_Y(2), l1);
    uint64_t here = get_noc_addr(l1);
    uint64_t helper = get_noc_addr_helper(1 | 2 << 6, l1);
    noc_async_read(there, l1, NOC_MAX_BURST_SIZE * 3);
    noc_async_read<64>(here, l1, 64, noc_index);
    noc_async_read_one_packet(helper, l1, 64);
    noc_async_read_one_packet_set_state(there, 64);
    noc_async_read_one_packet_with_state(l1, l1 + 64);
    noc_async_read_set_state(there);
    noc_async_read_with_state(l1, l1, 100000);
    noc_async_read_set_trid(1);
    noc_async_read_barrier_with_trid(1);
    noc_async_read_barrier();

    noc_async_write(l1, there, 64);
    noc_async_write<64>(l1, there, 64);
    noc_async_write_one_packet(l1, there, 64);
    noc_async_write_one_packet_set_state(there, 64);
    noc_async_write_one_packet_with_state(l1, l1);
    noc_async_write_one_packet_set_state<false>(there, 64);
    noc_async_write_one_packet_with_state<false>(l1, l1);
    noc_async_write_set_trid(2);
    noc_async_write_flushed_with_trid(2);
    noc_async_write_barrier_with_trid(2);
    uint64_t all = get_noc_multicast_addr(1, 2, 3, 4, l1);
    noc_async_write_multicast(l1, all, 20000, 11);
    noc_async_write_multicast<64>(l1, all, 64, 11, true);
    noc_async_write_multicast_one_packet(l1, all, 64, 11);
    noc_async_write_multicast_loopback_src(l1, all, 64, 12);
    noc_async_writes_flushed();
    noc_async_posted_writes_flushed();
    noc_async_write_barrier();

    uint32_t semaphore = get_semaphore(3);
    volatile tt_l1_ptr uint32_t* mine = reinterpret_cast<volatile tt_l1_ptr uint32_t*>(semaphore);
    noc_semaphore_inc(get_noc_addr(1, 2, semaphore), 1);
    noc_semaphore_set(mine, 0);
    noc_semaphore_wait(mine, 1);
    noc_semaphore_wait_min(mine, 2);
    noc_semaphore_set_remote(semaphore, there);
    noc_semaphore_set_multicast(semaphore, all, 11);
    noc_semaphore_set_multicast_loopback_src(semaphore, all, 12, false);
    noc_inline_dw_write(there, 5);
    noc_inline_dw_write<InlineWriteDst::REG>(there, 5, 0xF);
    noc_inline_dw_write<InlineWriteDst::L1>(there, 5, 0xF, noc_index);
    noc_async_atomic_barrier();
    noc_async_full_barrier();

    constexpr uint32_t cb = 4;
    cb_reserve_back(cb, 1);
    *(volatile tt_l1_ptr uint32_t*)get_write_ptr(cb) = my_x[noc_index] + my_y[0] + get_tile_size(cb);
    cb_push_back(cb, 1);
    if (cb_pages_available_at_front(cb, 1) || cb_pages_reservable_at_back(cb, 2)) {
        cb_wait_front(cb, 1);
    }
    args[2] = get_read_ptr(cb) + get_local_cb_interface(cb).fifo_num_pages;
    cb_pop_front(cb, 1);

    noc_async_read(get_noc_addr(MEM_ZEROS_BASE), l1, MEM_ZEROS_SIZE);
    args[3] = get_absolute_logical_x() + get_absolute_logical_y() + get_relative_logical_x() + get_relative_logical_y();
    args[4] = align(number, L1_ALIGNMENT) + align_power_of_2(number, DRAM_ALIGNMENT);
    invalidate_l1_cache();
    riscv_wait(100);
    ASSERT(number > 0);
    WAYPOINT("END");
}
