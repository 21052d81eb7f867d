package topology

import (
	"context"
	"encoding/binary"
	"fmt"
	"runtime"
	"sync"
	"time"

	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/kmd"
)

// Where Wormhole's Ethernet firmware takes commands in its tile's L1, and their form (tt-umd
// device/api/umd/device/arch/wormhole_implementation.hpp and device/tt_device/remote_communication).
const (
	requestQueue   = 0x11080
	responseQueue  = requestQueue + 2*0xC0
	queueWrite     = 0x20 // pointers count modulo 8, the queue has 4 places
	queueRead      = 0x30
	queueCommands  = 0x40 // 32 bytes each: address, chip and tile; data or size; flags
	commandBuffers = 0x12000

	commandWrite    = 1 << 0
	commandRead     = 1 << 2
	commandReadData = 1 << 3
	commandBlock    = 1 << 6

	// BlockSize is the largest transfer that one command makes, in bytes.
	BlockSize = 1024
)

// Place is where Wormhole's Ethernet firmware says that a chip is.
type Place struct{ X, Y uint8 }

// String returns "(1,0)".
func (p Place) String() string { return fmt.Sprintf("(%d,%d)", p.X, p.Y) }

// Tunnel reads and writes the tiles of a Wormhole that has no PCI interface, through the Ethernet firmware of one that has.
// Each command waits for its answer. The queue in an Ethernet tile has no lock, so a tunnel holds the driver's lock of its
// device for that meanwhile, kmd.LockNonMMIO, as tt-umd does. Methods may be called from several goroutines.
type Tunnel struct {
	mu    sync.Mutex
	dev   *kmd.Device
	w     *kmd.Window
	place Place
	name  string
	limit time.Duration
	lost  error
}

// answerTime is how long a command may take while its link is up. On silicon it takes some microseconds; the vendor's simulator
// is slow, and so is an emulator with every check on a busy host.
const answerTime = time.Minute

// eagerLooks is how often a command looks for its answer before it sleeps in between. A look takes about a microsecond over
// PCIe, and so does much of the answer; the shortest sleep takes the kernel some fifty.
const eagerLooks = 64

// linkPatience is how long a link may be down under a command: it may be trained anew.
const linkPatience = 500 * time.Millisecond

// drainTime is how long commands that somebody gave up may take while the link is up.
const drainTime = 10 * time.Second

// OpenTunnel returns a tunnel from an Ethernet tile of d, by its raw NoC 0 coordinate, to the chip at a place. It holds one
// window of d until Close. The tile must have a link that is up.
func OpenTunnel(d *kmd.Device, tile chip.XY, to Place) (*Tunnel, error) {
	t := &Tunnel{dev: d, place: to, limit: answerTime, name: fmt.Sprintf("chip %v behind %v, tile %v", to, d, tile)}
	if d.Arch() != chip.Wormhole {
		return nil, fmt.Errorf("topology: open tunnel to %s: %w: only Wormhole's Ethernet firmware forwards", t.name, ErrUnreachable)
	}
	var err error
	if t.w, err = ethernetWindow(d, tile); err != nil {
		return nil, fmt.Errorf("topology: open tunnel to %s: %w", t.name, err)
	}
	return t, nil
}

// ethernetWindow returns a window that shows the whole L1 of an Ethernet tile.
func ethernetWindow(d *kmd.Device, tile chip.XY) (*kmd.Window, error) {
	size := d.Params().Windows[0].Size
	for _, c := range d.Params().Windows {
		size = min(size, c.Size)
	}
	w, err := d.OpenWindow(size, kmd.Uncached)
	if err != nil {
		return nil, err
	}
	if err := w.Configure(kmd.WindowConfig{Target: tile}); err != nil {
		w.Close()
		return nil, err
	}
	return w, nil
}

// String names the chip at the far end.
func (t *Tunnel) String() string { return t.name }

// Close gives the window back.
func (t *Tunnel) Close() error { return t.w.Close() }

// take waits until nobody else uses a tunnel of the device, in this process or another one.
func (t *Tunnel) take(ctx context.Context) (unlock func(), err error) {
	t.mu.Lock()
	l, err := t.dev.Lock(ctx, kmd.LockNonMMIO)
	if err != nil {
		t.mu.Unlock()
		return nil, fmt.Errorf("topology: %s: %w", t.name, err)
	}
	return func() {
		_ = l.Unlock() // a lock that is gone went with the device, which the next access finds
		t.mu.Unlock()
	}, nil
}

// Load32 loads a word at a multiple of 4 of a tile of the far chip, as software names the tile on NoC 0.
func (t *Tunnel) Load32(ctx context.Context, xy chip.XY, addr uint64) (uint32, error) {
	unlock, err := t.take(ctx)
	if err != nil {
		return 0, err
	}
	defer unlock()
	slot, err := t.command(ctx, xy, addr, 4, 0, commandRead)
	if err != nil {
		return 0, err
	}
	return t.w.Load32(slot + 8), nil
}

