//go:build !linux

package vfiouser

import (
	"context"
	"net"

	"github.com/reprise-tt/reprise/sim/driver"
)

// Card is a function as a device for virtual machines.
type Card struct{}

// Client is the host's side of a connection.
type Client struct{ driver.Function }

func New(driver.Function, Config) (*Card, error)             { return nil, ErrUnsupported }
func (*Card) Serve(context.Context, *net.UnixListener) error { return ErrUnsupported }
func (*Card) ServeConn(context.Context, *net.UnixConn) error { return ErrUnsupported }
func (*Card) Interrupt()                                     {}
func Dial(context.Context, string) (*Client, error)          { return nil, ErrUnsupported }
