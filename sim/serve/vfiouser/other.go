//go:build !linux

package vfiouser

import (
	"context"
	"net"

	"github.com/reprise-tt/reprise/sim/driver"
)

// Card is a function as a device for virtual machines.
type Card struct{}

// New presents a function as a card and becomes its DMA.
func New(driver.Function, Config) (*Card, error) { return nil, ErrUnsupported }

// Serve answers the clients that connect to l, one at a time.
func (*Card) Serve(context.Context, *net.UnixListener) error { return ErrUnsupported }
