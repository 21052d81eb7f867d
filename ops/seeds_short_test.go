//go:build !long

package ops_test

// seeds is how many strict chips of each kind run all operations.
const seeds = 1
