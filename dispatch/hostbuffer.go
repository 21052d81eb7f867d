package dispatch

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/dispatch/cq"
	"github.com/reprise-tt/reprise/dispatch/memmap"
	"github.com/reprise-tt/reprise/kmd"
)

// DirectAlign is the alignment in bytes for transfers without a copy: the NoC moves data only
// between addresses that are equal modulo it.
const DirectAlign = cq.L1Align

// DirectMin is the size in bytes from which a page with a gap is moved by commands of its own,
// which take the device some microseconds.
const DirectMin = 16 << 10

// mostDirect limits a batch's bytes to host memory, so that a wait sees progress.
const mostDirect = 256 << 10

// HostBuffer is pinned host memory: queues move data to and from it without a copy by the host.
type HostBuffer struct {
	d     *machine
	of    *hostBuffers
	all   []*Queue // of the device
	mem   *kmd.HostMemory
	bytes []byte
	gone  bool // changed with mu of every queue held

	// Data that the device writes here must arrive before a queue reads them. A prefetcher works
	// ahead of its dispatcher, so it has to wait.
	delivered atomic.Uint64           // transfers to the memory
	settled   [memmap.MaxQueues]edges // by queue, guarded by its mu
}

// edges counts what may have put new data into host memory.
type edges struct {
	delivered uint64 // of all queues
	waits     uint64
}

// ErrUnpinned is returned when pinned host memory is used after Unpin.
var ErrUnpinned = errors.New("the host memory was unpinned already")

// Bytes returns the memory, valid until Unpin.
func (h *HostBuffer) Bytes() []byte { return h.bytes }

// Unpin unpins the memory once all queues of the device are idle, and blocks submissions meanwhile:
// the driver sets the range's base to 0 before it disables the range, so a request of the device in
// between would go astray. While a queue hangs the memory stays pinned.
func (h *HostBuffer) Unpin(ctx context.Context) error { return h.quiet(ctx, 0) }

func (h *HostBuffer) quiet(ctx context.Context, i int) (err error) {
	if i == len(h.all) {
		return h.unpin(ctx)
	}
	q := h.all[i]
	defer q.leave(&err, q.enter())
	return h.quiet(ctx, i+1)
}

func (h *HostBuffer) unpin(ctx context.Context) error {
	if h.gone {
		return fmt.Errorf("dispatch: unpin %v: %w", h.mem, ErrUnpinned)
	}
	for _, q := range h.all {
		done, _, err := q.recordLocked(ctx, "unpin host memory", false, q.allLocked())
		if err == nil {
			err = q.awaitLocked(ctx, "the end of transfers with host memory that is unpinned", done.done)
		}
		if err == nil {
			err = done.lost
		}
		if err != nil {
			return fmt.Errorf("dispatch: unpin %v, which stays pinned: %w", h.mem, err)
		}
	}
	h.gone = true
	h.of.mu.Lock()
	delete(h.of.all, h)
	h.of.mu.Unlock()
	return h.mem.Close()
}

type hostBuffers struct {
	mu  sync.Mutex
	all map[*HostBuffer]struct{}
}

func (p *hostBuffers) add(h *HostBuffer) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.all == nil {
		p.all = map[*HostBuffer]struct{}{}
	}
	p.all[h] = struct{}{}
}

func (p *hostBuffers) closeAll() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	var errs []error
	for h := range p.all {
		h.gone = true
		errs = append(errs, h.mem.Close())
	}
	p.all = nil
	return errors.Join(errs...)
}

// repin keeps the order of addresses: most likely the memory gets the addresses again that programs
// know.
func (p *hostBuffers) repin() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, h := range slices.SortedFunc(maps.Keys(p.all),
		func(a, b *HostBuffer) int { return cmp.Compare(a.mem.NOCAddr(), b.mem.NOCAddr()) }) {
		if err := h.mem.Repin(); err != nil {
			return err
		}
	}
	return nil
}

