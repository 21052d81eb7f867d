// Package usage lets other processes see how much device memory this one uses.
//
// A process that opens a device makes a [Log]: a small file in shared memory with the process, the
// device, and how much of each kind of memory is taken. [Log.Set] changes a number by a few stores
// into the mapped file; it makes no system call and never waits. [Read] reads the logs of all
// processes; it opens no device.
//
// All users can read a log, and only the process that made it can write it. That process holds a
// lock on it as long as it lives, which ends with the process however that ends. So a log without a
// lock is one of a dead process: Read leaves it out, and [Sweep] deletes those of the user who
// calls it.
//
// The contents of other users' logs aren't trusted: they are checked, and text is made printable. A
// log that is cut off or changed while it is read gives an error for that log only.
package usage