// Store32 stores a word at a multiple of 4 of a tile of the far chip. It returns when the word is written.
func (t *Tunnel) Store32(ctx context.Context, xy chip.XY, addr uint64, v uint32) error {
	unlock, err := t.take(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	_, err = t.command(ctx, xy, addr, 4, v, commandWrite)
	return err
}

// Read reads memory of a tile of the far chip. Address and length are multiples of 32, to which all memories agree.
func (t *Tunnel) Read(ctx context.Context, xy chip.XY, addr uint64, p []byte) error {
	return t.blocks(ctx, xy, addr, p, func(slot uint64, b []byte) {
		at := commandBuffers + (slot-responseQueue-queueCommands)/32*BlockSize
		for i := 0; i < len(b); i += 4 {
			binary.LittleEndian.PutUint32(b[i:], t.w.Load32(at+uint64(i)))
		}
	}, commandRead|commandBlock)
}

// Write writes memory of a tile of the far chip, like Read. It returns when the last block is written.
func (t *Tunnel) Write(ctx context.Context, xy chip.XY, addr uint64, p []byte) error {
	return t.blocks(ctx, xy, addr, p, nil, commandWrite|commandBlock)
}

func (t *Tunnel) blocks(ctx context.Context, xy chip.XY, addr uint64, p []byte, take func(slot uint64, b []byte), flags uint32) error {
	if addr%32 != 0 || len(p)%32 != 0 {
		return fmt.Errorf("topology: %s: %d bytes at %v %#x: %w: want multiples of 32", t.name, len(p), xy, addr, ErrRange)
	}
	unlock, err := t.take(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	for len(p) > 0 {
		b := p[:min(len(p), BlockSize)]
		if take == nil {
			at := commandBuffers + uint64(t.w.Load32(requestQueue+queueWrite)&3)*BlockSize
			for i := 0; i < len(b); i += 4 {
				t.w.Store32(at+uint64(i), binary.LittleEndian.Uint32(b[i:]))
			}
		}
		slot, err := t.command(ctx, xy, addr, len(b), uint32(len(b)), flags)
		if err != nil {
			return err
		}
		if take != nil {
			take(slot, b)
		}
		p, addr = p[len(b):], addr+uint64(len(b))
	}
	return nil
}

// drain waits for commands that somebody gave up, which are carried out when a link is up again.
func (t *Tunnel) drain(ctx context.Context) error {
	p := t.patience(min(drainTime, t.limit))
	for {
		left := (t.w.Load32(requestQueue+queueWrite) - t.w.Load32(requestQueue+queueRead)) & 7
		if left == 0 {
			return nil
		}
		if err := p.over(ctx, true); err != nil {
			return fmt.Errorf("%w: it has left %d commands of somebody: %w", ErrNoAnswer, left, err)
		}
		time.Sleep(time.Millisecond)
	}
}

// patience is a wait for the firmware.
type patience struct {
	t        *Tunnel
	deadline time.Time
	down     time.Time // when the link was seen down, as at every look since; zero while it is up
}

func (t *Tunnel) patience(limit time.Duration) patience {
	return patience{t: t, deadline: time.Now().Add(limit)}
}

// over says why the wait is to end, if it is. look asks it to look at the link as well, whose patience begins when it is seen
// down and not with the wait: meanwhile this process may have stood still.
func (p *patience) over(ctx context.Context, look bool) error {
	t := p.t
	if err := t.w.Err(); err != nil {
		return err
	}
	if fault := t.dev.RemoteFault(t.place.X, t.place.Y); fault != nil {
		return fault
	}
	if fault := t.dev.Fault(); fault != nil {
		return fault
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	if time.Now().After(p.deadline) {
		return context.DeadlineExceeded
	}
	if !look {
		return nil
	}
	now := time.Now()
	switch state := t.w.Load32(wormholeTrained); {
	case state == wormholeIsUp:
		p.down = time.Time{}
	case p.down.IsZero():
		p.down = time.Now()
	case now.Sub(p.down) > linkPatience:
		return fmt.Errorf("%w: the tile's link says state %d", kmd.ErrLinkDown, state)
	}
	return nil
}

// command carries out a command and returns where the answer of a read is.
func (t *Tunnel) command(ctx context.Context, xy chip.XY, addr uint64, n int, data, flags uint32) (uint64, error) {
	fail := func(err error) (uint64, error) {
		return 0, fmt.Errorf("topology: %s: %d bytes at %v %#x: %w", t.name, n, xy, addr, err)
	}
	switch {
	case t.lost != nil:
		return fail(t.lost)
	case addr%4 != 0 || addr >= 1<<36 || xy.X > 63 || xy.Y > 63:
		return fail(ErrRange)
	}
	w := t.w
	if err := t.drain(ctx); err != nil {
		return fail(err)
	}
	wr, resp := w.Load32(requestQueue+queueWrite)&7, w.Load32(responseQueue+queueWrite)&7
	full := addr | uint64(xy.X)<<36 | uint64(xy.Y)<<42 | uint64(t.place.X)<<48 | uint64(t.place.Y)<<54
	slot := requestQueue + queueCommands + uint64(wr&3)*32
	w.Store32(slot, uint32(full))
	w.Store32(slot+4, uint32(full>>32))
	w.Store32(slot+8, data)
	w.Store32(slot+12, flags)
	w.Store32(requestQueue+queueWrite, (wr+1)&7)
	wait := t.patience(t.limit)
	looks, pause := 0, time.Microsecond
	for w.Load32(requestQueue+queueRead)&7 != (wr+1)&7 {
		if err := wait.over(ctx, pause == time.Millisecond); err != nil {
			if e := w.Err(); e != nil {
				return fail(e)
			}
			t.lost = fmt.Errorf("%w: %w", ErrNoAnswer, err) // the answer may come later, to whoever is next
			return fail(t.lost)
		}
		if looks++; looks <= eagerLooks {
			runtime.Gosched()
			continue
		}
		time.Sleep(pause)
		pause = min(2*pause, time.Millisecond)
	}
	if flags&commandRead == 0 {
		return 0, nil
	}
	slot = responseQueue + queueCommands + uint64(resp&3)*32
	got := w.Load32(slot + 12)
	w.Store32(responseQueue+queueRead, (resp+1)&7)
	if want := commandReadData | flags&commandBlock; got != want {
		return fail(fmt.Errorf("%w: answer %#x, want %#x", ErrNoAnswer, got, want))
	}
	return slot, nil
}
