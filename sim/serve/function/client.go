package function

import (
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/reprise-tt/reprise/sim/serve"
)

// Client is the process that uses the library. After the server's end its methods return false.
type Client struct {
	conn *serve.Conn
	shm  *serve.Memory

	dead   atomic.Bool  // no more replies will come
	queue  sync.Mutex   // held by a producer of requests
	asking sync.Mutex   // held by the waiter for a reply; taken before queue
	use    sync.RWMutex // held while the mapping is in use, for Close
	closed bool         // unmapped; guarded by use
	last   uint64       // clocks at the end; guarded by use

	// The race detector can't see the order that another process makes between the host's accesses
	// and the devices' DMA: DMA sees everything before a sent request, and the receiver of a reply
	// earlier DMA.
	sent, moved atomic.Uint32

	calls sync.WaitGroup // ServeCalls
	ended chan struct{}  // closed when the watcher of the socket has ended
}

// NewClient greets a server on a socket, now the Client's, at whose end it calls end.
func NewClient(conn *net.UnixConn, end func()) (*Client, error) {
	c := &Client{conn: serve.NewConn(conn), ended: make(chan struct{})}
	shm, f, err := serve.NewMemory()
	if err != nil {
		_ = c.conn.Close() // unused
		return nil, fmt.Errorf("function: shared memory: %w", err)
	}
	defer f.Close()
	if err := c.conn.Greet(serve.ServiceFunction, int(f.Fd())); err != nil {
		return nil, errors.Join(fmt.Errorf("function: greet the server: %w", err), c.conn.Close(), shm.Unmap())
	}
	c.shm = shm
	go func() {
		defer close(c.ended)
		c.conn.AwaitEnd()
		end()
		c.dead.Store(true)
		shm.Wake()
	}()
	return c, nil
}

// Close ends the server, and waits for ServeCalls.
func (c *Client) Close() {
	_ = c.conn.Close() // nothing is written to it
	<-c.ended
	c.calls.Wait()
	c.use.Lock()
	defer c.use.Unlock()
	if c.closed {
		return
	}
	c.closed, c.last = true, atomic.LoadUint64(c.shm.Progress)
	_ = c.shm.Unmap() // can't fail
}

// Dead reports whether the server is gone.
func (c *Client) Dead() bool { return c.dead.Load() }

// Clocks returns the number of clocks that the library has run.
func (c *Client) Clocks() uint64 {
	c.use.RLock()
	defer c.use.RUnlock()
	if c.closed {
		return c.last
	}
	return atomic.LoadUint64(c.shm.Progress)
}

// Open makes the server load a library; with a manual clock time only advances in Clock. The error
// wraps ErrGone, ErrUnsupported, ErrSymbol or ErrLoad.
func (c *Client) Open(path string, manual bool) error {
	h := serve.Head{Op: opOpen}
	if manual {
		h.Val = 1
	}
	var text string
	r, ok := c.ask(&h, []byte(path), func(p []byte) { text = string(p) })
	switch {
	case !ok:
		return fmt.Errorf("function: open: %w", ErrGone)
	case r.Status == serve.StatusOK:
		return nil
	}
	kind := ErrLoad
	switch r.Kind {
	case openSymbol:
		kind = ErrSymbol
	case openUnsupported:
		kind = ErrUnsupported
	}
	return &openError{text, kind}
}

type openError struct {
	text string
	kind error
}

func (e *openError) Error() string { return e.text }
func (e *openError) Unwrap() error { return e.kind }

// ConfigRead reads a 32-bit word of a device's config space.
func (c *Client) ConfigRead(device, off uint32) (v uint32, ok bool) {
	r, ok := c.ask(&serve.Head{Op: opConfigRead, Object: device, Off: uint64(off)}, nil, nil)
	if !ok {
		return ^uint32(0), false
	}
	return uint32(r.Val), true
}

// ConfigWrite writes a 32-bit word of a device's config space.
func (c *Client) ConfigWrite(device, off, v uint32) (ok bool) {
	_, ok = c.ask(&serve.Head{Op: opConfigWrite, Object: device, Off: uint64(off), Val: uint64(v)}, nil, nil)
	return ok
}

// Clock advances the simulation by n clocks.
func (c *Client) Clock(n uint64) (ok bool) {
	_, ok = c.ask(&serve.Head{Op: opClock, Val: n}, nil, nil)
	return ok
}

// Sync returns when the library has performed all earlier requests.
func (c *Client) Sync() (ok bool) {
	_, ok = c.ask(&serve.Head{Op: opSync}, nil, nil)
	return ok
}

