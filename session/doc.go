// Package session records everything that passes between a host and the driver of a card, and plays it back without
// either: every request of the driver with its answer, every mapping, every access to device memory with its width and
// value, and what the device wrote to pinned host memory.
//
// [Record] wraps a target of kmd.Open or reprise.Open; [Play] is a target that answers as the recorded one did and
// stops at the first access that differs. A recording of a bug needs no card to be looked at, and a recording of a good
// run holds code to every byte that it sends.
//
// Playback is exact where a device moves only inside the host's accesses: the emulator with sim.Synchronous and a seed.
// What other devices write to host memory is recorded with the access during or before which it was seen, and what the
// host reads there between accesses depends on when it looks; a playback of such a recording may stop although nothing
// is wrong. Faults of memory (SIGBUS, when a card is removed) and targets' descriptions of their machines
// (kmd.SystemOf) aren't recorded.
package session
