// A dense layer with int8 weights, on the three compute processors, each of which works on every third page. The
// arithmetic is that of package digits' comment, bit for bit; RV32IM has every instruction of it.
//
// Runtime arguments, uint32, the same for the three:
//   0 pages in this core's share, may be 0
//
// Four outputs are computed at a time: a load of an activation serves four products, and the four sums and pointers
// stay in registers. The innermost loop takes 13 instructions for four products, and 6 to advance after every sixteen;
// it is shorter than Wormhole's smallest instruction cache (512 bytes, TRISC1).
#include "api/dataflow/dataflow_api.h"
#include "layout.h"

namespace {

constexpr uint32_t kBlock = 4;  // outputs at a time

// block adds the products of four rows to their biases. w is the first row, in a multiple of 4. It is a function of its own so that
// the loop has all registers.
__attribute__((noinline)) void block(const int32_t* bias, const int8_t* w, const int8_t* x, uint32_t in,
                                     int32_t* sums) {
    int32_t s0 = bias[0], s1 = bias[1], s2 = bias[2], s3 = bias[3];
    const int8_t* w1 = w + in;
    const int8_t* w2 = w1 + in;
    const int8_t* w3 = w2 + in;
    for (const int8_t* end = x + in; x != end; x += 4, w += 4, w1 += 4, w2 += 4, w3 += 4) {
#pragma GCC unroll 4
        for (uint32_t k = 0; k < 4; k++) {
            const int32_t a = x[k];
            s0 += a * w[k];
            s1 += a * w1[k];
            s2 += a * w2[k];
            s3 += a * w3[k];
        }
    }
    sums[0] = s0;
    sums[1] = s1;
    sums[2] = s2;
    sums[3] = s3;
}

// requantise scales a sum to the next layer's units: rounded half up, rectified, at most 127.
inline __attribute__((always_inline)) uint32_t requantise(int32_t sum, int32_t multiplier, int32_t half, uint32_t shift) {
    const int32_t y = (sum * multiplier + half) >> shift;
    return y < 0 ? 0 : y > 127 ? 127 : y;
}

// layer computes one page.
void layer(const PackedLayer* p, const int8_t* x, uint32_t* to) {
    const uint8_t* base = reinterpret_cast<const uint8_t*>(p);
    const int32_t* bias = reinterpret_cast<const int32_t*>(base + p->biases);
    const int8_t* w = reinterpret_cast<const int8_t*>(base + p->weights);
    uint32_t* const end = to + kPageBytes / sizeof(uint32_t);
    const uint32_t in = p->in;
    const uint32_t shift = p->shift;
    const int32_t multiplier = p->multiplier;
    const bool scores = p->flags & kFlagScores;
    // Rows past the layer's outputs are zero, and so are their results: a page is padded by computing them.
    for (uint32_t o = 0; o < p->out; o += kBlock, bias += kBlock, w += kBlock * in) {
        int32_t sums[kBlock];
        block(bias, w, x, in, sums);
        if (scores) {
            for (uint32_t i = 0; i < kBlock; i++) {
                *to++ = sums[i];
            }
        } else {
            const int32_t half = 1 << (shift - 1);
            uint32_t word = 0;
            for (uint32_t i = 0; i < kBlock; i++) {
                word |= requantise(sums[i], multiplier, half, shift) << 8 * i;
            }
            *to++ = word;
        }
    }
    while (to != end) {
        *to++ = 0;
    }
}

}  // namespace

void kernel_main() {
    const uint32_t lane = rp_processor() - RP_TRISC0;
    const uint32_t input = kInputBuffer + lane;
    const uint32_t output = kOutputBuffer + lane;
    const uint32_t pages = get_arg_val<uint32_t>(0);
    const PackedLayer* const p = reinterpret_cast<const PackedLayer*>(get_read_ptr(kWeightsBuffer));

    for (uint32_t page = lane; page < pages; page += kLanes) {
        cb_wait_front(input, 1);
        if (p->magic != kLayerMagic) {
            // Sizes that are not those of a layer would overwrite L1. Stop here, so that the report of the hang shows why.
            rp_waypoint_detail("NOLY", p->magic);
            for (;;) {
            }
        }
        cb_reserve_back(output, 1);
        layer(p, reinterpret_cast<const int8_t*>(get_read_ptr(input)), reinterpret_cast<uint32_t*>(get_write_ptr(output)));
        cb_push_back(output, 1);
        cb_pop_front(input, 1);
    }
}
