// Package function is the service that runs a simulator's library in a process of its own and lets
// the process that started it use the simulated PCI functions: config space, BARs and DMA. The
// protocol is package serve's.
//
// The two processes are connected by a pair of sockets, of which the server has one as its
// descriptor FD. Everything after the greeting goes through a serve.Memory: requests to the server,
// and calls for host memory to the client. Stores are posted: they are queued, keep their order,
// and are followed by every later load. A reply comes after all calls that the library has made
// before, as on a PCIe link, where a completion pushes posted writes.
//
// The library's time only advances while its clock function runs, so the server clocks between
// requests.
//
// How the library is loaded is the program's: [Serve] takes a Loader, which package
// sim/ttsim/libttsim has for the vendor's simulator.
package function

import (
	"errors"

	"github.com/reprise-tt/reprise/sim/serve"
)

// FD is the descriptor of the socket in the server: the first after the standard three.
const FD = 3

// AnyDevice is the device of a Transfer that was asked for while all devices were clocked: the
// library doesn't say which of them it comes from.
const AnyDevice = 0xFF

// DeviceShift separates the devices' address ranges (ttsim src/libttsim.cpp
// PER_DEVICE_PADDR_STRIDE).
const DeviceShift = 36

// deviceOf returns the device that an address of the library belongs to.
func deviceOf(addr uint64) uint8 { return uint8(addr >> DeviceShift) }

// Requests beside the accesses of every service, whose Off is an address of the library.
const (
	opOpen        = serve.OpService + iota // payload: the library's path, Val: 1 for a manual clock; replied
	opConfigRead                           // Object: device, Off: offset; replied with Val
	opConfigWrite                          // Object: device, Off: offset, Val; replied, because it is rare and then a fault is known at once
	opClock                                // advances Val clocks; replied
	opSync                                 // does nothing; replied
	opExit                                 // ends the simulation; not replied
)

// Calls are serve.OpRead, which is replied, and serve.OpWrite, which is not: Object is the device,
// Off the bus address.

// Kinds of a reply to opOpen that isn't StatusOK.
const (
	openLoad = iota
	openSymbol
	openUnsupported
)

var (
	// ErrUnsupported says that this operating system or processor has no way to load the library.
	ErrUnsupported = errors.New("the simulator's library can only be loaded on linux (amd64, arm64, riscv64)")
	// ErrLoad says that the dynamic loader refuses the library.
	ErrLoad = errors.New("the dynamic loader refuses it")
	// ErrSymbol says that the library lacks an entry point.
	ErrSymbol = errors.New("symbol not found")
	// ErrNotServer says that Serve was called in a process that no client has started.
	ErrNotServer = errors.New("this process was not started as a simulator server")
	// ErrGone says that the server ended before it answered.
	ErrGone = errors.New("the simulator server is gone")
)
