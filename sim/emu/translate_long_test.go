//go:build long

package emu

// translationSeeds is how many random programs TestTranslation runs: a thousand million instructions of both chips together.
const translationSeeds = 280_000
