// Package serve is the protocol by which one process uses a simulated card that lives in another
// one. Two services are made of it:
//
//   - package cards: a card with the model of its kernel driver, opened, mapped and locked by
//     several processes. What a request means is the driver's ABI.
//   - package function: the PCI functions of one simulator's library, for the process that started
//     it and has its own driver model. What a request means is PCI's: config space, BARs, and host
//     memory on the way back.
//
// They can't be one: processes that share a card must share its driver, so the driver has to be in
// the server; and a library that ends its process when it refuses an access must not take the
// driver along, so the driver has to be in the client. Virtual machines have a protocol that isn't
// ours, in package vfiouser.
//
// # Messages
//
// A message is a [Head] of 32 bytes and a payload. Requests and replies have the same head, and
// loads, stores, reads and writes are the same operations in both services; what they are made to,
// the Object, is the service's. Requests on a connection are answered one after the other, in their
// order; a client that wants several under way uses several connections. Errors come back as an
// errno, as a text, or as a fault of memory, see [Fail].
//
// # Connections
//
// A connection is a Unix stream socket, [Conn]. Its first message is the client's greeting with the
// protocol's [Version] and the [Service] that it wants; the server's greeting is the answer, also
// to a client of another version, so that either side can say which version the other has. There is
// one version at a time: both sides come from one build, or nearly so.
//
// A message can bring one descriptor along: of memory that is to be shared, or of a dma-buf. The
// receiver owns it.
//
// The end of the socket is the end of the peer, however that comes: the kernel closes it for a
// process that is killed. Nothing else says that a peer is gone, and a server then does what the
// kernel driver does after a process's end.
//
// # Shared memory
//
// A system call for each access is too much for a simulator whose stores are posted. A client that
// greets with a descriptor of [Memory] exchanges all further messages through that: two rings, one
// for each direction, and one place for the reply to each. The messages are the same. A party that
// waits polls for some microseconds and then sleeps on a futex. The socket remains, for its end.
//
// # Trust
//
// What a peer sends is checked before it is used: sizes by this package, everything else by the
// services. A message that breaks the protocol ends the connection with [ErrProtocol]. A client of
// a card can disturb that card, as any program can that may open a device node, but not the server,
// nor other clients but through the card. The two processes of package function trust each other
// more: each can change what is in the memory while the other one reads it, though nothing outside
// of it.
package serve
