package vfiouser

import (
	"errors"
	"fmt"
	"net"
	"sync"
	"time"
)

// twin is the protocol's twin socket, a second socket on which the server asks the client to move
// memory that the server can't map.
type twin struct {
	most int // bytes of a message's data

	mu   sync.Mutex
	conn *net.UnixConn
	in   stream
	out  []byte
	id   uint16
	err  error
}

func newTwin(conn *net.UnixConn, most int) *twin {
	return &twin{conn: conn, most: max(1, min(most, maxData)), in: stream{conn: conn}}
}

// patience is how long a client may take to move a message's data while the chip waits.
const patience = 10 * time.Second

// access moves client memory. After an error every access fails.
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
	cmd, extra := cmdDMARead, 0
	if write {
		cmd, extra = cmdDMAWrite, len(p)
	}
	t.id++
	t.out = append(t.out[:0], make([]byte, headerSize+dmaAccessSize)...)
	header{ID: t.id, Command: cmd, Size: uint32(headerSize + dmaAccessSize + extra)}.put(t.out)
	order.PutUint64(t.out[headerSize:], addr)
	order.PutUint64(t.out[headerSize+8:], uint64(len(p)))
	if write {
		t.out = append(t.out, p...)
	}
	if err := t.conn.SetDeadline(time.Now().Add(patience)); err != nil {
		return err
	}
	if err := send(t.conn, t.out); err != nil {
		return err
	}
	m, err := t.in.next()
	if err != nil {
		return err
	}
	defer m.close()
	switch {
	case m.Flags&flagType != typeReply || m.ID != t.id || m.Command != cmd:
		return fmt.Errorf("%w: message %d of command %d is no reply to message %d of command %d", ErrProtocol, m.ID, m.Command, t.id, cmd)
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

func (t *twin) close() { _ = t.conn.Close() } // an access that waits for it gets an error
