package sim

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"sync"
	"time"

	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/sim/emu"
)

// Part is one of several processes, perhaps on several hosts, that emulate a machine; connections
// of [Meet] carry the links between them.
type Part struct {
	Index, Count int
	// Conns are the connections to the other parts, by index; nil for this part and for parts
	// without a link. The machine closes them.
	Conns []net.Conn
}

// OfPart leaves a machine only a part's chips: of n, part i of k has those from n*i/k up to
// n*(i+1)/k. A machine with chips without a PCI interface has no parts, nor has a Synchronous one.
// When a connection ends, its links go down. All parts have the same options.
func OfPart(p Part) Option { return func(c *config) { c.part = &p } }

// chips excludes end.
func (p *Part) chips(n int) (first, end int) {
	return n * p.Index / p.Count, n * (p.Index + 1) / p.Count
}

func (p *Part) of(i, n int) int {
	for k := range p.Count {
		if first, end := (&Part{Index: k, Count: p.Count}).chips(n); first <= i && i < end {
			return k
		}
	}
	return -1
}

func (p *Part) check(spec *chip.Machine) error {
	n := len(spec.Chips)
	if p.Count < 1 || p.Index < 0 || p.Index >= p.Count || p.Count > n {
		return fmt.Errorf("sim: part %d of %d: %w: a machine of %d chips has 1 to %d parts, numbered from 0", p.Index, p.Count,
			emu.ErrConfig, n,
			n)
	}
	for _, c := range spec.Chips {
		if !c.PCI && p.Count > 1 {
			return fmt.Errorf("sim: part %d of %d: %w: %s has chips that only its other chips lead to", p.Index, p.Count,
				emu.ErrConfig, spec.Name)
		}
	}
	return p.needs(spec)
}

type carriers struct {
	conns []*carrier
	wg    sync.WaitGroup
}

// Signals wait in a list, bounded by the links' windows, because a chip that sends must not wait.
type carrier struct {
	conn   net.Conn
	cables map[uint32]int // local cable by the link's number in the whole machine

	mu     sync.Mutex
	wake   sync.Cond
	list   []message
	closed bool
}

// message is a signal of a link, by its number in the whole machine.
type message struct {
	link uint32
	s    emu.Signal
}

func (c *carrier) send(m message) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.closed {
		c.list = append(c.list, m)
		c.wake.Signal()
	}
}

func (c *carrier) write() {
	var buf []byte
	for {
		c.mu.Lock()
		for len(c.list) == 0 && !c.closed {
			c.wake.Wait()
		}
		list := c.list
		c.list = nil
		closed := c.closed
		c.mu.Unlock()
		if closed {
			return
		}
		buf = buf[:0]
		for i := range list {
			buf = list[i].append(buf)
		}
		if _, err := c.conn.Write(buf); err != nil {
			return // read notices too
		}
	}
}

// read ends with an invalid message. Then its links go down.
func (c *carrier) read(m *emu.Machine) {
	head := make([]byte, 4)
	for {
		msg, err := readMessage(c.conn, head)
		if err == nil {
			cable, ok := c.cables[msg.link]
			if !ok {
				break
			}
			err = m.Receive(cable, msg.s)
		}
		if err != nil {
			break
		}
	}
	c.close()
	for _, cable := range c.cables {
		_ = m.Receive(cable, emu.Signal{Kind: emu.SignalDown})
	}
}

func (c *carrier) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.closed {
		c.closed = true
		c.wake.Signal()
		_ = c.conn.Close()
	}
}

func (cs *carriers) run(m *emu.Machine) {
	for _, c := range cs.conns {
		if c != nil {
			cs.wg.Go(c.write)
			cs.wg.Go(func() { c.read(m) })
		}
	}
}

func (cs *carriers) close() {
	if cs == nil {
		return
	}
	for _, c := range cs.conns {
		if c != nil {
			c.close()
		}
	}
	cs.wg.Wait()
}

func newCarriers(p *Part) *carriers {
	cs := &carriers{conns: make([]*carrier, len(p.Conns))}
	for i, conn := range p.Conns {
		if conn != nil {
			c := &carrier{conn: conn, cables: map[uint32]int{}}
			c.wake.L = &c.mu
			cs.conns[i] = c
		}
	}
	return cs
}

