package vfiouser

import (
	"errors"
	"fmt"
	"net"
	"sync"
	"time"
)

// twin is the second socket, on which the server asks the client to move memory that it can't map.
type twin struct {
	most int // bytes of a message's data

	mu sync.Mutex
	peer
	err error
}

func newTwin(conn *net.UnixConn, most int) *twin {
	return &twin{peer: peer{stream: stream{conn: conn}}, most: max(1, min(most, maxData))}
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
