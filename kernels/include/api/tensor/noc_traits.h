// Pages of a TensorAccessor as one side of a transfer by a Noc (api/dataflow/noc.h).
#pragma once

#include "api/dataflow/noc.h"
#include "api/tensor/tensor_accessor.h"

#if defined(KERNEL_COMPILE_TIME_ARGS)
template <bool DRAM>
struct noc_traits_t<TensorAccessor<DRAM>> {
    struct src_args_type {
        uint32_t page_id = 0, offset_bytes = 0;
    };
    using dst_args_type = src_args_type;
    template <Noc::AddressType type>
    static uint64_t src_addr(const TensorAccessor<DRAM>& pages, const Noc& noc, const src_args_type& args) {
        static_assert(type == Noc::AddressType::NOC, "pages are reached over the network");
        return pages.get_noc_addr(args.page_id, args.offset_bytes, noc.get_noc_id());
    }
    template <Noc::AddressType type>
    static uint64_t dst_addr(const TensorAccessor<DRAM>& pages, const Noc& noc, const dst_args_type& args) {
        return src_addr<type>(pages, noc, args);
    }
};
#endif
