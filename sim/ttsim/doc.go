// Package ttsim drives the vendor's simulator, libttsim.so, as PCI functions: config space, BARs
// and DMA. Package sim/driver puts the driver model on top.
//
// The library ends its process when it refuses an access (ttsim docs/sim_error_handling.md), so it
// runs in a server process: Start runs a program that calls libttsim.Serve. The server's end
// becomes the error of Fault.
//
// Stores are posted: they keep their order, and every later load follows them. Simulated time
// advances between requests: in short chunks while the host is busy with the device, in longer ones
// otherwise, and at a reduced rate on a quiet device.
//
// Chips of one library can write to each other's BARs. A read stops them: the library stands still
// until it has the answer, which it would have to give itself.
//
// Start checks that the library is a shared object for this machine, has every entry point of
// docs/libttsim_api.md (of ttsim 1.10.0), and that its first PCI function is a known chip.
package ttsim
