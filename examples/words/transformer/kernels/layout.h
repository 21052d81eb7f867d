// What the kernels know of the model; network.go and state.go have the same numbers.
#pragma once
#include <cstdint>

#include "api/dataflow/dataflow_api.h"

constexpr uint32_t kHeads = 4, kPositions = 32, kTokens = 27;

// Tiles of bf16. The first 16 columns of a row are in one face, the others in the next one.
constexpr uint32_t kTileBytes = 2048, kFaceBytes = 512, kRowBytes = 32, kColumns = 16;

// The words of the state: whether the word that is being made goes on, tokens that are still to be made, the last token, the position
// of the next one, the state of random numbers, tokens that have been made, and the factor of logits.
constexpr uint32_t kMore = 0, kLeft = 1, kToken = 2, kPosition = 3, kRandom = 4, kCount = 5, kSharpness = 6;
constexpr uint32_t kStateBytes = 64, kStateWords = 16;

// Pages of the list of tokens.
constexpr uint32_t kListBytes = 1024;

// What DRAM of either architecture wants of addresses.
constexpr uint32_t kAligned = 64;

// row returns the place of a row in a face of tiles.
static inline uint32_t row(uint32_t i) { return i / 16 * 2 * kFaceBytes + i % 16 * kRowBytes; }

using Tiles = InterleavedAddrGen<true>;
