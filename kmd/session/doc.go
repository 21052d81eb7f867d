// Package session records everything between a host and a card's driver, and plays the recording
// back without either. A recording has every driver request with its answer, every mapping, every
// access to device memory with its width and value, and all writes to pinned host memory.
//
// [Record] wraps a target of kmd.Open or reprise.Open. [Play] is a target that answers as recorded
// and stops at the first difference, with a [DifferenceError]. A recording of a bug can be studied
// without a card; a recording of a good run checks every byte that later code sends.
//
// # What is compared
//
// Every event that changes the device or the driver must come again: stores and writes, requests
// that change something, mappings and their ends, opening and closing. So must the host's writes to
// pinned memory before each of these. The order must be the recorded one if the host used one
// goroutine. Goroutines that used the device at the same time ([Recorder.Concurrent]) keep the
// order at each register. A window's configuration is part of the place of an access, not an event
// that must come.
//
// Polls may come more or less often: loads, reads, requests that change nothing, and attempts to
// take a taken lock. Their answers are those recorded between the same changes. A load of a place
// that was never read in the recording is a difference, unless the host has waited for half a
// second: then it may read the whole device. A host that waits for something that the recording
// doesn't have is a difference too.
//
// [Lockstep] compares every load and query as well. It needs a device that runs only during the
// host's accesses: the emulator with sim.Synchronous.
//
// # The device's writes
//
// A device writes to host memory at any time. To know what the host could see, the recorder gives
// the device memory of its own and copies changes to the host's memory: during the host's accesses,
// requests and fault queries, and when the host is idle for a quarter of a second. Each copy is an
// event. It is played after the same changes, when the host polls again, though not necessarily at
// the same poll. So a host that checks now and then without waiting may notice data earlier or
// later than in the recording.
//
// SIGBUS (of a removed card) and targets' descriptions of their machines (kmd.SystemOf) aren't
// recorded. Playing a recording of a card without an IOMMU needs as many huge pages.
package session
