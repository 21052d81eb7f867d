// Package ttnn knows what is TT-NN's: installations of the vendor's Python package, its versions
// and environment variables, and how it starts on an emulated machine.
package ttnn
