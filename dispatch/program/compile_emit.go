package program

import (
	"encoding/binary"
	"errors"
	"slices"

	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/dispatch/cq"
)

// compiler emits the commands of a program: write offsets and kernels, if they have to be sent;
// write offsets, unique arguments, configuration, launch message, go signal.
type compiler struct {
	t      *Target
	p      *Program
	lay    *slotLayout
	groups []*group
	im     *Image
	to     *commands
	b      cq.Builder
	err    error

	resident bool
	unfit    bool // they can't
}

// part emits commands after write offsets and a wait, which a run patches or disables.
func (c *compiler) part(to *commands, emit func()) error {
	c.to, c.b = to, cq.NewBuilder(c.t.layout(), nil)
	at := c.b.SetWriteOffset(cq.SetWriteOffset{Count: 3})
	to.hostID = at + cq.AtHostID
	to.slots = append(to.slots, int32(at+cq.AtWriteOffset(offsetConfig)))
	to.texts = append(to.texts, int32(at+cq.AtWriteOffset(offsetBinary)))
	to.wait = c.b.Wait(cq.Master, cq.Wait{})
	emit()
	cmds, err := c.b.Finish()
	if err := errors.Join(c.err, err); err != nil {
		return err
	}
	to.bytes = cmds
	return c.pack()
}

// maxMergedArgs is the most bytes of several processors' arguments in one write.
const maxMergedArgs = 1 << 10

type argsOf struct {
	CoreArgs
	kernel int
}

type processorArgs struct {
	proc int
	list []argsOf
}

func (c *compiler) argsOn(proc int) processorArgs {
	var list []argsOf
	for i := range c.p.Kernels {
		if k := &c.p.Kernels[i]; int(k.Processor) == proc {
			for _, a := range k.Args {
				if len(a.Args) > 0 {
					list = append(list, argsOf{a, i})
				}
			}
		}
	}
	slices.SortFunc(list, func(a, b argsOf) int { return a.Core.Compare(b.Core) })
	return processorArgs{proc, list}
}

// uniqueArgs gives a core the arguments of adjacent processors on the same cores in one write.
func (c *compiler) uniqueArgs() {
	var together []processorArgs
	for proc := range chip.NumProcessors {
		next := c.argsOn(proc)
		if len(next.list) == 0 {
			continue // it takes no room
		}
		if len(together) > 0 {
			same := slices.EqualFunc(next.list, together[0].list, func(a, b argsOf) bool { return a.Core == b.Core })
			if !same || c.lay.args[proc]+c.lay.argBytes[proc]-c.lay.args[together[0].proc] > maxMergedArgs {
				c.args(together)
				together = nil
			}
		}
		together = append(together, next)
	}
	if len(together) > 0 {
		c.args(together)
	}
}

func (c *compiler) args(of []processorArgs) {
	from, last, cores := c.lay.args[of[0].proc], of[len(of)-1].proc, of[0].list
	size := c.lay.args[last] + c.lay.argBytes[last] - from
	slot := int(align16(size))
	per := max(1, min(maxCommandBytes/(slot+4), int(c.t.PackedCores)))
	for begin := 0; begin < len(cores); begin += per {
		end := min(begin+per, len(cores))
		w := cq.WritePacked{Type: cq.PackedRuntimeArgs, OffsetIndex: offsetConfig, Size: uint16(size), Addr: from}
		for i := begin; i < end; i++ {
			w.Cores = append(w.Cores, c.coreXY(cores[i].Core))
			data := make([]byte, slot)
			for _, p := range of {
				c.lay.Put(data[c.lay.args[p.proc]-from:], p.list[i].Args)
			}
			w.Data = append(w.Data, data...)
		}
		if c.resident {
			data := w.Data
			w.Data = nil
			head := cq.SlotStride(cq.AtPackedCore(len(w.Cores)))
			c.unfit = c.unfit || !c.endsInPage(head, len(data))
			c.b.WritePackedHeader(w)
			c.relay(data)
			continue
		}
		packed := c.b.WritePacked(w)
		for _, p := range of {
			for i, a := range p.list[begin:end] {
				args := &c.im.args[a.kernel]
				at := packed.Slot(i) + int(c.lay.args[p.proc]-from+uint32(c.lay.ArgFormat))
				args.unique = append(args.unique, coreArgs{core: a.Core, noc: w.Cores[i], at: int32(at), n: int32(len(a.Args))})
				args.uniqueAddr = uint16(c.lay.args[p.proc] + uint32(c.lay.ArgFormat))
			}
		}
	}
}

