package vfiouser

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"syscall"

	"github.com/reprise-tt/reprise/sim/driver"
	"github.com/reprise-tt/reprise/sim/serve"
)

type session struct {
	card  *Card
	ready bool // the version is agreed on
	multi bool // REGION_WRITE_MULTI is agreed on
	twin  *twin
	out   []byte
	give  *os.File // for the reply, closed after sending, or nil
}

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
			var fds []int
			if s.give != nil {
				fds = []int{int(s.give.Fd())}
			}
			err = send(conn, reply, fds...)
		}
		if s.give != nil {
			_ = s.give.Close() // the client has a duplicate
			s.give = nil
		}
		switch {
		case errors.Is(err, syscall.EPIPE), errors.Is(err, syscall.ECONNRESET):
			return nil // the client left without waiting
		case err != nil:
			return err
		}
	}
}

func (s *session) end() {
	if s.twin != nil {
		_ = s.twin.conn.Close() // an access that waits for it gets an error
	}
	s.card.mem.clear()
	s.card.irqs.clear()
}

// answer returns nil for no reply. An error ends the session.
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
		return m.finish(s.out, nil), nil
	}
	s.out = append(s.out[:0], make([]byte, headerSize)...)
	err := s.do(m)
	if m.Flags&flagNoReply != 0 {
		return nil, nil
	}
	return m.finish(s.out, err), nil
}

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
		conn, give, err := serve.Pair()
		if err != nil {
			return fmt.Errorf("vfiouser: twin socket: %w", err)
		}
		s.give = give
		s.twin = &twin{peer: peer{stream: stream{conn: conn}}, most: max(1, min(limit(v.Caps.MaxData, maxData), maxData))}
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

// Errors are for the client.
func (s *session) do(m *message) error {
	if m.cut || len(m.fds) > 0 && m.Command != cmdDMAMap && m.Command != cmdSetIRQs {
		return syscall.EINVAL
	}
	c := s.card
	switch m.Command {
	case cmdDMAMap:
		return s.mapMemory(m)
	case cmdDMAUnmap:
		u, _, err := decode[dmaUnmap](m.body)
		// The flags are unused; in the ioctl they request more than the reply can hold.
		if err != nil || u.Argsz < dmaUnmapSize || u.Flags != 0 || len(m.body) != dmaUnmapSize {
			return syscall.EINVAL
		}
		s.out = append(s.out, m.body...)
		return c.mem.remove(u.Addr, u.Size)
	case cmdDeviceInfo:
		if len(m.body) != deviceInfoSize || order.Uint32(m.body) < deviceInfoSize {
			return syscall.EINVAL
		}
		flags := uint32(devicePCI)
		if _, ok := c.fn.(driver.Resetter); ok {
			flags |= deviceReset
		}
		s.words(deviceInfoSize, flags, regionCount, irqCount)
		return nil
	case cmdRegionInfo:
		i, err := parseInfo(m.body, regionInfoSize, regionCount)
		if err != nil {
			return err
		}
		n, flags := c.space.regionSize(i), uint32(0)
		if n > 0 {
			flags = regionRead | regionWrite
		}
		s.words(regionInfoSize, flags, i, 0, uint32(n), uint32(n>>32), 0, 0)
		return nil
	case cmdIRQInfo:
		i, err := parseInfo(m.body, irqInfoSize, irqCount)
		if err != nil {
			return err
		}
		flags, n := irqInfo(i)
		s.words(irqInfoSize, flags, i, n)
		return nil
	case cmdSetIRQs:
		set, data, err := parseSetIRQs(m.body)
		if err != nil {
			return err
		}
		return c.irqs.set(set, data, m.fds)
	case cmdRegionRead:
		a, err := parseAccess(m.body, false)
		if err != nil {
			return err
		}
		s.out = append(s.out, m.body...)
		at := len(s.out)
		s.out = append(s.out, make([]byte, a.Count)...)
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
	return syscall.EOPNOTSUPP // unknown, or an optional feature: descriptors for accesses, features, migration
}

func (s *session) mapMemory(m *message) error {
	d, rest, err := decode[dmaMap](m.body)
	if err != nil || len(rest) != 0 || len(m.fds) > 1 || d.Argsz < dmaMapSize || d.Flags&^(dmaReadable|dmaWritable) != 0 ||
		d.Size == 0 || d.Addr+d.Size-1 < d.Addr {
		return syscall.EINVAL
	}
	fd := -1
	if len(m.fds) == 1 {
		fd = m.fds[0]
	}
	return s.card.mem.add(d, fd)
}

// Bits of DEVICE_GET_INFO's flags.
const (
	deviceReset = 1 << 0
	devicePCI   = 1 << 1
)

func (s *session) words(l ...uint32) {
	for _, w := range l {
		s.out = order.AppendUint32(s.out, w)
	}
}

// writeMulti performs writes in order up to the first wrong one, and answers their number; only the
// first's error is the message's.
func (s *session) writeMulti(body []byte) error {
	if !s.multi {
		return syscall.EOPNOTSUPP
	}
	if len(body) < multiSize {
		return syscall.EINVAL
	}
	n, list := order.Uint64(body), body[multiSize:]
	if n > maxData/multiEntrySize || n*multiEntrySize != uint64(len(list)) {
		return syscall.EINVAL
	}
	done := uint64(0)
	for ; done < n; done++ {
		h, data, err := decode[accessHead](list[done*multiEntrySize:])
		if err == nil && h.Count > 8 {
			err = syscall.EINVAL
		}
		if err == nil {
			err = s.card.store(&access{h, data[:h.Count]})
		}
		if err != nil {
			if done == 0 {
				return err
			}
			break
		}
	}
	s.out = order.AppendUint64(s.out, done)
	return nil
}
