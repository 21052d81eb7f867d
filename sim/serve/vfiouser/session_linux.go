package vfiouser

import (
	"errors"
	"fmt"
	"io"
	"net"
	"syscall"

	"golang.org/x/sys/unix"
)

// session is one client of a card.
type session struct {
	card  *Card
	ready bool // the version is agreed on
	multi bool // REGION_WRITE_MULTI is agreed on
	twin  *twin
	out   []byte
	give  []int // descriptors for the reply, closed after sending
}

// run answers messages until the client goes, which is no error.
func (s *session) run(conn *net.UnixConn) error {
	in := stream{conn: conn}
	for {
		m, err := in.next()
		switch {
		case errors.Is(err, io.EOF), errors.Is(err, syscall.ECONNRESET):
			return nil
		case err != nil:
			return err
		}
		reply, err := s.answer(m)
		m.close()
		if err == nil && reply != nil {
			err = send(conn, reply, s.give...)
		}
		for _, fd := range s.give {
			_ = unix.Close(fd) // the client has a duplicate
		}
		s.give = s.give[:0]
		switch {
		case errors.Is(err, syscall.EPIPE), errors.Is(err, syscall.ECONNRESET):
			return nil // the client left without waiting
		case err != nil:
			return err
		}
	}
}

// end releases the client's resources.
func (s *session) end() {
	if s.twin != nil {
		s.twin.close()
	}
	s.card.mem.clear()
	s.card.irqs.clear()
}

// answer performs a message's command and returns the reply, nil for none. An error ends the
// session.
func (s *session) answer(m *message) ([]byte, error) {
	if m.Flags&flagType != typeCommand {
		return nil, fmt.Errorf("vfiouser: message %d of command %d has type %d: %w: want a command",
			m.ID, m.Command, m.Flags&flagType, ErrProtocol)
	}
	if !s.ready {
		if m.Command != cmdVersion {
			return nil, fmt.Errorf("vfiouser: the first message is command %d: %w: want the version", m.Command, ErrProtocol)
		}
		if err := s.agree(m.body); err != nil {
			return nil, err
		}
		return s.finish(m, nil), nil
	}
	s.out = append(s.out[:0], make([]byte, headerSize)...)
	err := s.do(m)
	if m.Flags&flagNoReply != 0 {
		return nil, nil
	}
	return s.finish(m, err), nil
}

// finish puts the header before the reply in s.out. An error reply is only a header.
func (s *session) finish(m *message, err error) []byte {
	h := header{ID: m.ID, Command: m.Command, Flags: typeReply}
	if err != nil {
		s.out = s.out[:headerSize]
		h.Flags |= flagError
		h.Errno = errno(err)
	}
	h.Size = uint32(len(s.out))
	h.put(s.out)
	return s.out
}

// agree answers the version in s.out, after space for the header.
func (s *session) agree(body []byte) error {
	v, err := parseVersion(body)
	if err != nil {
		return err
	}
	a, err := v.answer()
	if err != nil {
		return err
	}
	if v.Caps.Twin != nil && v.Caps.Twin.Supported {
		conn, fd, err := pair()
		if err != nil {
			return err
		}
		s.give = append(s.give, fd)
		s.twin = newTwin(conn, limit(v.Caps.MaxData, maxData))
		index := 0
		a.Caps.Twin = &twinSocket{Supported: true, Index: &index}
		s.card.mem.mu.Lock()
		s.card.mem.twin = s.twin
		s.card.mem.mu.Unlock()
	}
	b, err := a.body()
	if err != nil {
		return err
	}
	s.ready, s.multi = true, a.Caps.WriteMultiple != nil
	s.out = append(append(s.out[:0], make([]byte, headerSize)...), b...)
	return nil
}

