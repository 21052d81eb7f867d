//go:build !linux

package vfiouser

import (
	"context"
	"net"

	"github.com/reprise-tt/reprise/sim/driver"
)

// Card is a function as a device for virtual machines.
type Card struct{}

// New fails: vfio-user needs Linux.
func New(driver.Function, Config) (*Card, error) { return nil, ErrUnsupported }

// Serve fails: vfio-user needs Linux.
func (*Card) Serve(context.Context, *net.UnixListener) error { return ErrUnsupported }

// ServeConn fails: vfio-user needs Linux.
func (*Card) ServeConn(context.Context, *net.UnixConn) error { return ErrUnsupported }

// Interrupt does nothing.
func (*Card) Interrupt() {}

// Client is the host's side of a connection.
type Client struct{ driver.Function }

// Dial fails: vfio-user needs Linux.
func Dial(context.Context, string) (*Client, error) { return nil, ErrUnsupported }
