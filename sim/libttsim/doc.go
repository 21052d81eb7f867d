// Package libttsim offers an emulated machine through the operations of the vendor's C interface to
// its simulator (ttsim docs/libttsim_api.md, 1.10). Folder cshared builds a shared library that
// TT-NN, tt-umd and tt-exalens load instead of the vendor's libttsim.so.
//
// Unlike the vendor's simulator, the machine runs beside its host: nothing has to advance its
// clock.
package libttsim
