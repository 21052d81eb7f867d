// Package tablegen has the test that writes the Go code and the kernels' headers which follow from
// package tables.
package tablegen
