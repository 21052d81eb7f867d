// Package ttsim drives the vendor's simulator, libttsim.so, as PCI functions: config space, BARs
// and DMA, the way a card looks to a driver. Package sim/driver puts the model of the kernel driver
// on top of it.
//
// The library ends its process when software does something it refuses (ttsim
// docs/sim_error_handling.md), so it never runs in the caller's process. Start runs a server
// process of the caller's choice, which calls libttsim.Serve; what ends the server becomes the
// error that Fault returns, and the caller lives on. There is no mode without a second process: a
// refused access would take the program down, and the reason with it.
//
// Requests, replies, DMA and bulk data go through memory that both processes map. Stores are
// posted: they are queued, keep their order, and are followed by every later load. The library's
// time only advances while its clock function runs, so the server clocks between requests, in short
// chunks while the host is busy with the device and in longer ones when it is not. A device that
// has been quiet for a while is clocked at a reduced rate to spare the processor; it never stops
// while it is open.
//
// Chips of one library can write to each other's BARs. A read from there stops them, because the
// library stands still until it has the answer, which it would have to give itself.
//
// The library shows no version; what is checked is that it is a shared object for this machine,
// that it has every entry point that docs/libttsim_api.md specifies (written against ttsim 1.10.0),
// and that its first PCI function is a chip that Reprise knows.
package ttsim
