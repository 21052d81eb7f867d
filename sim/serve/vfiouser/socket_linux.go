package vfiouser

import (
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/reprise-tt/reprise/sim/serve"
)

type message struct {
	header
	body []byte
	fds  []int
	cut  bool // some descriptors were dropped
}

func (m *message) close() {
	serve.CloseFD(m.fds...)
	m.fds = nil
}

// An error reply is only a header.
func (m *message) finish(out []byte, err error) []byte {
	h := header{ID: m.ID, Command: m.Command, Flags: typeReply}
	if err != nil {
		out = out[:headerSize]
		h.Flags |= flagError
		h.Errno = uint32(syscall.EIO)
		if no := syscall.Errno(0); errors.As(err, &no) {
			h.Errno = uint32(no)
		}
	}
	h.Size = uint32(len(out))
	h.put(out)
	return out
}

// stream reads messages off a connection, in bounded memory.
type stream struct {
	conn *net.UnixConn
	head [headerSize]byte
	buf  []byte
	oob  [128]byte // room for maxDescriptors and not for many more
	msg  message
}

// next returns a message, valid until the next, with descriptors that are the caller's. The error
// is io.EOF between messages.
func (s *stream) next() (m *message, err error) {
	s.msg = message{fds: s.msg.fds[:0]}
	defer func() {
		if err != nil {
			s.msg.close()
		}
	}()
	if err := s.fill(s.head[:]); err != nil {
		return nil, err
	}
	if s.msg.header, err = parseHeader(s.head[:]); err != nil {
		return nil, err
	}
	n := int(s.msg.Size) - headerSize
	for at := 0; at < n; { // memory grows with the data that has arrived
		room := min(n, max(2*at, 4096))
		if len(s.buf) < room {
			s.buf = append(s.buf[:at], make([]byte, room-at)...)
		}
		if err := s.fill(s.buf[at:room]); err != nil {
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

// peer sends commands and reads their replies, one at a time.
type peer struct {
	stream
	out []byte
	id  uint16
}

func (p *peer) send(cmd command, flags uint32, body, data []byte, fds ...int) error {
	p.id++
	p.out = append(p.out[:0], make([]byte, headerSize)...)
	p.out = append(append(p.out, body...), data...)
	header{ID: p.id, Command: cmd, Size: uint32(len(p.out)), Flags: flags}.put(p.out)
	return send(p.conn, p.out, fds...)
}

func (p *peer) reply(cmd command) (*message, error) {
	m, err := p.next()
	if err == nil && (m.Flags&flagType != typeReply || m.ID != p.id || m.Command != cmd) {
		m.close()
		return nil, fmt.Errorf("%w: message %d of command %d is no reply to message %d of command %d", ErrProtocol, m.ID, m.Command,
			p.id, cmd)
	}
	return m, err
}

// The descriptors stay the caller's.
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

// twin is the second socket, on which the server asks the client to move memory that it can't map.
type twin struct {
	most int // bytes of a message's data

	mu sync.Mutex
	peer
	err error
}

const patience = 10 * time.Second // for a client to move a message's data while the chip waits

// After an error all accesses fail.
func (t *twin) access(addr uint64, p []byte, write bool) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	for len(p) > 0 && t.err == nil {
		n := min(len(p), t.most)
		if err := t.exchange(addr, p[:n], write); err != nil {
			t.err = fmt.Errorf("the client moves no memory: %w", err)
			_ = t.conn.Close() // the error is the reason
		}
		addr, p = addr+uint64(n), p[n:]
	}
	return t.err
}

func (t *twin) exchange(addr uint64, p []byte, write bool) error {
	cmd, data := cmdDMARead, []byte(nil)
	if write {
		cmd, data = cmdDMAWrite, p
	}
	head := order.AppendUint64(order.AppendUint64(nil, addr), uint64(len(p)))
	err := t.conn.SetDeadline(time.Now().Add(patience))
	if err == nil {
		err = t.send(cmd, 0, head, data)
	}
	if err != nil {
		return err
	}
	m, err := t.reply(cmd)
	if err != nil {
		return err
	}
	defer m.close()
	switch {
	case m.Flags&flagError != 0:
		return errors.New("it refused the address")
	case write:
		return nil
	case len(m.body) != dmaAccessSize+len(p):
		return fmt.Errorf("%w: %d bytes for %d", ErrProtocol, len(m.body)-dmaAccessSize, len(p))
	}
	copy(p, m.body[dmaAccessSize:])
	return nil
}
