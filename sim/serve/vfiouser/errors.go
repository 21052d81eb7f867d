package vfiouser

import "errors"

var (
	// ErrProtocol.
	ErrProtocol = errors.New("vfio-user protocol violated")
	ErrConfig   = errors.New("impossible card") // it can't be presented
	// ErrUnsupported.
	ErrUnsupported = errors.New("vfio-user needs Linux")
)
