package vfiouser

import "errors"

var (
	// ErrProtocol: the peer violates the protocol.
	ErrProtocol = errors.New("vfio-user protocol violated")
	// ErrConfig: the card can't be presented.
	ErrConfig = errors.New("impossible card")
	// ErrUnsupported: vfio-user needs Linux.
	ErrUnsupported = errors.New("vfio-user needs Linux")
)
