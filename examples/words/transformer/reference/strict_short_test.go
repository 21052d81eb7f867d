//go:build !long

package reference_test

// strictTokens is how many tokens TestStrict makes on each architecture.
const strictTokens = 1