// do performs a command and appends the reply's body to s.out. Errors are for the client.
func (s *session) do(m *message) error {
	if m.cut || len(m.fds) > 0 && m.Command != cmdDMAMap && m.Command != cmdSetIRQs {
		return syscall.EINVAL
	}
	c := s.card
	switch m.Command {
	case cmdDMAMap:
		return s.mapMemory(m)
	case cmdDMAUnmap:
		u, err := parseDMAUnmap(m.body)
		if err == nil {
			err = c.mem.remove(u.addr, u.size)
		}
		s.out = append(s.out, m.body...)
		return err
	case cmdDeviceInfo:
		return s.deviceInfo(m.body)
	case cmdRegionInfo:
		return s.regionInfo(m.body)
	case cmdIRQInfo:
		return s.irqInfo(m.body)
	case cmdSetIRQs:
		set, err := parseSetIRQs(m.body)
		if err != nil {
			return err
		}
		return c.irqs.set(set, m.fds)
	case cmdRegionRead:
		a, err := parseAccess(m.body, false)
		if err != nil {
			return err
		}
		s.out = append(s.out, m.body...)
		at := len(s.out)
		s.out = append(s.out, make([]byte, a.count)...)
		return c.load(&a, s.out[at:])
	case cmdRegionWrite:
		a, err := parseAccess(m.body, true)
		if err != nil {
			return err
		}
		s.out = append(s.out, m.body[:accessSize]...)
		return c.store(&a)
	case cmdWriteMulti:
		return s.writeMulti(m.body)
	case cmdDeviceReset:
		if len(m.body) != 0 {
			return syscall.EINVAL
		}
		return c.reset()
	case cmdVersion:
		return syscall.EINVAL // already agreed on
	}
	// Unknown, or an optional feature: descriptors for accesses, features, migration.
	return syscall.EOPNOTSUPP
}

func (s *session) mapMemory(m *message) error {
	d, err := parseDMAMap(m.body)
	if err != nil {
		return err
	}
	switch len(m.fds) {
	case 0:
		return s.card.mem.add(d, -1)
	case 1:
		return s.card.mem.add(d, m.fds[0])
	}
	return syscall.EINVAL
}

// Bits of DEVICE_GET_INFO's flags.
const (
	deviceReset = 1 << 0
	devicePCI   = 1 << 1
)

func (s *session) deviceInfo(body []byte) error {
	if _, err := parseInfo(body, deviceInfoSize); err != nil {
		return err
	}
	flags := uint32(devicePCI)
	if s.card.resets() {
		flags |= deviceReset
	}
	s.words(deviceInfoSize, flags, regionCount, irqCount)
	return nil
}

func (s *session) regionInfo(body []byte) error {
	i, err := parseInfo(body, regionInfoSize)
	if err == nil && i >= regionCount {
		err = syscall.EINVAL
	}
	if err != nil {
		return err
	}
	n, flags := s.card.space.regionSize(i), uint32(0)
	if n > 0 {
		flags = regionRead | regionWrite
	}
	s.words(regionInfoSize, flags, i, 0, uint32(n), uint32(n>>32), 0, 0)
	return nil
}

func (s *session) irqInfo(body []byte) error {
	i, err := parseInfo(body, irqInfoSize)
	if err == nil && i >= irqCount {
		err = syscall.EINVAL
	}
	if err != nil {
		return err
	}
	flags, n := irqInfo(i)
	s.words(irqInfoSize, flags, i, n)
	return nil
}

func (s *session) words(l ...uint32) {
	for _, w := range l {
		s.out = order.AppendUint32(s.out, w)
	}
}

// writeMulti performs writes in order up to the first wrong one, and answers their number. An error
// after the first write isn't the message's: earlier writes have happened.
func (s *session) writeMulti(body []byte) error {
	if !s.multi {
		return syscall.EOPNOTSUPP
	}
	n, err := multiCount(body)
	if err != nil {
		return err
	}
	done := 0
	for ; done < n; done++ {
		a, err := parseMulti(body, done)
		if err == nil {
			err = s.card.store(&a)
		}
		if err != nil {
			if done == 0 {
				return err
			}
			break
		}
	}
	s.out = order.AppendUint64(s.out, uint64(done))
	return nil
}