// Exit asks the server to end, without waiting.
func (c *Client) Exit() {
	c.use.RLock()
	defer c.use.RUnlock()
	if !c.closed {
		c.push(&serve.Head{Op: opExit}, nil)
	}
}

// Load performs one load of width 1, 2, 4 or 8 bytes.
func (c *Client) Load(addr uint64, width int) (v uint64, ok bool) {
	r, ok := c.ask(&serve.Head{Op: serve.OpLoad, Width: uint8(width), Off: addr}, nil, nil)
	return r.Val, ok
}

// Store queues one store of width 1, 2, 4 or 8 bytes.
func (c *Client) Store(addr uint64, width int, v uint64) {
	c.use.RLock()
	defer c.use.RUnlock()
	if !c.closed {
		c.push(&serve.Head{Op: serve.OpStore, Width: uint8(width), Off: addr, Val: v}, nil)
	}
}

// Read copies to p from an address, in pieces.
func (c *Client) Read(addr uint64, p []byte) (ok bool) {
	for dst := range slices.Chunk(p, serve.ReplyBytes) {
		n := uint64(len(dst))
		if _, ok := c.ask(&serve.Head{Op: serve.OpRead, Off: addr, Val: n}, nil, func(b []byte) { copy(dst, b) }); !ok {
			return false
		}
		addr += n
	}
	return true
}

// Write queues p for an address, in pieces, until stop holds.
func (c *Client) Write(addr uint64, p []byte, stop func() bool) {
	c.use.RLock()
	defer c.use.RUnlock()
	for b := range slices.Chunk(p, serve.RequestBytes) {
		if c.closed || stop() {
			return
		}
		c.push(&serve.Head{Op: serve.OpWrite, Off: addr}, b)
		addr += uint64(len(b))
	}
}

// push queues a request and a copy of its payload, with use held; false: the server is gone.
func (c *Client) push(h *serve.Head, payload []byte) bool {
	c.queue.Lock()
	defer c.queue.Unlock()
	r := &c.shm.Requests
	h.Size = uint32(len(payload))
	if !r.Reserve(len(payload), c.dead.Load) {
		return false
	}
	copy(r.Slot(h), payload)
	c.sent.Store(1)
	r.Publish(len(payload))
	return true
}

// ask passes the reply's payload to take, if not nil; false: the server is gone.
func (c *Client) ask(h *serve.Head, payload []byte, take func(payload []byte)) (reply serve.Head, ok bool) {
	c.use.RLock()
	defer c.use.RUnlock()
	if c.closed {
		return reply, false
	}
	c.asking.Lock()
	defer c.asking.Unlock()
	before := c.shm.Requests.Replies()
	if !c.push(h, payload) {
		return reply, false
	}
	p, ok := c.shm.Requests.Await(before, c.dead.Load, &reply)
	c.moved.Load()
	if ok && take != nil {
		take(p)
	}
	return reply, ok
}

// Transfer is a simulated device's access to host memory.
type Transfer struct {
	Write  bool
	Device uint8 // or AnyDevice
	Addr   uint64
	Data   []byte // written, or to be read; valid during the call
}

// ServeCalls performs the devices' accesses to host memory in order, until the server is gone. It
// takes no lock: a holder may wait for the server, which may wait for ServeCalls.
func (c *Client) ServeCalls(do func(*Transfer)) {
	c.calls.Add(1)
	go func() {
		defer c.calls.Done()
		c.serveCalls(do)
	}()
}

func (c *Client) serveCalls(do func(*Transfer)) {
	r := &c.shm.Calls
	var rec serve.Record
	var t Transfer // one for all, since do gets its address
	for {
		ok, err := r.Next(&rec)
		if err != nil {
			_ = c.conn.Close() // ends the server
			return
		}
		if !ok {
			if c.dead.Load() {
				return
			}
			r.AwaitItem(serve.Spins/4, serve.Forever, c.dead.Load)
			continue
		}
		c.sent.Load()
		t = Transfer{Write: rec.Op == serve.OpWrite, Device: uint8(rec.Object), Addr: rec.Off, Data: rec.Payload}
		if !t.Write {
			t.Data = r.ReplyPayload()[:min(rec.Val, serve.CallBytes)]
		}
		do(&t)
		c.moved.Store(1)
		r.Advance(&rec) // before the reply, which must find the ring empty
		if !t.Write {
			r.Reply(&serve.Head{Op: serve.OpRead, Size: uint32(len(t.Data))})
		}
	}
}
