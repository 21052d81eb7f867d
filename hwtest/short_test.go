//go:build !long

package hwtest

// long says whether cases that take minutes run.
const long = false
