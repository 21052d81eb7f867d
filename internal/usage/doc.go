// Package usage shows other processes how much device memory this process uses.
//
// A process that opens a device creates a [Log]: a small file in shared memory with the process,
// the device and the use of each kind of memory. [Log.Set] updates a number by a few stores,
// without a system call or a wait. [Read] reads the logs of all processes and opens no device.
//
// All users can read a log; only the process that created it can write. The writer holds a lock,
// which the kernel releases when the process ends. A log without a lock is dead: Read leaves it
// out, and [Sweep] deletes the caller's own.
//
// Logs of other users aren't trusted: their contents are checked, and text is made printable. A log
// that is truncated or changed during a read gives an error for that log only.
package usage