func (p *Part) needs(whole *chip.Machine) error {
	n := len(whole.Chips)
	for _, l := range whole.Links {
		a, b := p.of(l.Chip, n), p.of(l.PeerChip, n)
		if a != p.Index {
			a, b = b, a
		}
		if a == p.Index && b != p.Index && (b >= len(p.Conns) || p.Conns[b] == nil) {
			return fmt.Errorf("sim: part %d of %d: %w: links lead to part %d, and there is no connection to it", p.Index, p.Count,
				emu.ErrConfig, b)
		}
	}
	return nil
}

// cable makes a link to another part a numbered cable of the local machine.
func (cs *carriers) cable(p *Part, whole *chip.Machine, link, number, here, channel, peer, peerChannel int) emu.Cable {
	first, _ := p.chips(len(whole.Chips))
	c := emu.Cable{Chip: here - first, Channel: channel, Peer: identity(whole, peer), PeerChannel: peerChannel}
	to := cs.conns[p.of(peer, len(whole.Chips))]
	to.cables[uint32(link)] = number
	c.Send = func(s emu.Signal) { to.send(message{uint32(link), s}) }
	return c
}

// A hello has the sender's index and count, and a proof that it knows the key.
const helloSize = 8 + 4 + 4 + sha256.Size

var helloMagic = [8]byte{'r', 'e', 'p', 'l', 'i', 'n', 'k', 1}

func hello(index, count int, key []byte) []byte {
	b := append([]byte{}, helloMagic[:]...)
	b = binary.LittleEndian.AppendUint32(b, uint32(index))
	b = binary.LittleEndian.AppendUint32(b, uint32(count))
	h := hmac.New(sha256.New, key)
	h.Write(b)
	return h.Sum(b)
}

const helloTime = 5 * time.Second

// Meet connects the parts of a machine at addresses, by index; l is this part's listener, which
// Meet closes. Part i dials those before it. key is a shared secret; a peer without it gets no
// answer. Nothing is encrypted. The error wraps emu.ErrConfig for another machine's part, or is the
// network's or the context's.
func Meet(ctx context.Context, l net.Listener, index int, addresses []string, key []byte) ([]net.Conn, error) {
	n := len(addresses)
	conns := make([]net.Conn, n)
	fail := func(err error) ([]net.Conn, error) {
		for _, c := range conns {
			if c != nil {
				_ = c.Close()
			}
		}
		_ = l.Close()
		return nil, fmt.Errorf("sim: connect part %d of %d: %w", index, n, err)
	}
	if index < 0 || index >= n {
		return fail(fmt.Errorf("%w: there is no such part", emu.ErrConfig))
	}
	stop := context.AfterFunc(ctx, func() { _ = l.Close() })
	defer stop()
	for i := range index {
		c, err := new(net.Dialer).DialContext(ctx, l.Addr().Network(), addresses[i])
		if err != nil {
			return fail(err)
		}
		conns[i] = c
		got := -1
		if _, err = c.Write(hello(index, n, key)); err == nil {
			got, err = heard(ctx, c, n, key)
		}
		if err == nil && got != i {
			err = fmt.Errorf("%w: it is part %d", emu.ErrConfig, got)
		}
		if err != nil {
			return fail(fmt.Errorf("part %d at %s: %w", i, addresses[i], err))
		}
	}
	for left := n - 1 - index; left > 0; {
		c, err := l.Accept()
		if err != nil {
			if ctx.Err() != nil {
				err = context.Cause(ctx)
			}
			return fail(err)
		}
		i, err := heard(ctx, c, n, key)
		if err == nil && i > index && conns[i] == nil {
			_, err = c.Write(hello(index, n, key))
		} else if err == nil {
			err = emu.ErrConfig
		}
		if err != nil {
			_ = c.Close() // a stranger's
			continue
		}
		conns[i] = c
		left--
	}
	_ = l.Close()
	return conns, nil
}

// heard returns the peer's index.
func heard(ctx context.Context, c net.Conn, count int, key []byte) (int, error) {
	stop := context.AfterFunc(ctx, func() { _ = c.Close() })
	defer stop()
	if err := c.SetReadDeadline(time.Now().Add(helloTime)); err != nil {
		return 0, err
	}
	theirs := make([]byte, helloSize)
	if _, err := io.ReadFull(c, theirs); err != nil {
		return 0, err
	}
	i := int(binary.LittleEndian.Uint32(theirs[8:]))
	if i >= count || !hmac.Equal(hello(i, count, key), theirs) {
		return 0, fmt.Errorf("%w: it is no part of this machine", emu.ErrConfig)
	}
	return i, c.SetReadDeadline(time.Time{})
}
