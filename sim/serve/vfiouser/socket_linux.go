package vfiouser

import (
	"fmt"
	"io"
	"net"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// message is a message with its descriptors.
type message struct {
	header
	body []byte
	fds  []int
	cut  bool // some descriptors were dropped
}

// close closes the remaining descriptors; kept ones are negative.
func (m *message) close() {
	for _, fd := range m.fds {
		if fd >= 0 {
			_ = unix.Close(fd) // nothing was written through it
		}
	}
	m.fds = nil
}

// stream reads messages off a connection. maxMessage bounds its memory.
type stream struct {
	conn *net.UnixConn
	head [headerSize]byte
	buf  []byte
	oob  [128]byte // room for maxDescriptors and not for many more
	msg  message
}

// next returns the next message, valid until the one after. Its descriptors are the caller's. The
// error is io.EOF if the peer left between two messages.
func (s *stream) next() (m *message, err error) {
	s.msg = message{fds: s.msg.fds[:0]}
	if err := s.fill(s.head[:]); err != nil {
		s.msg.close()
		return nil, err
	}
	if s.msg.header, err = parseHeader(s.head[:]); err != nil {
		s.msg.close()
		return nil, err
	}
	n := int(s.msg.Size) - headerSize
	for at := 0; at < n; { // memory grows with the data that has arrived
		room := min(n, max(2*at, 4096))
		if len(s.buf) < room {
			s.buf = append(s.buf[:at], make([]byte, room-at)...)
		}
		if err := s.fill(s.buf[at:room]); err != nil {
			s.msg.close()
			if err == io.EOF {
				err = io.ErrUnexpectedEOF
			}
			return nil, fmt.Errorf("vfiouser: in a message of %d bytes: %w", s.msg.Size, err)
		}
		at = room
	}
	s.msg.body = s.buf[:n]
	return &s.msg, nil
}

// fill reads len(p) bytes and collects descriptors.
func (s *stream) fill(p []byte) error {
	for at := 0; at < len(p); {
		n, oobn, flags, _, err := s.conn.ReadMsgUnix(p[at:], s.oob[:])
		if oobn > 0 {
			s.take(s.oob[:oobn])
		}
		if flags&unix.MSG_CTRUNC != 0 {
			s.msg.cut = true
		}
		at += n
		if err == nil && n == 0 {
			err = io.EOF
		}
		if err != nil {
			if err == io.EOF && at > 0 {
				err = io.ErrUnexpectedEOF
			}
			return err
		}
	}
	return nil
}

// take adds the descriptors of ancillary data to the message.
func (s *stream) take(oob []byte) {
	all, err := unix.ParseSocketControlMessage(oob)
	if err != nil {
		s.msg.cut = true
		return
	}
	for i := range all {
		fds, err := unix.ParseUnixRights(&all[i])
		if err != nil {
			continue // of another kind
		}
		for _, fd := range fds {
			if len(s.msg.fds) < maxDescriptors {
				s.msg.fds = append(s.msg.fds, fd)
				continue
			}
			s.msg.cut = true
			_ = unix.Close(fd) // there is no room for it
		}
	}
}

// pair returns two connected sockets: a connection, and a descriptor to give away.
func pair() (*net.UnixConn, int, error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, -1, fmt.Errorf("vfiouser: twin socket: %w", err)
	}
	conn, err := connOf(fds[0])
	if err != nil {
		_ = unix.Close(fds[1])
		return nil, -1, err
	}
	return conn, fds[1], nil
}

// connOf takes a socket's descriptor and makes it a connection.
func connOf(fd int) (*net.UnixConn, error) {
	f := os.NewFile(uintptr(fd), "vfio-user")
	defer f.Close() // the connection has a duplicate
	c, err := net.FileConn(f)
	if err != nil {
		return nil, fmt.Errorf("vfiouser: twin socket: %w", err)
	}
	u, ok := c.(*net.UnixConn)
	if !ok {
		_ = c.Close()
		return nil, fmt.Errorf("vfiouser: twin socket: %w: it is no Unix socket", ErrProtocol)
	}
	return u, nil
}

// send writes a message, with descriptors that stay the caller's.
func send(conn *net.UnixConn, b []byte, fds ...int) error {
	if len(fds) == 0 {
		_, err := conn.Write(b)
		return err
	}
	n, _, err := conn.WriteMsgUnix(b, syscall.UnixRights(fds...), nil)
	if err == nil && n < len(b) {
		_, err = conn.Write(b[n:])
	}
	return err
}
