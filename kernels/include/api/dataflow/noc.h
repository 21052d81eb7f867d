// The network as an object, under the names that later kernels of tt-metal use: the addresses of a transfer come from the objects
// that it is from and to, and from arguments that each kind of them has. circular_buffer.h has circular buffers, and
// api/tensor/noc_traits.h the pages of TensorAccessors. Transfers with state and multicasts aren't there: dataflow_api.h has them.
#pragma once

#include "api/dataflow/dataflow_api.h"

// noc_traits_t<T> has the arguments of transfers from and to a T, and its addresses.
template <typename T>
struct noc_traits_t {
    static_assert(sizeof(T) == 0, "no transfers from or to this type: include its header");
};

enum class NocOptions : uint32_t { DEFAULT = 0, TXN_ID = 1, POSTED = 2, CUSTOM_VC = 4, MCAST_INCL_SRC = 8, INLINE_L1 = 16, INLINE_REG = 32 };
constexpr NocOptions operator|(NocOptions a, NocOptions b) {
    return static_cast<NocOptions>(static_cast<uint32_t>(a) | static_cast<uint32_t>(b));
}
constexpr bool has_flag(NocOptions options, NocOptions flag) {
    return (static_cast<uint32_t>(options) & static_cast<uint32_t>(flag)) != 0;
}

// Values of options that are set.
struct NocOptVals {
    uint32_t vc = NOC_UNICAST_WRITE_VC;  // CUSTOM_VC
    uint32_t trid = 0;                   // TXN_ID
};

class Noc {
public:
    enum class AddressType { NOC, LOCAL_L1 };

    Noc() : id(noc_index) {}
    explicit Noc(uint8_t noc_id) : id(noc_id) {}
    uint8_t get_noc_id() const { return id; }

    // async_read begins to read to this core's L1.
    template <NocOptions options = NocOptions::DEFAULT, uint32_t max_page_size = NOC_MAX_BURST_SIZE + 1, bool = true, typename Src, typename Dst>
    void async_read(const Src& src, const Dst& dst, uint32_t size_bytes, const typename noc_traits_t<Src>::src_args_type& src_args,
                    const typename noc_traits_t<Dst>::dst_args_type& dst_args, const NocOptVals& values = {}) const {
        static_assert(!has_flag(options, NocOptions::CUSTOM_VC), "reads have no channel of their own");
        if constexpr (has_flag(options, NocOptions::TXN_ID)) {
            noc_async_read_set_trid(values.trid, id);
        }
        ::noc_async_read<max_page_size>(noc_traits_t<Src>::template src_addr<AddressType::NOC>(src, *this, src_args),
                                        noc_traits_t<Dst>::template dst_addr<AddressType::LOCAL_L1>(dst, *this, dst_args), size_bytes, id);
    }

    // async_write begins to write from this core's L1.
    template <NocOptions options = NocOptions::DEFAULT, uint32_t max_page_size = NOC_MAX_BURST_SIZE + 1, bool = true, typename Src, typename Dst>
    void async_write(const Src& src, const Dst& dst, uint32_t size_bytes, const typename noc_traits_t<Src>::src_args_type& src_args,
                     const typename noc_traits_t<Dst>::dst_args_type& dst_args, const NocOptVals& values = {}) const {
        if constexpr (has_flag(options, NocOptions::TXN_ID)) {
            noc_async_write_set_trid(values.trid, id);
        }
        ::noc_async_write<max_page_size, has_flag(options, NocOptions::POSTED)>(
            noc_traits_t<Src>::template src_addr<AddressType::LOCAL_L1>(src, *this, src_args),
            noc_traits_t<Dst>::template dst_addr<AddressType::NOC>(dst, *this, dst_args), size_bytes, id,
            has_flag(options, NocOptions::CUSTOM_VC) ? values.vc : NOC_UNICAST_WRITE_VC);
    }

    // The barriers wait for all transfers, or those of a transaction id with TXN_ID.
    template <NocOptions options = NocOptions::DEFAULT>
    void async_read_barrier(const NocOptVals& values = {}) const {
        if constexpr (has_flag(options, NocOptions::TXN_ID)) {
            noc_async_read_barrier_with_trid(values.trid, id);
        } else {
            noc_async_read_barrier(id);
        }
    }
    template <NocOptions options = NocOptions::DEFAULT>
    void async_write_barrier(const NocOptVals& values = {}) const {
        if constexpr (has_flag(options, NocOptions::TXN_ID)) {
            noc_async_write_barrier_with_trid(values.trid, id);
        } else {
            noc_async_write_barrier(id);
        }
    }
    template <NocOptions options = NocOptions::DEFAULT>
    void async_writes_flushed(const NocOptVals& values = {}) const {
        if constexpr (has_flag(options, NocOptions::POSTED)) {
            noc_async_posted_writes_flushed(id);
        } else if constexpr (has_flag(options, NocOptions::TXN_ID)) {
            noc_async_write_flushed_with_trid(values.trid, id);
        } else {
            noc_async_writes_flushed(id);
        }
    }
    void async_atomic_barrier() const { noc_async_atomic_barrier(id); }
    void async_full_barrier() const { noc_async_full_barrier(id); }

private:
    uint8_t id;
};
