// Package topology finds out which chips a machine has and how Ethernet links join them: by what the firmware of each
// Ethernet tile says of its link and of who is at the other end. Nothing is taken from a table of machines. A Wormhole
// without a PCI interface is read through a [Tunnel], over the links of one that has it.
package topology

import "errors"

var (
	// ErrNoAnswer says that the Ethernet firmware of a chip did not carry out a command in time: the link is down, or the
	// firmware doesn't run.
	ErrNoAnswer = errors.New("the Ethernet firmware doesn't answer")
	// ErrUnreachable says that a chip is linked to one that was found, and can't be read itself: its card is missing or
	// isn't given to this process, or its links lead through firmware that doesn't forward.
	ErrUnreachable = errors.New("no way leads to the chip")
	// ErrRange says that an access through a tunnel has a size or an address that commands don't have.
	ErrRange = errors.New("out of range")
)
