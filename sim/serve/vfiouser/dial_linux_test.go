package vfiouser

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"syscall"

	"github.com/reprise-tt/reprise/sim/driver"
	"github.com/reprise-tt/reprise/sim/serve"
)

// Client is the host's side of a connection: the function behind a server. After a lost connection
// loads return all ones and Fault has the reason.
type Client struct {
	mu sync.Mutex // held until a message is answered
	peer
	most int // bytes of data per message

	errMu sync.Mutex // taken inside of mu
	err   error      // why the connection was lost

	twin    *net.UnixConn // for the server's memory requests, or nil
	dma     driver.DMA    // under dmaMu
	dmaMu   sync.RWMutex
	serving sync.WaitGroup
}

var (
	_ driver.Function = (*Client)(nil)
	_ driver.Resetter = (*Client)(nil)
)

// Dial connects to a server, once an earlier client has left or until ctx ends. The error wraps
// ErrProtocol for a peer that is no vfio-user server.
func Dial(ctx context.Context, path string) (*Client, error) {
	var d net.Dialer
	conn, err := d.DialContext(ctx, "unix", path)
	if err != nil {
		return nil, fmt.Errorf("vfiouser: dial: %w", err)
	}
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() }) // ends a waiting call
	c, err := newClient(conn.(*net.UnixConn))
	if stop() {
		return c, err
	}
	if err == nil {
		_ = c.Close() // its connection may be closed already
	}
	return nil, fmt.Errorf("vfiouser: dial: %w", ctx.Err())
}

func newClient(conn *net.UnixConn) (*Client, error) {
	c := &Client{peer: peer{stream: stream{conn: conn}}, most: maxData}
	if err := c.agree(); err != nil {
		_ = conn.Close() // the error is the reason
		return nil, err
	}
	return c, nil
}

func (c *Client) agree() error {
	n, data, yes := uint64(maxDescriptors), uint64(maxData), true
	v := version{Major: versionMajor, Minor: versionMinor, Caps: capabilities{
		MaxDescriptors: &n, MaxData: &data, WriteMultiple: &yes, Twin: &twinSocket{Supported: true}}}
	body, err := v.body()
	if err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	m, err := c.exchangeLocked(cmdVersion, body)
	if err != nil {
		return err
	}
	defer m.close()
	a, err := parseVersion(m.body)
	if err != nil {
		return err
	}
	if a.Major != versionMajor || a.Minor > versionMinor {
		return fmt.Errorf("vfiouser: version: %w: the server answered %d.%d to %d.%d", ErrProtocol, a.Major, a.Minor,
			versionMajor, versionMinor)
	}
	c.most = max(8, min(limit(a.Caps.MaxData, maxData), maxData))
	if t := a.Caps.Twin; t != nil && t.Supported {
		if t.Index == nil || *t.Index < 0 || *t.Index >= len(m.fds) {
			return fmt.Errorf("vfiouser: version: %w: a twin socket without its descriptor", ErrProtocol)
		}
		fd := m.fds[*t.Index]
		m.fds[*t.Index] = -1
		if c.twin, err = connOf(fd); err != nil {
			return err
		}
		c.serving.Go(c.serve)
	}
	return nil
}

// exchangeLocked returns the reply, whose descriptors are the caller's. An error reply's error is
// its errno; any other ends the connection.
func (c *Client) exchangeLocked(cmd command, body []byte, fds ...int) (*message, error) {
	if err := c.sendLocked(cmd, 0, body, nil, fds...); err != nil {
		return nil, err
	}
	m, err := c.reply(cmd)
	if err != nil {
		return nil, c.lost(err)
	}
	if m.Flags&flagError != 0 {
		m.close()
		return nil, syscall.Errno(m.Errno)
	}
	return m, nil
}

func (c *Client) sendLocked(cmd command, flags uint32, body, data []byte, fds ...int) error {
	if err := c.Fault(); err != nil {
		return err
	}
	if err := c.send(cmd, flags, body, data, fds...); err != nil {
		return c.lost(err)
	}
	return nil
}

func (c *Client) lost(err error) error {
	c.errMu.Lock()
	defer c.errMu.Unlock()
	if c.err == nil {
		if errors.Is(err, io.EOF) || errors.Is(err, syscall.EPIPE) || errors.Is(err, syscall.ECONNRESET) {
			err = fmt.Errorf("the server has closed it: %w", io.EOF) // whichever way it was noticed
		}
		c.err = fmt.Errorf("vfiouser: connection lost: %w", err)
		_ = c.conn.Close() // the error is the reason
	}
	return c.err
}

