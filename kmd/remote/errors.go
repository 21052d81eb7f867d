package remote

import "errors"

var (
	// ErrNoAnswer: the Ethernet firmware did not execute a command in time: the link is down, or it
	// doesn't run.
	ErrNoAnswer = errors.New("the Ethernet firmware doesn't answer")
	// ErrUnreachable: the chip's card is missing or not given to this process, or the firmware on
	// the way doesn't forward.
	ErrUnreachable = errors.New("no way leads to the chip")
	// ErrRange: an access through a tunnel has an invalid size or address.
	ErrRange = errors.New("out of range")
)
