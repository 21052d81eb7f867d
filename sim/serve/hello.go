package serve

import "fmt"

// Version is the protocol's version, equal on both sides.
const Version = 1

// Service is the purpose of a connection.
type Service uint8

const (
	ServiceCard     Service = 1 // package card: a card with its kernel driver, for several processes
	ServiceFunction Service = 2 // package function: the PCI functions of one simulator, for the process that started it
)

const magic = uint64('R') | 'P'<<8 | 'R'<<16 | 'S'<<24 | 'E'<<32 | 'R'<<40 | 'V'<<48 | 'E'<<56

func hello(s Service) *Head {
	return &Head{Op: OpHello, Kind: uint8(s), Object: Version, Off: magic}
}

func (h *Head) check(s Service) error {
	switch {
	case h.Op != OpHello || h.Off != magic || h.Size != 0:
		return fmt.Errorf("serve: %w: it doesn't begin with the greeting", ErrProtocol)
	case h.Object != Version:
		return fmt.Errorf("serve: %w: it has version %d, this program version %d; run the same release on both sides", ErrProtocol,
			h.Object, Version)
	case h.Kind != uint8(s):
		return fmt.Errorf("serve: %w: it is for service %d, not %d", ErrProtocol, h.Kind, s)
	}
	return nil
}

// Greet begins a connection as its client: it asks for a service and passes fd on unless negative.
// The error wraps ErrProtocol for another server or version.
func (c *Conn) Greet(s Service, fd int) error {
	if err := c.Send(hello(s), nil, fd); err != nil {
		return err
	}
	var h Head
	if err := c.Receive(&h); err != nil {
		return err
	}
	return h.check(s)
}

// Welcome begins a connection as its server and returns the client's descriptor, or -1. For a
// client of another version, which gets this one, the error wraps ErrProtocol.
func (c *Conn) Welcome(s Service) (fd int, err error) {
	var h Head
	if fd, err = c.ReceiveFD(&h); err != nil {
		return -1, err
	}
	bad := h.check(s)
	if bad == nil || h.Op == OpHello && h.Off == magic {
		err = c.Send(hello(s), nil, -1)
	}
	if bad != nil {
		err = bad
	}
	if err != nil {
		CloseFD(fd)
		return -1, err
	}
	return fd, nil
}
