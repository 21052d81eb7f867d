// Package usage shows other processes how much device memory this process uses.
//
// A process that opens a device creates a [Log]: a small file in shared memory. [Log.Set] updates a
// number by a few stores, without a system call or a wait. [Read] reads the logs of all processes
// and opens no device.
//
// All users can read a log, and only its process can write. The process holds a lock, which the
// kernel releases at its end: [Sweep] deletes the caller's logs without a lock.
//
// Logs of other users aren't trusted: their contents are checked, and text is made printable.
package usage
