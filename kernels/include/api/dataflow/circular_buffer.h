// A circular buffer as an object, for kernels that move data: also as one side of a transfer by a Noc (noc.h), where data are read to
// the back and written from the front.
#pragma once

#include "api/dataflow/noc.h"

class CircularBuffer {
public:
    enum class AddrSelector { WRITE_PTR, READ_PTR };

    explicit CircularBuffer(uint32_t cb_id) : id(cb_id) {}
    uint32_t get_cb_id() const { return id; }
    void reserve_back(int32_t num_pages) { cb_reserve_back(id, num_pages); }
    void push_back(int32_t num_pages) { cb_push_back(id, num_pages); }
    void wait_front(int32_t num_pages) { cb_wait_front(id, num_pages); }
    void pop_front(int32_t num_pages) { cb_pop_front(id, num_pages); }
    uint32_t get_tile_size() const { return ::get_tile_size(id); }
    bool pages_reservable_at_back(int32_t num_pages) const { return cb_pages_reservable_at_back(id, num_pages); }
    bool pages_available_at_front(int32_t num_pages) const { return cb_pages_available_at_front(id, num_pages); }
    uint32_t get_write_ptr() const { return ::get_write_ptr(id); }
    uint32_t get_read_ptr() const { return ::get_read_ptr(id); }

private:
    uint32_t id;
};

// use<CircularBuffer::AddrSelector::READ_PTR>(cb) takes the address of the front whether data are read to it or written from it, and
// WRITE_PTR that of the back.
template <CircularBuffer::AddrSelector selector>
struct CircularBufferView {
    const CircularBuffer& cb;
};
template <CircularBuffer::AddrSelector selector>
constexpr CircularBufferView<selector> use(const CircularBuffer& cb) {
    return {cb};
}

namespace reprise {
// Arguments and addresses of a place in L1.
struct l1_traits {
    struct src_args_type {
        uint32_t offset_bytes = 0;
    };
    using dst_args_type = src_args_type;
};
}  // namespace reprise

template <>
struct noc_traits_t<CircularBuffer> : reprise::l1_traits {
    template <Noc::AddressType type>
    static uint32_t src_addr(const CircularBuffer& cb, const Noc&, const src_args_type& args) {
        static_assert(type == Noc::AddressType::LOCAL_L1, "a circular buffer is in this core's L1");
        return cb.get_read_ptr() + args.offset_bytes;
    }
    template <Noc::AddressType type>
    static uint32_t dst_addr(const CircularBuffer& cb, const Noc&, const dst_args_type& args) {
        static_assert(type == Noc::AddressType::LOCAL_L1, "a circular buffer is in this core's L1");
        return cb.get_write_ptr() + args.offset_bytes;
    }
};

template <CircularBuffer::AddrSelector selector>
struct noc_traits_t<CircularBufferView<selector>> : reprise::l1_traits {
    static uint32_t at(const CircularBufferView<selector>& view) {
        return selector == CircularBuffer::AddrSelector::READ_PTR ? view.cb.get_read_ptr() : view.cb.get_write_ptr();
    }
    template <Noc::AddressType type>
    static uint32_t src_addr(const CircularBufferView<selector>& view, const Noc&, const src_args_type& args) {
        static_assert(type == Noc::AddressType::LOCAL_L1, "a circular buffer is in this core's L1");
        return at(view) + args.offset_bytes;
    }
    template <Noc::AddressType type>
    static uint32_t dst_addr(const CircularBufferView<selector>& view, const Noc& noc, const dst_args_type& args) {
        return src_addr<type>(view, noc, args);
    }
};
