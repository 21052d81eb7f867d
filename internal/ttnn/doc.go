// Package ttnn knows what is TT-NN's: installations of the vendor's Python package, its versions
// and environment variables, and how it is started on an emulated machine in place of the vendor's
// simulator.
package ttnn
