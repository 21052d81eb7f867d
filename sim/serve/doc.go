// Package serve is the protocol by which one process uses a simulated card in another process. It
// has two services:
//
//   - package cards: a card with the model of its kernel driver, which several processes open, map
//     and lock. Requests are the driver's ABI.
//   - package function: the PCI functions of one simulator's library, for the process that started
//     it and has its own driver model. Requests are PCI's: config space, BARs, and DMA in the other
//     direction.
//
// They can't be one. Processes that share a card must share its driver, so that driver is in the
// server. A library that ends its process when it refuses an access must not end the driver, so
// that driver is in the client. Virtual machines have another protocol, in package vfiouser.
//
// # Messages
//
// A message is a [Head] of 32 bytes and a payload. Requests and replies have the same head, and
// both services share loads, stores, reads and writes; the Object is the service's. A connection
// answers requests in order; a client that wants concurrent requests opens several connections. An
// error is an errno, a text, or a memory fault: see [Fail].
//
// # Connections
//
// A connection is a Unix stream socket, [Conn]. It begins with the client's greeting: the
// protocol's [Version] and the wanted [Service]. The server answers with its greeting, also to a
// client of another version, so that both sides can report the difference. There is one version at
// a time: both sides come from one build, or nearly so.
//
// A message can carry one descriptor, of shared memory or of a dma-buf. The receiver owns it.
//
// The end of the socket is the end of the peer: the kernel closes it for a killed process. A server
// then does what the kernel driver does after a process's end.
//
// # Shared memory
//
// A system call per access is too slow for a simulator whose stores are posted. A client that
// greets with a descriptor of [Memory] exchanges all further messages through it: two rings, one
// for each direction, with one place for each ring's reply. A party that waits polls for some
// microseconds, then sleeps on a futex. The socket remains, to signal the end.
//
// # Trust
//
// Everything from a peer is checked before use: sizes by this package, the rest by the services. A
// message that breaks the protocol ends the connection with [ErrProtocol]. A client of a card can
// disturb that card, as any program with access to a device node, but not the server, nor other
// clients except through the card. The two processes of package function trust each other more:
// each can change the shared memory while the other reads it, but nothing outside of it.
package serve
