package dispatch

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/dispatch/firmware/relay"
	"github.com/reprise-tt/reprise/dispatch/memmap"
	"github.com/reprise-tt/reprise/kmd"
)

// ErrRemoteChip is returned for what needs the PCI interface that a remote chip lacks.
var ErrRemoteChip = errors.New("the chip has no PCI interface of its own")

// ErrLink: the Ethernet tiles of a link can't carry a chip's command queues.
var ErrLink = errors.New("the link can't carry command queues")

// uplink is the Ethernet link of a chip without a PCI interface, and the programs on its ends.
type uplink struct {
	*kmd.Uplink
	d       *machine
	far     relay.Far // its program's arguments
	lock    *kmd.Lock
	running bool
}

func (d *machine) hostSide() *kmd.Device {
	if d.up != nil {
		return d.up.Near
	}
	return d.kd
}

type outside struct {
	xy, hi                     uint32
	issue, issueSize           uint32
	completion, completionSize uint32
	completionWr               uint32 // word
}

// The mirror is the L1 of the first core of the last row that no queue uses. Each queue has room
// for several of the largest batches of commands, and for two blocks of the dispatch ring: a
// dispatcher reports at most one at once.
const (
	mirrorWords          = 0x1F000
	mirrorBase           = 0x20000
	mirrorIssueSize      = 384 << 10
	mirrorCompletionSize = 256 << 10
)

func mirrorOf(id int, xy uint32) outside {
	base := mirrorBase + uint32(id)*(mirrorIssueSize+mirrorCompletionSize)
	return outside{
		xy: xy, issue: base, issueSize: mirrorIssueSize, completion: base + mirrorIssueSize, completionSize: mirrorCompletionSize,
		completionWr: mirrorWords + uint32(id)*32,
	}
}

func (d *machine) mirror() chip.Core {
	_, h := d.ch.Grid()
	return chip.Core{X: 2 * memmap.MaxQueues, Y: h - 1}
}

func (d *machine) outside(id int, host memmap.Host, noc uint64) (outside, error) {
	low := uint32(noc)
	if d.up == nil {
		return outside{
			xy: d.ch.PCIe(chip.NOC0).Packed(), hi: uint32(noc >> 32), issue: low + host.Issue, issueSize: host.IssueSize,
			completion: low + host.Completion, completionSize: host.CompletionSize, completionWr: low + host.CompletionWr,
		}, nil
	}
	xy, err := d.ch.Virtual(d.mirror())
	return mirrorOf(id, xy.Packed()), err
}

type doorbells struct {
	pre, disp                 chip.XY
	fetch, fetchRd, completRd uint32
}

func (d *machine) doorbells(id int, pre, disp chip.XY) doorbells {
	if d.up == nil {
		return doorbells{pre, disp, d.ctl.FetchQueue, d.ctl.FetchRead, d.ctl.CompletionRead}
	}
	return doorbells{d.up.Link.Near, d.up.Link.Near, relay.Fetch(id), relay.FetchRead(id), relay.CompletionRead(id)}
}

const linkTimeout = 2 * time.Second

// startLink comes before the queues' kernels.
func (d *machine) startLink() error {
	u := d.up
	if u == nil {
		return nil
	}
	if d.ch.Arch() != chip.Wormhole {
		return fmt.Errorf("dispatch: start: %w: only Wormhole has chips that are reached over Ethernet", ErrLink)
	}
	if err := u.start(); err != nil {
		return fmt.Errorf("dispatch: start: link %s: %w", u.Link.Name, err)
	}
	return nil
}

