package vfiouser

import "errors"

var (
	// ErrProtocol is wrapped by errors about a peer that doesn't keep to the protocol.
	ErrProtocol = errors.New("vfio-user protocol violated")
	// ErrConfig is wrapped by errors about a card that can't be presented.
	ErrConfig = errors.New("impossible card")
	// ErrUnsupported says that vfio-user needs Linux.
	ErrUnsupported = errors.New("vfio-user needs Linux")
)
