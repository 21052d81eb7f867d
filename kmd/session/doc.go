// Package session records everything between a host and a card's driver, and plays the recording
// back without either. A recording has driver requests with their answers, mappings, every access
// to device memory, and all writes to pinned host memory.
//
// [Record] wraps a target of kmd.Open or reprise.Open. [Play] is a target that answers as recorded
// and stops at the first difference, with a [DifferenceError].
//
// # What is compared
//
// Every change must come again: stores and writes, requests that change something, mappings and
// their ends, opening and closing, and the host's writes to pinned memory before each. Their order
// must be the recorded one, so a host with several goroutines that use the device at the same time
// can't be played. A window's configuration is part of the place of an access.
//
// Polls may come more or less often: loads, reads, requests that change nothing, and attempts to
// take a taken lock. Their answers are those recorded between the same changes. A load of a place
// that the recording never read is a difference, unless the host has waited for half a second: then
// it may read the whole device. A host that waits forever is a difference too.
//
// # The device's writes
//
// A device writes to host memory at any time. So the recorder gives the device memory of its own
// and copies changes to the host's memory, each as an event: during the host's accesses, requests
// and fault queries, and when the host is idle for a quarter of a second. A playback repeats the
// copy between the same changes, when the host polls, though not necessarily at the same poll.
//
// SIGBUS (of a removed card) and targets' descriptions of their machines (kmd.SystemOf) aren't
// recorded. Playing a recording of a card without an IOMMU needs as many huge pages.
package session
