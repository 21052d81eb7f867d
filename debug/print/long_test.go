//go:build long

package print_test

const long = true
