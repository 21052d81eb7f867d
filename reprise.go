// Package reprise records a Tenstorrent command stream once and plays it again for almost nothing.
//
// A [Device] is a Wormhole or Blackhole chip: on silicon behind the kernel driver tt-kmd, in the
// vendor's simulator, or in the embedded emulator; the code is the same. Programs are kernels for
// the chip's RISC-V cores with their arguments and circular buffers. A [Queue] runs them in order.
// [Queue.Capture] records programs into a [Trace] at the top of every DRAM bank, and [Trace.Replay]
// runs them again by writing a few words.
//
// A device has one or two queues, which an [Event] or a wait of the host orders. A trace may span
// both, or queues of several devices.
//
// Package chip has coordinates, architectures and processors, package allocator kinds of memory,
// layouts and errors of memory, and package dispatch errors of programs, hangs and events.
//
// Nothing is global: everything belongs to a Device that a program opens and closes.
package reprise

import (
	"maps"
	"time"

	"github.com/reprise-tt/reprise/allocator"
	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/dispatch"
)

type options struct {
	dispatch dispatch.Options
	memory   allocator.Config
	usageLog string
	firmware string // folder of tt-metal's base firmware
	wheels   []string
	queues   string // folder of tt-metal's command-queue firmware
}

// Option changes how Open sets a device up.
type Option func(*options)

// WithQueues asks for n command queues, 1 or 2; the default is 1. Each queue moves data and runs
// programs and traces; see [WithQueueWorkers]. Memory that one queue still uses must not be
// released and reused by the other without an event between them.
func WithQueues(n int) Option { return func(o *options) { o.dispatch.Queues = n } }

// WithQueueWorkers gives a queue the workers that its programs may use; the default is the whole
// grid. The workers of two queues must be disjoint or equal. Programs on disjoint workers run at
// the same time. Equal workers pass from one queue to the other: the next program must come after
// the other queue's last program or replay, by an event or because the host has waited for it.
// Otherwise Run and Replay return an *dispatch.OverlapError.
func WithQueueWorkers(queue int, workers chip.Range) Option {
	return func(o *options) {
		m := maps.Clone(o.dispatch.Workers)
		if m == nil {
			m = map[int]chip.Range{}
		}
		m[queue] = workers
		o.dispatch.Workers = m
	}
}

// WithFirstEvent sets the number before the first 32-bit event id, so that tests can make the ids
// wrap. The default is 0.
func WithFirstEvent(n uint32) Option { return func(o *options) { o.dispatch.FirstEvent = n } }

// WithQueueMemory sets the pinned host memory of each command queue in bytes; the default is 16
// MiB. Three quarters of it hold commands and data for the device, the rest what comes back.
func WithQueueMemory(n uint32) Option { return func(o *options) { o.dispatch.QueueMemory = n } }

// WithTraceRegion reserves n bytes over all DRAM banks for traces. Without it, or with 0, traces
// take free memory from the top of every bank.
func WithTraceRegion(n uint64) Option { return func(o *options) { o.memory.TraceRegion = n } }

// WithL1Small reserves n bytes at the top of each worker's L1 for small sharded buffers.
func WithL1Small(n uint64) Option { return func(o *options) { o.memory.L1Small = n } }

// WithAllocationPolicy sets which free range allocations take, also of kernels and traces. The
// default is allocator.FirstFit; others may put traces between buffers.
func WithAllocationPolicy(p allocator.Policy) Option { return func(o *options) { o.memory.Policy = p } }

// WithHangTimeout sets how long a wait may last without progress of the device before it ends in a
// *dispatch.HangError. 0 is the default of 10 s.
func WithHangTimeout(t time.Duration) Option { return func(o *options) { o.dispatch.HangTimeout = t } }

// WithPace sets how long the host's waits spin before they sleep, and the longest sleep between
// polls. Longer spinning sees results earlier and costs processor time. 0 is the default, some
// microseconds and 1 ms. Sleeps grow with the wait, and end shortly before the time that the same
// wait took before.
func WithPace(spin, longest time.Duration) Option {
	return func(o *options) { o.dispatch.Pace = dispatch.Pace{Spin: spin, Longest: longest} }
}

// WithStockWireFormat makes queues use tt-metal's wire format alone, of the revision that this
// runtime follows: one dispatcher command in each relay and page, and go signals through the
// prefetcher. It is for comparisons and costs bytes and time.
func WithStockWireFormat() Option { return func(o *options) { o.dispatch.StockWireFormat = true } }

// WithDumpDir makes every *dispatch.HangError write a file to a directory, for "reprise inspect".
// The error names the file.
func WithDumpDir(dir string) Option { return func(o *options) { o.dispatch.DumpDir = dir } }

// WithFirmware makes the workers run tt-metal's base firmware, from a folder of its cache or of its
// pre-compiled firmware (docs/tt-metal.md). They then run only kernels that were linked with it
// ([kernels.LoadMetal]). The command queues stay this runtime's own without [WithQueueFirmware].
// Open refuses a folder without base firmware (*metal.FirmwareError), and firmware for another
// architecture or other numbers of banks (*dispatch.FirmwareError). A ttnn wheel's version says
// whose firmware it is where the files don't tell, as [metal.Firmware.Others] do.
func WithFirmware(dir string, wheel ...string) Option {
	return func(o *options) { o.firmware, o.wheels = dir, wheel }
}

// WithUsageLog sets the directory of the file that shows other processes how much device memory is
// in use, for "reprise monitor"; "" turns the file off. The default is /dev/shm. Open succeeds
// without the file; Device.UsageLog says why it is missing.
func WithUsageLog(dir string) Option { return func(o *options) { o.usageLog = dir } }

// WithQueueFirmware makes the command queues run tt-metal's prefetcher, dispatcher and subordinate
// dispatcher, from a folder of its cache with these kernels and their base firmware
// (metal.OpenQueueFirmware). The kernels were compiled for one kind of card, number of queues and
// size of host memory: Open returns a *dispatch.QueueFirmwareError that lists what doesn't fit.
// Queues use the whole grid and [WithStockWireFormat]. The kernels decide [WithQueueMemory], and
// timed events have no time.
func WithQueueFirmware(dir string) Option { return func(o *options) { o.queues = dir } }