// HostView is how kernels and the host share pinned memory.
type HostView struct {
	// Addr is the memory's NoC address in the PCIe tile.
	Addr uint64
	// Tile is the PCIe tile as kernels name it on each NoC: x | y<<6.
	Tile [2]uint32
	// Restarts of the device, after which no earlier kernel runs and Addr may differ.
	Restarts uint64

	mem *kmd.HostMemory
}

// View is valid until Unpin or the device's Restart.
func (h *HostBuffer) View() HostView {
	xy := func(n chip.NOC) uint32 {
		at := h.d.ch.PCIe(n)
		return uint32(at.X) | uint32(at.Y)<<6
	}
	return HostView{Addr: h.mem.NOCAddr(), Tile: [2]uint32{xy(chip.NOC0), xy(chip.NOC1)}, Restarts: h.d.restarts.Load(), mem: h.mem}
}

// Load32 atomically loads the word at byte off, a multiple of 4. The device's earlier writes are
// visible afterwards.
func (v *HostView) Load32(off int) uint32 { return v.mem.Load32(uint64(off)) }

// Store32 atomically stores the word at byte off, a multiple of 4. A device that sees it sees all
// earlier stores.
func (v *HostView) Store32(off int, x uint32) { v.mem.Store32(uint64(off), x) }

// HeldError is returned when pinned host memory is released while programs or traces use it.
type HeldError struct {
	Buffer  string
	Holders []string // `program "x"`, `trace "y"`
}

func (e *HeldError) Error() string {
	return fmt.Sprintf("host buffer %q is in use: release %s first", e.Buffer, strings.Join(e.Holders, ", "))
}

func (h *HostBuffer) addr(d *machine, at, n int) (uint64, error) {
	switch {
	case h.gone:
		return 0, ErrUnpinned
	case h.d != d:
		return 0, ErrOtherDevice
	}
	if err := h.check(at, n); err != nil {
		return 0, err
	}
	return h.mem.NOCAddr() + uint64(at), nil
}

func (h *HostBuffer) check(at, n int) error {
	if at < 0 || n < 0 || at > len(h.bytes) || n > len(h.bytes)-at {
		return &TransferError{Op: "transfer with host memory", Offset: at, Size: n, Have: len(h.bytes)}
	}
	return nil
}

func (d *machine) pcieXY() uint32 { return d.ch.Arch().NOCXY(d.ch.PCIe(chip.NOC0)) }

func (b *Interleaved) direct(op string, off, at, n int) error {
	page := int(b.HostPage)
	one := off/page == (off+max(n, 1)-1)/page
	if off < 0 || n < 0 || off > b.Bytes() || n > b.Bytes()-off || !one && (off%page != 0 || n%page != 0) {
		return &TransferError{Op: op, Offset: off, Size: n, Have: b.Bytes(), Page: page}
	}
	if start := int(b.Addr) + off%page; !one && b.PageSize != b.HostPage || (start-at)%DirectAlign != 0 || at%DirectAlign != 0 {
		return fmt.Errorf("dispatch: %s of %d B at offset %d without a copy: to and from offset %d of host memory the addresses must be multiples of %d B, and pages must have no gaps", op, n, off, at, DirectAlign)
	}
	return nil
}

// ReadDirect submits a transfer of n bytes from the buffer, from byte off on, to pinned memory:
// inside one page, or whole pages without gaps. first makes it wait for earlier writes; of several
// transfers only the first needs that. If p isn't nil, a Report in p follows.
func (q *Queue) ReadDirect(ctx context.Context, b *Interleaved, off int, h *HostBuffer, at, n int, first bool, p *Pending) (err error) {
	if err := b.direct("read", off, at, n); err != nil {
		return err
	}
	defer q.leave(&err, q.enter())
	to, err := q.hostAddrLocked("read", h, at, n)
	if err != nil {
		return err
	}
	l := q.d.layout()
	unit := l.DRAMAlign()
	err = b.pieces(off, n, mostDirect, func(piece Interleaved, bank, pages, size int) error {
		cmds := q.builderLocked()
		if first {
			q.appendSettleLocked(&cmds)
		}
		cmds.WriteLinearHeader(cq.WriteLinear{H: true, NOC: q.d.pcieXY(), Addr: to, Length: uint64(size)})
		relay := cq.RelayPaged{StartPage: uint8(bank), DRAM: b.DRAM, Base: piece.Addr, PageSize: piece.PageSize, Pages: uint32(pages)}
		if pages == 1 {
			relay.PageSize = uint32((size + unit - 1) &^ (unit - 1))
			relay.LengthAdjust = uint16(relay.PageSize - uint32(size))
		}
		cmds.RelayPaged(relay)
		n -= size
		if p != nil && n == 0 {
			err = q.reportLocked(ctx, &cmds, p)
		} else {
			err = q.sendBuiltLocked(ctx, "transfer", &cmds)
		}
		if err != nil {
			return err
		}
		h.delivered.Add(1)
		to += uint64(size)
		first = false
		return nil
	})
	q.history.last.Store(&opRead)
	return err
}

