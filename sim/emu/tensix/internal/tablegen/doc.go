// Package tablegen writes the Go code and the kernels' headers that follow from package tables, by its
// test.
package tablegen
