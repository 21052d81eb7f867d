package remote

import "errors"

var (
	// ErrNoAnswer is returned when the Ethernet firmware of a chip did not execute a command in
	// time: the link is down, or the firmware doesn't run.
	ErrNoAnswer = errors.New("the Ethernet firmware doesn't answer")
	// ErrUnreachable is why a chip that others are linked to can't be accessed: its card is missing
	// or isn't given to this process, or the Ethernet firmware on the way doesn't forward.
	ErrUnreachable = errors.New("no way leads to the chip")
	// ErrRange is returned for an access through a tunnel with an invalid size or address.
	ErrRange = errors.New("out of range")
)
