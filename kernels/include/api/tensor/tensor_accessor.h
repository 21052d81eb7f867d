// Pages of a buffer by the description that a host of tt-metal gives in compile-time arguments: two for an interleaved buffer, what
// it is (2 in DRAM, 0 in L1) and its aligned page size. Sharded buffers are not described so here.
#pragma once

#include "api/dataflow/dataflow_api.h"

#if defined(KERNEL_COMPILE_TIME_ARGS)
template <uint32_t first, uint32_t = 0>
struct TensorAccessorArgs {
    static constexpr uint32_t config = get_ct_arg<first>();
    static constexpr bool is_sharded = (config & 1) != 0, is_dram = (config & 2) != 0;
    static_assert(!is_sharded, "only interleaved buffers");
    static constexpr uint32_t AlignedPageSize = get_ct_arg<first + 1>();
    static constexpr uint32_t next_compile_time_args_offset() { return first + 2; }
};

template <bool DRAM>
struct TensorAccessor : InterleavedAddrGen<DRAM> {
    template <uint32_t first>
    TensorAccessor(TensorAccessorArgs<first>, uint32_t address, uint32_t page_size = TensorAccessorArgs<first>::AlignedPageSize)
        : InterleavedAddrGen<DRAM>{address, page_size} {}
};
template <uint32_t first>
TensorAccessor(TensorAccessorArgs<first>, uint32_t) -> TensorAccessor<TensorAccessorArgs<first>::is_dram>;
template <uint32_t first>
TensorAccessor(TensorAccessorArgs<first>, uint32_t, uint32_t) -> TensorAccessor<TensorAccessorArgs<first>::is_dram>;
#endif
