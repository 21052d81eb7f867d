//go:build long

package hwtest

// long reports whether cases that take minutes run.
const long = true