// take gets the reply's body.
func (c *Client) ask(cmd command, body []byte, take func([]byte) error, fds ...int) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	m, err := c.exchangeLocked(cmd, body, fds...)
	if err != nil {
		return err
	}
	defer m.close()
	if take == nil {
		return nil
	}
	if err := take(m.body); err != nil {
		return c.lost(err)
	}
	return nil
}

// info returns the words after argsz.
func (c *Client) info(cmd command, size int, index uint32) (words []uint32, err error) {
	body := make([]byte, size)
	order.PutUint32(body, uint32(size))
	if size > 8 {
		order.PutUint32(body[8:], index)
	}
	err = c.ask(cmd, body, func(b []byte) error {
		if len(b) < size {
			return fmt.Errorf("%w: a reply of %d bytes to command %d, want %d", ErrProtocol, len(b), cmd, size)
		}
		for at := 4; at < size; at += 4 {
			words = append(words, order.Uint32(b[at:]))
		}
		return nil
	})
	return words, err
}

// RegionSize returns the bytes of a region: 0 to 5 are BARs, 7 is configuration space.
func (c *Client) RegionSize(index int) (uint64, error) {
	w, err := c.info(cmdRegionInfo, regionInfoSize, uint32(index))
	if err != nil {
		return 0, fmt.Errorf("vfiouser: size of region %d: %w", index, err)
	}
	return uint64(w[3]) | uint64(w[4])<<32, nil
}

// Map makes a part of a file reachable for the device at a bus address, in whole pages.
func (c *Client) Map(fd int, offset, bus, size uint64, writable bool) error {
	var fds []int
	if fd >= 0 {
		fds = []int{fd}
	}
	flags := uint32(dmaReadable)
	if writable {
		flags |= dmaWritable
	}
	m := dmaMap{dmaMapSize, flags, offset, bus, size}
	if err := c.ask(cmdDMAMap, encode(m), nil, fds...); err != nil {
		return fmt.Errorf("vfiouser: map %d bytes at bus address %#x: %w", size, bus, err)
	}
	return nil
}

// Unmap ends exactly this mapping. Afterwards the device doesn't access the memory.
func (c *Client) Unmap(bus, size uint64) error {
	if err := c.ask(cmdDMAUnmap, encode(dmaUnmap{dmaUnmapSize, 0, bus, size}), nil); err != nil {
		return fmt.Errorf("vfiouser: unmap %d bytes at bus address %#x: %w", size, bus, err)
	}
	return nil
}

// Events makes interrupts (0: INTA, 1: message) signal an event descriptor of the caller's.
func (c *Client) Events(index, eventfd int) error {
	return c.irqs(irqDataEventFD|irqActionTrigger, index, 1, eventfd)
}

// Unmask unmasks INTA, which masks itself at each interrupt.
func (c *Client) Unmask() error { return c.irqs(irqDataNone|irqActionUnmask, irqINTx, 1) }

func (c *Client) irqs(flags uint32, index, count int, fds ...int) error {
	s := setIRQs{setIRQsSize, flags, uint32(index), 0, uint32(count)}
	if err := c.ask(cmdSetIRQs, encode(s), nil, fds...); err != nil {
		return fmt.Errorf("vfiouser: set interrupts of type %d: %w", index, err)
	}
	return nil
}

func (c *Client) read(region int, off uint64, p []byte) error {
	for len(p) > 0 {
		n := min(len(p), c.most)
		err := c.ask(cmdRegionRead, encode(accessHead{off, uint32(region), uint32(n)}), func(r []byte) error {
			if len(r) != accessSize+n {
				return fmt.Errorf("%w: a read of %d bytes has a reply of %d, want %d", ErrProtocol, n, len(r), accessSize+n)
			}
			copy(p, r[accessSize:])
			return nil
		})
		if err != nil {
			return err
		}
		off, p = off+uint64(n), p[n:]
	}
	return nil
}

// write is posted.
func (c *Client) write(region int, off uint64, p []byte) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	for len(p) > 0 {
		n := min(len(p), c.most)
		head := encode(accessHead{off, uint32(region), uint32(n)})
		if err := c.sendLocked(cmdRegionWrite, flagNoReply, head, p[:n]); err != nil {
			return err
		}
		off, p = off+uint64(n), p[n:]
	}
	return nil
}

// All ones if the server refuses.
func (c *Client) ConfigRead(off uint32) uint32 { return uint32(c.word(regionConfig, uint64(off), 4)) }

// ConfigWrite writes a word of configuration space.
func (c *Client) ConfigWrite(off uint32, v uint32) {
	c.BARStore(regionConfig, uint64(off), 4, uint64(v))
}

// BARLoad performs one load of width bytes; all ones if the server refuses.
func (c *Client) BARLoad(bar int, off uint64, width int) uint64 { return c.word(bar, off, width) }

