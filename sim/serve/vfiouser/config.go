package vfiouser

import (
	"errors"

	"github.com/reprise-tt/reprise/chip"
)

// Config describes the card.
type Config struct {
	Arch  chip.Arch // determines BAR sizes and ids
	Board uint16    // the PCI subsystem id, one of package chip's board codes

	// Report, if not nil, is called from any goroutine with each disconnection's reason, and once
	// with why the chip stopped.
	Report func(error)
}

var (
	// ErrProtocol.
	ErrProtocol = errors.New("vfio-user protocol violated")
	ErrConfig   = errors.New("impossible card") // it can't be presented
	// ErrUnsupported.
	ErrUnsupported = errors.New("vfio-user needs Linux")
)
