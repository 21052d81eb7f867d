// Chooses the next token by the logits and a random number, appends it to the list, and leaves the model's input for the step after
// it. After the end of a word that is the beginning of the next one. Integers alone; package reference has the same arithmetic. BRISC.
//
// Common arguments: addresses of interleaved DRAM buffers: 0 state, 1 a row of logits, a tile, 2 the list of tokens, 3 input: a tile
// with a one in the column of the token, and a tile with a one in that of its position, 4 mask: a tile with 0 in the columns up to
// the position and the lowest number in the others. Only row 0 of tiles is used. 5 whether tokens also go to a stream, each in a
// message of 4 bytes, which the last one closes; 6 the stream's arguments. Circular buffer 0 is only used as memory in L1.
#include "layout.h"
#include "reprise/stream.h"

constexpr uint32_t kOne = 0x3F80, kLowest = 0xFF7F;  // of bf16

// fixed returns a bf16 as a number with 16 bits after the point, cut to less than 128 either way.
static int32_t fixed(uint32_t bits) {
    const uint32_t exponent = bits >> 7 & 0xFF, mantissa = 0x80 | (bits & 0x7F);
    uint32_t v = 0;
    if (exponent >= 134) {
        v = 0xFF << 15;
    } else if (exponent >= 118) {
        v = mantissa << (exponent - 118);
    } else if (exponent >= 111) {
        v = mantissa >> (118 - exponent);
    }
    return bits >> 15 ? -static_cast<int32_t>(v) : static_cast<int32_t>(v);
}

// half returns 2 to the power of -x, with 24 bits after the point; x has 16, and any before.
static uint32_t half(uint64_t x) {
    if (x >= 24 << 16) {
        return 0;
    }
    // The power series of the fraction, by Horner's scheme: powers of the logarithm of 2, divided by factorials.
    constexpr uint32_t series[] = {10, 87, 630, 3638, 15743, 45426, 65536};
    const uint32_t fraction = x & 0xFFFF;
    uint32_t sum = 0;
    for (uint32_t c : series) {
        sum = c - (sum * fraction >> 16);
    }
    return sum << 8 >> (x >> 16);
}

// next returns the next random number (PCG RXS M XS 32, O'Neill 2014).
static uint32_t next(volatile uint32_t& state) {
    const uint32_t old = state;
    state = old * 747796405 + 2891336453;
    const uint32_t word = ((old >> ((old >> 28) + 4)) ^ old) * 277803737;
    return word >> 22 ^ word;
}

// choose returns a token. Tokens before first have no chance.
static uint32_t choose(const volatile uint16_t* logits, uint32_t first, uint32_t sharpness, uint32_t random) {
    int32_t v[kTokens], most = 0;
    for (uint32_t i = first; i < kTokens; i++) {
        v[i] = fixed(logits[i / kColumns * (kAligned / 2) + i % kColumns]);
        most = i == first || v[i] > most ? v[i] : most;
    }
    uint32_t weights[kTokens], sum = 0;
    for (uint32_t i = first; i < kTokens; i++) {
        weights[i] = half(static_cast<uint64_t>(most - v[i]) * sharpness >> 16);
        sum += weights[i];
    }
    uint32_t left = static_cast<uint64_t>(random) * sum >> 32;
    uint32_t token = first;
    while (left >= weights[token]) {
        left -= weights[token++];
    }
    return token;
}

// write stores a row of 32 columns, of which f returns the bits, and begins to write it to row 0 of a tile.
template <typename F>
static void write(uint32_t room, const Tiles& to, uint32_t page, F f) {
    volatile uint16_t* row = reinterpret_cast<volatile uint16_t*>(room);
    for (uint32_t i = 0; i < 32; i++) {
        row[i] = f(i);
    }
    rp_publish();
    noc_async_write(room, get_noc_addr(page, to), kRowBytes);
    noc_async_write(room + kRowBytes, get_noc_addr(page, to, kFaceBytes), kRowBytes);
}

void kernel_main() {
    const Tiles states = {.bank_base_address = get_common_arg_val<uint32_t>(0), .page_size = kStateBytes};
    const Tiles logits = {.bank_base_address = get_common_arg_val<uint32_t>(1), .page_size = kTileBytes};
    const Tiles list = {.bank_base_address = get_common_arg_val<uint32_t>(2), .page_size = kListBytes};
    const Tiles input = {.bank_base_address = get_common_arg_val<uint32_t>(3), .page_size = kTileBytes};
    const Tiles mask = {.bank_base_address = get_common_arg_val<uint32_t>(4), .page_size = kTileBytes};
    const uint32_t room = get_write_ptr(0), row = room + kStateBytes, entry = row + 2 * kAligned, rows = entry + kAligned;
    noc_async_read(get_noc_addr(0, states), room, kStateBytes);
    noc_async_read(get_noc_addr(0, logits), row, kAligned);
    noc_async_read(get_noc_addr(0, logits, kFaceBytes), row + kAligned, kAligned);
    noc_async_read_barrier();
    volatile uint32_t* state = reinterpret_cast<volatile uint32_t*>(room);
    if (state[kLeft] == 0) {
        return;
    }
    const uint32_t position = state[kPosition], count = state[kCount];
    const uint32_t random = next(state[kRandom]);
    uint32_t token = 0;  // the last position is for the end of the longest word
    if (position != kPositions - 1) {
        token = choose(reinterpret_cast<const volatile uint16_t*>(row), position == 0, state[kSharpness], random);
    }
    const uint32_t to = token == 0 ? 0 : position + 1;
    state[kLeft] = state[kLeft] - 1;
    state[kMore] = token != 0 && state[kLeft] != 0;
    state[kToken] = token;
    state[kPosition] = to;
    state[kCount] = count + 1;
    // The word in L1 and in DRAM is at the same place of what is aligned.
    const uint32_t at = count * 4 % kListBytes, from = entry + at % kAligned;
    *reinterpret_cast<volatile uint32_t*>(from) = token;
    rp_publish();
    noc_async_write(room, get_noc_addr(0, states), kStateBytes);
    noc_async_write(from, get_noc_addr(count * 4 / kListBytes, list, at), 4);
    write(rows, input, 0, [&](uint32_t i) { return i == token ? kOne : 0; });
    write(rows + kAligned, input, 1, [&](uint32_t i) { return i == to ? kOne : 0; });
    write(rows + 2 * kAligned, mask, 0, [&](uint32_t i) { return i <= to ? 0 : kLowest; });
    if (get_common_arg_val<uint32_t>(5) != 0) {
        stream tokens;
        stream_open_common(&tokens, 6);
        stream_push_word(&tokens, token);
        if (state[kLeft] == 0) {
            stream_close(&tokens);
        }
    }
    noc_async_write_barrier();
}
