package serve

import (
	"fmt"
	"io"
	"net"
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
	reply, out, fd, err := c.CallFD(h, payload, -1)
	CloseFD(fd)
	return reply, out, err
}

// CallFD is Call with descriptors, -1 for none.
func (c *Conn) CallFD(h *Head, payload []byte, give int) (reply Head, out []byte, fd int, err error) {
	if err := c.Send(h, payload, give); err != nil {
		return Head{}, nil, -1, err
	}
	if fd, err = c.ReceiveFD(&reply); err != nil {
		return Head{}, nil, -1, err
	}
	out = make([]byte, reply.Size)
	if err := c.Payload(out); err != nil {
		CloseFD(fd)
		return Head{}, nil, -1, err
	}
	return reply, out, fd, nil
}

// AwaitEnd returns when the peer has closed the socket or ended.
func (c *Conn) AwaitEnd() { _, _ = io.Copy(io.Discard, c.conn) }

// PeerPID returns the number of the process at the other end.
func (c *Conn) PeerPID() (int, error) { return peerPID(c.conn) }
