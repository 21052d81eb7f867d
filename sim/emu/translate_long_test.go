//go:build long

package emu

// translationSeeds is how many random programs TestTranslation runs.
const translationSeeds = 100_000
