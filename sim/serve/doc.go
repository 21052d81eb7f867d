// Package serve is the protocol by which one process uses a simulated card in another process. It
// has two services:
//
//   - package cards: a card with the model of its kernel driver, which several processes share.
//     Requests are the driver's ABI.
//   - package function: the PCI functions of a simulator's library, which may end its process, for
//     the process that started it and has the driver's model. Requests are PCI's: config space,
//     BARs, and DMA in the other direction.
//
// Virtual machines have another protocol, in package vfiouser.
//
// # Messages
//
// A message is a [Head] of 32 bytes and a payload. Requests and replies have the same head; the
// Object is the service's. A connection answers requests in order. An error is an errno, a text, or
// a memory fault: see [Fail].
//
// # Connections
//
// A connection is a Unix stream socket, [Conn]. Both sides begin with the protocol's [Version] and
// the [Service], so both can report a difference. A message can carry one descriptor, which the
// receiver owns. The socket's end is the peer's: the kernel closes it for a killed process.
//
// # Shared memory
//
// A system call per access is too slow for a simulator whose stores are posted. A client that
// greets with a descriptor of [Memory] exchanges all further messages through two rings in it, with
// one place for each ring's reply. A party that waits polls for some microseconds, then sleeps on a
// futex.
//
// # Trust
//
// Everything from a peer is checked before use. A message that breaks the protocol ends the
// connection with [ErrProtocol]. A client can disturb its card, but not the server, nor other
// clients except through the card. The processes of package function can change the shared memory
// while the other reads it, but nothing outside of it.
package serve
