// Package usage lets other processes see how much device memory this one uses.
//
// Whoever opens a device makes a [Log]: a small file in shared memory that says which process it is, which device it
// has and how much of each kind of memory is taken. [Log.Set] changes a number by a few stores into the mapped file;
// it makes no system call and waits for nobody. [Read] looks at the logs of all processes; it opens no device.
//
// A log is readable for everybody and writable for nobody but the process that made it. That process holds a lock on
// it as long as it lives, which ends with the process however that ends. So a log without a lock is a dead one: Read
// leaves it out, and [Sweep] deletes those of the user who calls it.
//
// What other users' logs say is not trusted: it is checked, and text is made printable. A log that is cut off or
// changed while it is read gives an error for that log and nothing else.
package usage