func (u *uplink) start() error {
	d := u.d
	if u.lock == nil {
		l, err := u.Near.TryLock(kmd.LockETH0 + kmd.LockIndex(u.Link.NearChannel))
		if err != nil {
			return err
		}
		if l == nil {
			return fmt.Errorf("%w: another process uses it: end that first", ErrLink)
		}
		u.lock = l
	}
	if err := u.stop(); err != nil {
		return err
	}
	near, far := relay.Near{Self: u.Link.Near, PCIe: d.ch.PCIe(chip.NOC0), Entries: memmap.FetchEntries}, relay.Far{Self: u.Link.Far}
	noc := d.sysmem.NOCAddr()
	near.High = uint32(noc >> 32)
	var err error
	if far.Mirror, err = d.ch.Virtual(d.mirror()); err != nil {
		return err
	}
	nearData, farData, published := make([]byte, relay.DataSize), make([]byte, relay.DataSize), make([]byte, 32*memmap.MaxQueues)
	put := func(b []byte, addr, v uint32) { binary.LittleEndian.PutUint32(b[addr-relay.Data:], v) }
	for id := range d.opts.Queues {
		host := d.host[id]
		low := uint32(noc) + host.Base
		near.Queues = append(near.Queues, relay.NearQueue{
			Issue: low + host.Issue, IssueSize: host.IssueSize, Completion: low + host.Completion, CompletionSize: host.CompletionSize,
			CompletionWrite: low + host.CompletionWr,
		})
		put(nearData, relay.FetchRead(id), relay.Fetch(id)+memmap.FetchEntries*memmap.FetchEntryBytes)
		put(nearData, relay.CompletionRead(id), (low+host.Completion)/16)
		m := mirrorOf(id, 0)
		put(farData, relay.CompletionWrite(id), m.completion/16)
		put(farData, relay.Fetched(id), d.ctl.FetchQueue+d.ctl.FetchQueueSize)
		binary.LittleEndian.PutUint32(published[32*id:], m.completion/16)
		q := relay.FarQueue{
			Issue: m.issue, IssueSize: m.issueSize, Completion: m.completion, CompletionSize: m.completionSize, Published: m.completionWr,
			Fetch: d.ctl.FetchQueue, FetchSize: d.ctl.FetchQueueSize, Fetched: d.ctl.FetchRead, CompletionRead: d.ctl.CompletionRead,
		}
		pre, disp := d.queueCores(id)
		var err2 error
		q.Prefetch, err = d.ch.Virtual(pre)
		if q.Dispatch, err2 = d.ch.Virtual(disp); err != nil || err2 != nil {
			return errors.Join(err, err2)
		}
		far.Queues = append(far.Queues, q)
	}
	if err := d.write(d.mirror(), mirrorWords, published); err != nil {
		return err
	}
	forward := hostKernel{proc: chip.BRISC, image: relay.Forward(), args: far.ForwardMirror()}
	if err := d.startHostKernels(d.mirror(), []hostKernel{forward}, nil); err != nil {
		return err
	}
	u.far = far
	// No end may send before both are ready for it.
	u.running = true
	for _, e := range u.ends() {
		args, data := far.Bytes(), farData
		if e.near {
			args, data = near.Bytes(), nearData
		}
		for _, w := range []struct {
			addr uint64
			data []byte
		}{{relay.Code, relay.Image()}, {relay.Data, data}, {relay.Sent, make([]byte, relay.SentSize/relay.MaxQueues*d.opts.Queues)},
			{relay.Args, args}, {relay.Stop, make([]byte, 32)}} {
			if err := e.kd.Write(e.xy, w.addr, w.data); err != nil {
				return err
			}
		}
	}
	for _, e := range u.ends() {
		if err := e.kd.Write32(e.xy, relay.Launch, 1); err != nil {
			return err
		}
		if err := u.await(&e, relay.Running); err != nil {
			return err
		}
	}
	return nil
}

type end struct {
	near bool
	kd   *kmd.Device
	xy   chip.XY
}

func (u *uplink) ends() []end { return []end{{false, u.d.kd, u.Link.Far}, {true, u.Near, u.Link.Near}} }

func (u *uplink) await(e *end, want uint32) error {
	w := newWaiter(linkTimeout, Pace{}, &u.d.naps)
	for {
		v, err := e.kd.Read32(e.xy, relay.State)
		if err != nil || v == want {
			return err
		}
		if w.pause(context.Background()) != nil {
			return fmt.Errorf("%w: the program on Ethernet tile %v of the %s chip says %#x, expected %#x: reset the board", ErrLink, e.xy,
				map[bool]string{true: "near", false: "far"}[e.near], v, want)
		}
	}
}

// stop ends the near end first, so that nothing writes to host memory.
func (u *uplink) stop() error {
	var errs []error
	ends := u.ends()
	for i := len(ends) - 1; i >= 0; i-- {
		e := &ends[i]
		errs = append(errs, func() error {
			v, err := e.kd.Read32(e.xy, relay.Launch)
			if err != nil || v != 1 {
				return err
			}
			if err := e.kd.Write32(e.xy, relay.Stop, 1); err != nil {
				return err
			}
			return u.await(e, relay.Ended)
		}())
	}
	u.running = false
	return errors.Join(errs...)
}

func (u *uplink) close() error {
	if u == nil {
		return nil
	}
	var err error
	if u.running {
		err = unlessGone(u.stop())
	}
	if u.lock != nil {
		err = errors.Join(err, unlessGone(u.lock.Unlock()))
		u.lock = nil
	}
	if err != nil {
		return fmt.Errorf("dispatch: close: link %s: %w", u.Link.Name, err)
	}
	return nil
}

// unlessGone drops the error of a near chip that is lost or closed.
func unlessGone(err error) error {
	if errors.Is(err, kmd.ErrDeviceLost) || errors.Is(err, kmd.ErrClosed) {
		return nil
	}
	return err
}
