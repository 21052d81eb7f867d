// Package session records everything that passes between a host and the driver of a card, and plays
// it back without either: every request of the driver with its answer, every mapping, every access
// to device memory with its width and value, and what host and device wrote to pinned host memory.
//
// [Record] wraps a target of kmd.Open or reprise.Open; [Play] is a target that answers as the
// recorded one did and stops at the first thing that differs, with a [DifferenceError]. A recording
// of a bug can be studied without a card, and a recording of a good run holds code to every byte
// that it sends.
//
// # What is compared
//
// Everything that changes the device or the driver has to come: stores and writes, requests that
// change something, mappings and their ends, opening and closing, and what the host has written to
// pinned memory before each of these. It has to come in the order of the recording if the host did
// it in one goroutine; what several goroutines did at the same time, as it was told with
// [Recorder.Concurrent], keeps its order at each register. A window's configuration is part of the
// place that it leads to, not something that has to come.
//
// How often a host polls doesn't matter: loads, reads, requests that change nothing, and attempts
// to take a lock that is taken may come more often or less often. They are answered with what was
// recorded between the same changes. A place that was never read in the recording is a difference,
// unless the host has waited for half a second: then it may read the whole device. So is a host
// that waits for what the recording doesn't have.
//
// [Lockstep] compares every load and query as well. It needs a device that runs only during the
// host's accesses: the emulator with sim.Synchronous.
//
// # What the host sees of the device's writes
//
// A device writes to host memory when it likes. So that a recording knows what the host could see,
// the device is given memory of its own, and the recorder copies what changes there to the host's
// memory: during the host's accesses, requests and queries for a fault, and when the host does
// nothing for a quarter of a second. Each such copy is an event. When it is played, it comes after
// the same changes and when the host polls again, though not necessarily at the same poll: the
// device may have taken longer. So a host that checks now and then, without waiting, whether
// something has arrived may notice it earlier or later than in the recording.
//
// Faults of memory (SIGBUS, when a card is removed) and targets' descriptions of their machines
// (kmd.SystemOf) aren't recorded. A recording of a card without an IOMMU can be played where there
// are as many huge pages.
package session
