// Package reprise records a Tenstorrent command stream once and plays it again for almost nothing.
//
// A [Device] is a Wormhole or Blackhole chip: on silicon behind the kernel driver tt-kmd, in the
// vendor's simulator, or in the embedded emulator; the code is the same. Programs are kernels for
// the chip's RISC-V cores with their arguments and circular buffers. A [Queue] runs them in order;
// [Queue.Capture] records what would be run into a [Trace] that lies at the top of every DRAM bank,
// and [Trace.Replay] runs it again by writing a few words.
//
// A device has one or two queues. Nothing orders two queues but an [Event], which one queue records
// and the other waits for, and what the host has waited for; [Queue.Capture] records one trace over
// both, or over queues of several devices.
//
// Coordinates, architectures and processors are those of package chip, kinds of memory and layouts
// those of package allocator. Errors of programs, hangs and events are types of package dispatch,
// those of memory types of package allocator.
//
// Nothing is global: everything hangs off a Device that a program opens and closes.
package reprise

import (
	"maps"
	"time"

	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/dispatch"
)

type options struct {
	dispatch    dispatch.Options
	traceRegion uint64
	l1Small     uint64
	usageLog    string
	firmware    string // folder of tt-metal's base firmware
	queues      string // folder of tt-metal's command-queue firmware
}

// Option changes how Open sets a device up.
type Option func(*options)

// WithQueues asks for n command queues, 1 or 2. The default is 1. Every queue moves data and runs
// programs and traces; see WithQueueWorkers. Nothing but events and what the host waits for orders
// two queues. That goes for memory too: what one queue still reads or writes must not be released
// and reused by the other without an event between them.
func WithQueues(n int) Option { return func(o *options) { o.dispatch.Queues = n } }

// WithQueueWorkers gives a queue the workers that its programs may use. A queue that is given none
// uses the whole grid. The workers of two queues are either disjoint, and then their programs run
// at the same time, or the same, and then the workers pass from one queue to the other: the queue
// that uses them next must come after the other's last program or replay, by an event that was
// recorded on the other queue after it and waited for on this one, or because the host has waited
// for it. Otherwise Run and Replay return an *dispatch.OverlapError.
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

// WithFirstEvent sets the number before the first of the 32-bit ids of events. Tests use it to make
// them wrap. The default is 0.
func WithFirstEvent(n uint32) Option { return func(o *options) { o.dispatch.FirstEvent = n } }

// WithQueueMemory sets the pinned host memory of each command queue in bytes. The default is 16
// MiB. Three quarters of it hold commands and data on their way to the device, the rest what comes
// back.
func WithQueueMemory(n uint32) Option { return func(o *options) { o.dispatch.QueueMemory = n } }

// WithTraceRegion reserves n bytes over all DRAM banks for traces. Without it, or with 0, traces
// take what they need from the top of every bank as long as no buffer is in the way.
func WithTraceRegion(n uint64) Option { return func(o *options) { o.traceRegion = n } }

// WithL1Small reserves n bytes at the top of each worker's L1 for small sharded buffers.
func WithL1Small(n uint64) Option { return func(o *options) { o.l1Small = n } }

// WithHangTimeout sets how long a wait may last without any progress of the device before it ends
// in a *dispatch.HangError. The default is 10 s, which 0 stands for too.
func WithHangTimeout(t time.Duration) Option { return func(o *options) { o.dispatch.HangTimeout = t } }

// WithPace sets how long waits on the host spin before they sleep, and how long they sleep at most
// between polls. Longer spinning sees results earlier and costs processor time. 0 stands for the
// defaults, some microseconds and 1 ms. A sleep is about a sixteenth of the wait so far, unless
// what is waited for has been before and took as long each time: then a wait sleeps until shortly
// before its end and polls often around it. Nothing polls while no call waits.
func WithPace(spin, longest time.Duration) Option {
	return func(o *options) { o.dispatch.Pace = dispatch.Pace{Spin: spin, Longest: longest} }
}

// WithStockWireFormat makes queues send programs and replays in the wire form of tt-metal alone, of
// the revision that this runtime follows: each command of the dispatcher in a relay and a page of
// its own, go signals through the prefetcher. The device's firmware takes both forms. Without the
// option small commands share relays and pages. It is for comparisons, by people and by tests; it
// costs bytes and time.
func WithStockWireFormat() Option { return func(o *options) { o.dispatch.StockWireFormat = true } }

// WithDumpDir makes every *dispatch.HangError write a file to a directory, for "reprise inspect".
// The error names the file.
func WithDumpDir(dir string) Option { return func(o *options) { o.dispatch.DumpDir = dir } }

// WithFirmware has the workers run base firmware that tt-metal built, from a folder of its cache or
// of its pre-compiled firmware (see docs/tt-metal.md), so that they run kernels that were linked
// with it ([kernels.LoadMetal]) and no others. The command queues stay this runtime's own without
// [WithQueueFirmware]. Open refuses a folder without base firmware (*metal.FirmwareError), and
// firmware that was built for another architecture or for other numbers of banks than the chip's
// (*dispatch.FirmwareError).
func WithFirmware(dir string) Option { return func(o *options) { o.firmware = dir } }

// WithUsageLog puts the file that shows other processes how much device memory is in use, for
// "reprise monitor", into a directory, or turns it off for an empty name. The default is /dev/shm.
// Open succeeds without the file; Device.UsageLog says why it is missing. A change of the memory in
// use costs a few stores and no system call.
func WithUsageLog(dir string) Option { return func(o *options) { o.usageLog = dir } }

// WithQueueFirmware has the command queues run tt-metal's own prefetcher, dispatcher and
// subordinate dispatcher, from a folder of its cache with these kernels and the base firmware that
// they were linked with (metal.OpenQueueFirmware). They were compiled for one kind of card, number
// of queues and size of host memory: Open returns a *dispatch.QueueFirmwareError that lists what
// doesn't fit. Queues use the whole grid and [WithStockWireFormat], [WithQueueMemory] is the
// files', and timed events have no time.
func WithQueueFirmware(dir string) Option { return func(o *options) { o.queues = dir } }