func (c *compiler) config() {
	off := c.lay.common[0]
	n := c.lay.cbs - off
	for _, b := range c.p.CircularBuffers {
		n = max(n, c.lay.cbs-off+uint32(b.Index+1)*16)
	}
	if n == 0 {
		return
	}
	if c.resident {
		var blocks []block
		for _, g := range c.groups {
			data := c.groupConfig(g, n)
			for _, r := range g.rects {
				blocks = append(blocks, block{r, off, data})
			}
		}
		c.blocks(blocks)
		return
	}
	var subs []cq.LargeSub
	var of []*group // of each sub-command
	var data []byte
	for _, g := range c.groups {
		block := c.groupConfig(g, n)
		for _, r := range g.rects {
			of = append(of, g)
			subs = append(subs, cq.LargeSub{NOC: c.rect(r), Addr: off, Length: n, Dests: uint8(r.Cores), Unlink: true})
			data = append(data, block...)
		}
	}
	per := max(1, min(maxCommandBytes/int(n+12), cq.MaxLargeSubs))
	for i := 0; i < len(subs); i += per {
		j := min(i+per, len(subs))
		_, at := c.b.WritePackedLarge(cq.WritePackedLarge{
			Type: cq.LargeConfig, Alignment: 16, OffsetIndex: offsetConfig, Subs: subs[i:j], Data: data[uint32(i)*n : uint32(j)*n],
		})
		for k, g := range of[i:j] {
			c.commonAt(g, subs[i+k], at+k*int(n))
		}
	}
}

func (c *compiler) fillPage() {
	for len(c.im.binary)%BinaryPageSize != 0 {
		c.im.binary = append(c.im.binary, 0)
	}
}

func (c *compiler) commonAt(g *group, sub cq.LargeSub, at int) {
	for i := range c.p.Kernels {
		k := &c.p.Kernels[i]
		if g.kernels[k.Processor] == k && len(k.Common) > 0 {
			args := &c.im.args[i]
			addr := c.lay.common[k.Processor] + uint32(c.lay.ArgFormat)
			args.common = append(args.common, int32(at)+int32(addr-c.lay.common[0]))
			args.commonAddr, args.rects = uint16(addr), append(args.rects, cq.Rect{NOC: sub.NOC, Dests: uint32(sub.Dests)})
		}
	}
}

func (c *compiler) groupConfig(g *group, n uint32) []byte {
	le := binary.LittleEndian
	b := make([]byte, n)
	base := c.lay.common[0]
	for proc, k := range g.kernels {
		if k != nil {
			c.lay.Put(b[c.lay.common[proc]-base:], k.Common)
		}
	}
	for _, s := range g.sems {
		le.PutUint32(b[c.lay.sems-base+uint32(16*s.ID):], s.Initial)
	}
	for _, cb := range g.cbs {
		at := b[c.lay.cbs-base+uint32(16*cb.Index):]
		le.PutUint32(at[0:], cb.Addr)
		le.PutUint32(at[4:], cb.PageSize*cb.Pages)
		le.PutUint32(at[8:], cb.Pages)
		le.PutUint32(at[12:], cb.PageSize)
	}
	return b
}

// The prefetcher reads more bytes of kernels from DRAM.
const maxInlineText = 4 << 10

// inlineText sends small kernels with the commands: a relay takes the prefetcher ten times as many
// instructions.
func (c *compiler) inlineText() bool {
	var subs []cq.LargeSub
	var data []byte
	for _, g := range c.groups {
		if len(g.text) == 0 {
			continue
		}
		for _, r := range g.rects {
			subs = append(subs, cq.LargeSub{NOC: c.rect(r), Length: uint32(len(g.text)), Dests: uint8(r.Cores), Unlink: true})
			data = append(data, g.text...)
		}
		if len(data) > maxInlineText || len(subs) > cq.MaxLargeSubs {
			return false
		}
	}
	if c.t.PackedPage() == 0 || len(subs) == 0 {
		return false
	}
	c.b.WritePackedLarge(cq.WritePackedLarge{Type: cq.LargeBinaries, Alignment: cq.L1Align, OffsetIndex: offsetBinary, Subs: subs,
		Data: data})
	return true
}

func (c *compiler) binaries() {
	if c.inlineText() {
		return
	}
	align := uint32(c.b.Layout().DRAMAlign())
	var subs []cq.LargeSub
	var pages []int
	for _, g := range c.groups {
		for _, r := range g.rects {
			for off := 0; off < len(g.text); off += maxRelayLength {
				n := min(len(g.text)-off, maxRelayLength)
				subs = append(subs, cq.LargeSub{NOC: c.rect(r), Addr: uint32(off), Length: uint32(n), Dests: uint8(r.Cores),
					Unlink: off+n == len(g.text)})
				pages = append(pages, g.page+off/BinaryPageSize)
			}
		}
	}
	for i := 0; i < len(subs); i += cq.MaxLargeSubs {
		j := min(i+cq.MaxLargeSubs, len(subs))
		// Rectangles are re-read only after an unlink, so each command ends with one.
		w := cq.WritePackedLarge{Type: cq.LargeBinaries, Alignment: uint16(align), OffsetIndex: offsetBinary, Subs: slices.Clone(subs[i:j])}
		w.Subs[len(w.Subs)-1].Unlink = true
		relay := cq.RelayPagedPacked{}
		for k := i; k < j; k++ {
			relay.Subs = append(relay.Subs, cq.PagedSub{LogPageSize: binaryPageLog, Length: (subs[k].Length + align - 1) &^ (align - 1)})
		}
		c.b.WritePackedLargeHeader(w)
		at := c.b.RelayPagedPacked(relay)
		for k := i; k < j; k++ {
			c.to.relays = append(c.to.relays, relayPatch{at: at + cq.AtPagedSub(k-i), page: pages[k]})
		}
	}
}