// WriteDirect is the reverse of ReadDirect. The memory must not change until a later Report is
// done. Data written by kernels must be there before the call.
func (q *Queue) WriteDirect(ctx context.Context, b *Interleaved, off int, h *HostBuffer, at, n int, first bool) (err error) {
	if err := b.direct("write", off, at, n); err != nil {
		return err
	}
	defer q.leave(&err, q.enter())
	from, err := q.hostAddrLocked("write", h, at, n)
	if err != nil {
		return err
	}
	l := q.d.layout()
	// RELAY_LINEAR_H reads at most what the scratch buffer and a fetch entry hold, less a header.
	most := (min(memmap.ScratchSize, memmap.MaxCommandSize) - l.PCIeAlign()) &^ (memmap.PageSize - 1)
	err = b.pieces(off, n, most, func(piece Interleaved, bank, pages, size int) error {
		cmds := q.builderLocked()
		now := edges{h.delivered.Load(), q.stream.waits}
		if now.delivered != 0 && now != h.settled[q.id] {
			q.appendSettleLocked(&cmds)
		} else if first {
			q.appendWaitLocked(&cmds)
		}
		page := piece.PageSize
		if pages == 1 {
			page = uint32(size)
		}
		cmds.WritePagedHeader(cq.WritePaged{DRAM: b.DRAM, StartPage: uint16(bank), Base: piece.Addr, PageSize: page, Pages: uint32(pages)})
		head := cmds.Len()
		cmds.RelayLinearH(cq.RelayLinearH{NOC: q.d.pcieXY(), Addr: from, Length: uint32(size)})
		out, err := cmds.Finish()
		if err != nil {
			return q.errorf("write: %w", err)
		}
		q.stream.buf = out
		q.stream.ends = append(q.stream.ends[:0], head, len(out))
		if err := q.sendTogetherLocked(ctx, out, q.stream.ends); err != nil {
			return err
		}
		h.settled[q.id] = now
		from += uint64(size)
		first = false
		return nil
	})
	q.history.last.Store(&opWrite)
	return err
}

func (q *Queue) hostAddrLocked(op string, h *HostBuffer, at, n int) (uint64, error) {
	if err := q.usable(op); err != nil {
		return 0, err
	}
	addr, err := h.addr(q.d, at, n)
	if err != nil {
		return 0, q.errorf("%s: %w", op, err)
	}
	return addr, nil
}

// pieces cuts a range into pieces of at most most bytes, whole pages or parts of one: a buffer with
// its first row at Addr, the bank of its first page, pages and bytes.
func (b *Interleaved) pieces(off, n, most int, f func(piece Interleaved, bank, pages, size int) error) error {
	page := int(b.HostPage)
	for n > 0 {
		bank, addr := b.at(off / page)
		piece, pages, size := *b, 1, 0
		if inside := off % page; inside != 0 || n < page || page > most {
			size = min(page-inside, n, most)
			addr += uint32(inside)
		} else {
			pages = min(n, most) / page
			size = pages * page
		}
		piece.Addr = addr
		if err := f(piece, bank, pages, size); err != nil {
			return err
		}
		off, n = off+size, n-size
	}
	return nil
}
