package serve

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"syscall"
)

const (
	MaxPayload   = 1 << 20 // bytes of a message on a socket; longer transfers are split
	shortPayload = 4096    // bytes that are sent together with the head
)

// Conn carries messages on a Unix stream socket. One goroutine at a time may send, and one receive.
type Conn struct {
	conn *net.UnixConn
	in   [HeadSize]byte
	out  []byte // a short message
	oob  []byte
}

// NewConn returns a connection that owns the socket.
func NewConn(c *net.UnixConn) *Conn {
	return &Conn{conn: c, out: make([]byte, 0, HeadSize+shortPayload), oob: make([]byte, descriptorSpace)}
}

// Close ends the connection.
func (c *Conn) Close() error { return c.conn.Close() }

// Send sends a message, whose head gets its Size, with a descriptor of the caller's unless
// negative.
func (c *Conn) Send(h *Head, payload []byte, fd int) error {
	h.Size = uint32(len(payload))
	b := c.out[:HeadSize]
	h.Put(b)
	if len(payload) <= shortPayload {
		b, payload = append(b, payload...), nil
	}
	if fd < 0 {
		if _, err := c.conn.Write(b); err != nil {
			return err
		}
	} else if _, _, err := c.conn.WriteMsgUnix(b, rights(fd), nil); err != nil {
		return err
	}
	if len(payload) == 0 {
		return nil
	}
	_, err := c.conn.Write(payload)
	return err
}

// Receive reads a message's head, Payload the rest. A descriptor is closed.
func (c *Conn) Receive(h *Head) error {
	if _, err := io.ReadFull(c.conn, c.in[:]); err != nil {
		return err
	}
	return c.take(h)
}

func (c *Conn) take(h *Head) error {
	if h.Take(c.in[:]); h.Size > MaxPayload {
		return fmt.Errorf("serve: receive: %w: a payload of %d bytes, at most %d are allowed", ErrProtocol, h.Size, MaxPayload)
	}
	return nil
}

// ReceiveFD is Receive, and gives the caller the message's descriptor or -1.
func (c *Conn) ReceiveFD(h *Head) (fd int, err error) {
	n, oobn, _, _, err := c.conn.ReadMsgUnix(c.in[:], c.oob)
	if err != nil {
		return -1, err
	}
	fd = -1
	if oobn > 0 {
		if fd, err = descriptorOf(c.oob[:oobn]); err != nil {
			return -1, err
		}
	}
	if n == 0 {
		err = io.EOF
	} else if _, err = io.ReadFull(c.conn, c.in[n:]); err == nil {
		err = c.take(h)
	}
	if err != nil {
		CloseFD(fd)
		return -1, err
	}
	return fd, nil
}

// Payload reads the payload of the last received head into p, which has its length.
func (c *Conn) Payload(p []byte) error {
	if len(p) == 0 {
		return nil
	}
	_, err := io.ReadFull(c.conn, p)
	return err
}

// Call returns the reply with its payload.
func (c *Conn) Call(h *Head, payload []byte) (reply Head, out []byte, err error) {
	return c.CallFD(h, payload, -1)
}

// CallFD is Call with a descriptor, -1 for none.
func (c *Conn) CallFD(h *Head, payload []byte, give int) (reply Head, out []byte, err error) {
	if err := c.Send(h, payload, give); err != nil {
		return Head{}, nil, err
	}
	if err := c.Receive(&reply); err != nil {
		return Head{}, nil, err
	}
	out = make([]byte, reply.Size)
	if err := c.Payload(out); err != nil {
		return Head{}, nil, err
	}
	return reply, out, nil
}

// AwaitEnd returns when the peer has closed the socket or ended.
func (c *Conn) AwaitEnd() { _, _ = io.Copy(io.Discard, c.conn) }

// PeerPID returns the number of the process at the other end.
func (c *Conn) PeerPID() (int, error) { return peerPID(c.conn) }

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

// Listen listens at the path of a Unix socket, in place of a dead server's. The error wraps
// syscall.EADDRINUSE if another server has it.
func Listen(path string) (*net.UnixListener, error) {
	at := &net.UnixAddr{Name: path, Net: "unix"}
	if info, err := os.Lstat(path); err == nil && info.Mode()&os.ModeSocket != 0 {
		switch c, err := net.DialUnix("unix", nil, at); {
		case err == nil:
			_ = c.Close() // a server answers
		case errors.Is(err, syscall.ECONNREFUSED): // other errors: a busy server, or another user's
			_ = os.Remove(path) // ListenUnix reports a failure
		}
	}
	l, err := net.ListenUnix("unix", at)
	if err != nil {
		return nil, fmt.Errorf("serve a card: %w: give a path that can be made and that no other server has", err)
	}
	return l, nil
}