// Every run patches the message's address and the program's slot.
func (c *compiler) launch() {
	l := &c.t.Workers.Launch
	size := c.t.Workers.L1.LaunchSize
	per := min(maxCommandBytes/int(size+8), int(c.t.PackedCores)/2)
	var rects []cq.Rect
	var data []byte
	var of []*group // of each rectangle
	flush := func() {
		if len(rects) == 0 {
			return
		}
		w := c.b.WritePacked(cq.WritePacked{
			Type: cq.PackedLaunch, OffsetIndex: offsetNone, Size: uint16(size), Addr: c.t.Workers.L1.Launch, Rects: rects, Data: data,
		})
		c.to.launchAddr = append(c.to.launchAddr, int32(w.At+cq.AtPackedAddr))
		for i, g := range of {
			at := w.Slot(i)
			c.to.slots = append(c.to.slots, int32(at))
			for proc, k := range g.kernels {
				if k != nil {
					c.to.entries = append(c.to.entries, entryPatch{at: int32(at + int(l.Text) + 4*proc), off: g.textOff[proc]})
				}
			}
		}
		rects, data, of = nil, nil, nil
	}
	for _, g := range c.groups {
		msg := c.launchMessage(g)
		for _, r := range g.rects {
			rects = append(rects, cq.Rect{NOC: c.rect(r), Dests: uint32(r.Cores)})
			data, of = append(data, msg...), append(of, g)
			if len(rects) == per {
				flush()
			}
		}
	}
	flush()
}

func (c *compiler) launchMessage(g *group) []byte {
	le := binary.LittleEndian
	l := &c.t.Workers.Launch
	b := make([]byte, c.t.Workers.L1.LaunchSize)
	for _, f := range c.t.Workers.UnreadFields() {
		for i := range f.Size {
			b[f.Offset+i] = byte(f.None >> (8 * i))
		}
	}
	le.PutUint16(b[l.Semaphores:], uint16(c.lay.sems))
	le.PutUint16(b[l.Circular:], uint16(c.lay.cbs))
	var enables uint32
	for _, cb := range g.cbs {
		b[int(l.CBMask)+cb.Index/8] |= 1 << (cb.Index % 8)
	}
	for proc, k := range g.kernels {
		le.PutUint16(b[int(l.Args)+4*proc:], c.lay.Offset(c.lay.args[proc], c.lay.argBytes[proc]))
		le.PutUint16(b[int(l.Args)+4*proc+2:], c.lay.Offset(c.lay.common[proc], c.lay.commonSize[proc]))
		if k == nil {
			continue
		}
		enables |= 1 << proc
		if proc == int(chip.NCRISC) && c.t.Workers.Boot.IRAMSize > 0 {
			le.PutUint16(b[l.NCRISCSize:], uint16(len(k.Text)/16))
		}
		if proc == int(chip.BRISC) {
			b[l.NOC] = uint8(k.NOC)
		}
		if proc == int(chip.NCRISC) && g.kernels[chip.BRISC] == nil {
			b[l.NOC] = uint8(k.NOC.Other())
		}
	}
	b[l.FirstRemote] = uint8(l.CircularBuffers) // none
	le.PutUint32(b[l.Enables:], enables)
	if g.prints != nil {
		le.PutUint32(b[l.HostID:], g.prints.ID)
	}
	b[l.Preload] = 0x80
	return b
}

func (c *compiler) goSignal() {
	if at := c.b.NotifySubordinate(cq.NotifySubordinate{Wait: true, Mask: 1}); c.t.Stock { // otherwise a part of the go signal
		c.to.notify = at + cq.AtNotifyMask
	}
	at := c.b.SendGoSignal(cq.Subordinate, cq.SendGoSignal{WaitStream: uint32(c.t.Chip.Params().Stream.FirstDispatch)})
	c.to.goCount = at + cq.AtGoWaitCount
	c.to.goWord = at + cq.AtGoWord
}

func (c *compiler) coreXY(core chip.Core) uint32 {
	xy, err := c.t.Chip.Virtual(core)
	c.err = errors.Join(c.err, err)
	return c.t.Chip.Arch().NOCXY(xy)
}

func (c *compiler) rect(r chip.VirtualRect) uint32 {
	return c.t.Chip.Arch().NOCMulticast(r.Start, r.End)
}