func (c *Client) word(region int, off uint64, width int) uint64 {
	var b [8]byte
	if err := c.read(region, off, b[:width]); err != nil {
		return 1<<(8*width) - 1
	}
	return order.Uint64(b[:])
}

// BARStore performs one store of width bytes.
func (c *Client) BARStore(bar int, off uint64, width int, v uint64) {
	var b [8]byte
	order.PutUint64(b[:], v)
	_ = c.write(bar, off, b[:width]) // see Fault
}

// BARRead moves bulk data; all ones if the server refuses.
func (c *Client) BARRead(bar int, off uint64, p []byte) {
	if err := c.read(bar, off, p); err != nil {
		for i := range p {
			p[i] = 0xFF
		}
	}
}

// BARWrite moves bulk data.
func (c *Client) BARWrite(bar int, off uint64, p []byte) { _ = c.write(bar, off, p) } // see Fault

// Reset resets the device.
func (c *Client) Reset() error {
	if err := c.ask(cmdDeviceReset, nil, nil); err != nil {
		return fmt.Errorf("vfiouser: reset: %w", err)
	}
	c.masters()
	return nil
}

func (c *Client) masters() {
	c.ConfigWrite(regCommand, c.ConfigRead(regCommand)&0xFFFF|commandMaster|1<<1)
}

// AttachDMA makes all bus addresses reachable through d, message by message. Without the server's
// twin socket the connection is lost.
func (c *Client) AttachDMA(d driver.DMA) {
	c.dmaMu.Lock()
	c.dma = d
	c.dmaMu.Unlock()
	if c.twin == nil {
		_ = c.lost(fmt.Errorf("%w: the server has no twin socket and can't reach memory without a descriptor", ErrProtocol))
		return
	}
	if err := c.Map(-1, 0, 0, 1<<63, true); err != nil {
		_ = c.lost(err)
	}
	c.masters()
}

// Fault returns why the connection was lost, without waiting for accesses.
func (c *Client) Fault() error {
	c.errMu.Lock()
	defer c.errMu.Unlock()
	return c.err
}

// Close ends the connection.
func (c *Client) Close() error {
	c.errMu.Lock()
	if c.err == nil {
		c.err = fmt.Errorf("vfiouser: connection: %w", net.ErrClosed)
	}
	_ = c.conn.Close() // ends a waiting call; nothing else can be lost
	c.errMu.Unlock()
	if c.twin != nil {
		_ = c.twin.Close()
	}
	c.serving.Wait()
	return nil
}

func (c *Client) serve() {
	in := stream{conn: c.twin}
	var out []byte
	for {
		m, err := in.next()
		if err != nil {
			break
		}
		out = c.move(m, out[:0])
		m.close()
		if err := send(c.twin, out); err != nil {
			break
		}
	}
	_ = c.twin.Close()
}

func (c *Client) move(m *message, out []byte) []byte {
	out = append(out, make([]byte, headerSize)...)
	err := error(syscall.EINVAL)
	if len(m.body) >= dmaAccessSize {
		addr, n := order.Uint64(m.body), order.Uint64(m.body[8:])
		data := m.body[dmaAccessSize:]
		out = append(out, m.body[:dmaAccessSize]...)
		c.dmaMu.RLock()
		switch {
		case c.dma == nil || n > maxData:
		case m.Command == cmdDMARead && len(data) == 0:
			out = append(out, make([]byte, n)...)
			err = c.dma.ReadHost(addr, out[headerSize+dmaAccessSize:])
		case m.Command == cmdDMAWrite && uint64(len(data)) == n:
			err = c.dma.WriteHost(addr, data)
		}
		c.dmaMu.RUnlock()
	}
	if err != nil {
		err = syscall.EFAULT
	}
	return m.finish(out, err)
}

// Interrupt sends a message if the driver has enabled those, otherwise INTA.
func (c *Card) Interrupt() {
	if c.space.word(capMSI+2)&msiEnable != 0 {
		c.irqs.trigger(irqMSI)
	} else if c.space.word(regCommand)&commandNoIRQ == 0 {
		c.irqs.trigger(irqINTx)
	}
}

func (t *interrupts) trigger(index int) {
	t.mu.Lock()
	t.line[index].trigger(index == irqINTx)
	t.mu.Unlock()
}

func connOf(fd int) (*net.UnixConn, error) {
	f := os.NewFile(uintptr(fd), "vfio-user")
	defer f.Close() // the connection has a duplicate
	u, err := serve.ConnOf(f)
	if err != nil {
		return nil, fmt.Errorf("vfiouser: twin socket: %w: %w", ErrProtocol, err)
	}
	return u, nil
}

func encode(v any) []byte {
	b, _ := binary.Append(nil, order, v) // fails for no struct of numbers
	return b
}
