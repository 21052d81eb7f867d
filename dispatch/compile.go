package dispatch

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/dispatch/cq"
)

// BinaryPageSize is the page size in bytes of the interleaved DRAM buffer that holds a program's kernels. Source:
// tt-metal device_command.hpp (program binaries are relayed in pages of 2^11 B).
const BinaryPageSize = 1 << binaryPageLog

const (
	binaryPageLog   = 11
	maxRelayLength  = scratchSize / 2 // of one sub-command of a packed relay
	maxCommandBytes = 64 << 10        // at which commands with many data are split, half of what a fetch entry may have
)

// Indices of the write offsets that a program's commands are relative to. Source: tt-metal program/dispatch.cpp.
const (
	offsetNone   = 0
	offsetConfig = 1 // the program's slot in the kernel-config ring
	offsetBinary = 2 // its kernels in that slot
)

// group is a set of cores that a program treats alike: the same kernels, circular buffers and semaphores.
type group struct {
	cores   []chip.Core
	rects   []chip.VirtualRect
	kernels [chip.NumProcessors]*Kernel
	cbs     []CircularBuffer
	sems    []Semaphore

	textOff [chip.NumProcessors]uint32 // from the start of the group's text
	text    []byte
	page    int // of the binary buffer, where the text starts
}

// slotLayout says where the parts of a program lie in its slot of the kernel-config ring, in bytes from its start.
// The order is tt-metal's: unique arguments, common arguments, semaphores, circular buffers.
type slotLayout struct {
	args, common         [chip.NumProcessors]uint32
	argBytes, commonSize [chip.NumProcessors]uint32
	sems, cbs            uint32
	size                 uint32 // of all that, the program's slot
	text                 uint32 // of the kernels, which lie elsewhere
}

// Compile checks a program and turns it into commands.
func (d *Device) Compile(p *Program) (*Image, error) {
	l1 := &d.pr.L1
	if err := p.validate(d.grid, l1.Unreserved, l1.Size); err != nil {
		return nil, err
	}
	groups := d.groups(p)
	lay := layoutSlot(p, groups)
	if n := alignSlot(lay.size) + alignSlot(lay.text); n > l1.KernelConfigSize {
		return nil, p.fail("program", "its kernels, arguments and circular buffers need %d B of each core's kernel-config memory, which has %d B: make the kernels smaller", n, l1.KernelConfigSize)
	}
	if lay.cbs > 0xFFFF {
		return nil, p.fail("program", "its arguments need %d B, more than the 64 KiB that a launch message can address", lay.cbs)
	}
	im, err := d.emit(p, &lay, groups, nil)
	if err != nil {
		return nil, err
	}
	if len(im.main.bytes) < residentSaving {
		return im, nil
	}
	resident, err := d.emit(p, &lay, groups, im)
	if err != nil {
		return nil, err
	}
	// A run's length tells its form.
	if all := len(im.main.bytes); len(resident.main.bytes)+residentSaving <= all && len(resident.main.bytes)+len(resident.text.bytes) != all {
		im.resident, im.binary = resident, resident.binary
	}
	return im, nil
}

// emit makes the commands of a program: with all arguments and all configuration in them or, when there are such commands
// already, with these beside the kernels that they have.
func (d *Device) emit(p *Program, lay *slotLayout, groups []*group, inline *Image) (*Image, error) {
	l1 := &d.pr.L1
	im := &Image{
		name: p.Name, slotSize: lay.size, textSize: lay.text, bounds: bounds(groups),
		layout: d.layout(), configBase: l1.KernelConfig, launchBase: l1.Launch, launchSize: l1.LaunchSize,
		stream: uint16(d.pr.Stream.FirstDispatch), cores: countCores(groups),
	}
	c := compiler{d: d, p: p, lay: lay, groups: groups, im: im}
	if inline != nil {
		c.resident, im.id, im.text, im.binary = true, inline.id, inline.text, slices.Clone(inline.binary)
	} else {
		im.id = textID(d.texts.Add(1))
		c.texts()
		for i := range p.Kernels {
			im.args = append(im.args, kernelArgs{name: p.Kernels[i].Name, n: len(p.Kernels[i].Common)})
		}
		if err := c.part(&im.text, c.binaries); err != nil {
			return nil, fmt.Errorf("dispatch: program %q: its kernels: %w", p.Name, err)
		}
	}
	err := c.part(&im.main, func() {
		for proc := range chip.NumProcessors {
			c.args(chip.Processor(proc))
		}
		c.config()
		c.launch()
		c.goSignal()
	})
	if err != nil {
		return nil, fmt.Errorf("dispatch: program %q: %w", p.Name, err)
	}
	if c.unfit {
		return inline, nil
	}
	return im, nil
}

func countCores(groups []*group) int {
	n := 0
	for _, g := range groups {
		n += len(g.cores)
	}
	return n
}

// bounds is the smallest rectangle with all cores of the groups.
func bounds(groups []*group) chip.Range {
	out := chip.Range{Start: groups[0].cores[0], End: groups[0].cores[0]}
	for _, g := range groups {
		for _, c := range g.cores {
			out.Start.X, out.Start.Y = min(out.Start.X, c.X), min(out.Start.Y, c.Y)
			out.End.X, out.End.Y = max(out.End.X, c.X), max(out.End.Y, c.Y)
		}
	}
	return out
}

// groups sorts the cores of a program by what they have.
func (d *Device) groups(p *Program) []*group {
	var out []*group
	byKey := map[string]*group{}
	for c := range d.grid.Cores() {
		var g group
		key := make([]byte, 0, 64)
		used := false
		for i := range p.Kernels {
			if k := &p.Kernels[i]; rangesContain(k.Cores, c) {
				g.kernels[k.Processor] = k
				key = append(key, 'k', byte(i), byte(i>>8))
				used = true
			}
		}
		for i, b := range p.CircularBuffers {
			if rangesContain(b.Cores, c) {
				g.cbs = append(g.cbs, b)
				key = append(key, 'c', byte(i), byte(i>>8))
				used = true
			}
		}
		for i, s := range p.Semaphores {
			if rangesContain(s.Cores, c) {
				g.sems = append(g.sems, s)
				key = append(key, 's', byte(i), byte(i>>8))
				used = true
			}
		}
		if !used {
			continue
		}
		same, ok := byKey[string(key)]
		if !ok {
			same = &g
			byKey[string(key)] = same
			out = append(out, same)
		}
		same.cores = append(same.cores, c)
	}
	for _, g := range out {
		for _, r := range coverCores(g.cores) {
			g.rects = append(g.rects, d.ch.Rects(r)...)
		}
	}
	return out
}

// coverCores covers a set of cores with rectangles that hold nothing else: from each core not yet covered, as far to
// the right as the set goes, then as far down as whole rows of that width go.
func coverCores(cores []chip.Core) []chip.Range {
	left := map[chip.Core]bool{}
	for _, c := range cores {
		left[c] = true
	}
	sorted := slices.SortedFunc(slices.Values(cores), chip.Core.Compare)
	var out []chip.Range
	for _, c := range sorted {
		if !left[c] {
			continue
		}
		r := chip.Single(c)
		for left[chip.Core{X: r.End.X + 1, Y: c.Y}] {
			r.End.X++
		}
		for row := r.End.Y + 1; ; row++ {
			whole := true
			for x := r.Start.X; x <= r.End.X; x++ {
				whole = whole && left[chip.Core{X: x, Y: row}]
			}
			if !whole {
				break
			}
			r.End.Y = row
		}
		for covered := range r.Cores() {
			delete(left, covered)
		}
		out = append(out, r)
	}
	return out
}

func layoutSlot(p *Program, groups []*group) slotLayout {
	var s slotLayout
	maxCB, maxSem := -1, -1
	for i := range p.Kernels {
		k := &p.Kernels[i]
		for _, a := range k.Args {
			s.argBytes[k.Processor] = max(s.argBytes[k.Processor], uint32(4*len(a.Args)))
		}
		s.commonSize[k.Processor] = max(s.commonSize[k.Processor], uint32(4*len(k.Common)))
	}
	for _, b := range p.CircularBuffers {
		maxCB = max(maxCB, b.Index)
	}
	for _, m := range p.Semaphores {
		maxSem = max(maxSem, m.ID)
	}
	off := uint32(0)
	for i := range s.args {
		s.args[i] = off
		off += align16(s.argBytes[i])
	}
	for i := range s.common {
		s.common[i] = off
		off += align16(s.commonSize[i])
	}
	s.sems = off
	off += uint32(maxSem+1) * 16
	s.cbs = off
	s.size = off + uint32(maxCB+1)*16
	for _, g := range groups {
		for proc, k := range g.kernels {
			if k == nil {
				continue
			}
			g.textOff[proc] = uint32(len(g.text))
			g.text = append(g.text, k.Text...)
			for len(g.text)%slotAlign != 0 {
				g.text = append(g.text, 0)
			}
		}
		s.text = max(s.text, uint32(len(g.text)))
	}
	return s
}

func align16(n uint32) uint32 { return (n + 15) &^ 15 }

// compiler emits the commands of one program in the order of dispatch: write offsets and kernels, if they have to be sent;
// write offsets, unique arguments, configuration, launch message, go signal.
type compiler struct {
	d      *Device
	p      *Program
	lay    *slotLayout
	groups []*group
	im     *Image
	to     *commands // that are emitted now
	b      cq.Builder
	err    error

	resident bool // arguments and configuration go beside the kernels
	unfit    bool // they can't
}

// part emits commands that begin with the write offsets and a wait, which a run makes one for the memory that they write or
// leaves without effect.
func (c *compiler) part(to *commands, emit func()) error {
	c.to, c.b = to, cq.NewBuilder(c.d.layout(), nil)
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

// args writes the unique runtime arguments of one processor, core by core.
func (c *compiler) args(proc chip.Processor) {
	size := c.lay.argBytes[proc]
	if size == 0 {
		return
	}
	type argsOf struct {
		CoreArgs
		kernel int
	}
	var list []argsOf
	for i := range c.p.Kernels {
		if k := &c.p.Kernels[i]; k.Processor == proc {
			for _, a := range k.Args {
				if len(a.Args) > 0 {
					list = append(list, argsOf{a, i})
				}
			}
		}
	}
	slices.SortFunc(list, func(a, b argsOf) int {
		return cmp.Or(cmp.Compare(a.Core.Y, b.Core.Y), cmp.Compare(a.Core.X, b.Core.X))
	})
	slot := int(align16(size))
	per := max(1, min(maxCommandBytes/(slot+4), 1000))
	for chunk := range slices.Chunk(list, per) {
		w := cq.WritePacked{Type: cq.PackedRuntimeArgs, OffsetIndex: offsetConfig, Size: uint16(size), Addr: c.lay.args[proc]}
		for _, a := range chunk {
			w.Cores = append(w.Cores, c.coreXY(a.Core))
			start := len(w.Data)
			for _, v := range a.Args {
				w.Data = binary.LittleEndian.AppendUint32(w.Data, v)
			}
			w.Data = append(w.Data, make([]byte, start+slot-len(w.Data))...)
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
		p := c.b.WritePacked(w)
		for i, a := range chunk {
			k := &c.im.args[a.kernel]
			k.unique = append(k.unique, coreArgs{core: a.Core, at: int32(p.Slot(i)), n: int32(len(a.Args))})
		}
	}
}

// config writes what all cores of a group share: common arguments, semaphores and circular buffers.
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
			c.commonAt(g, at+k*int(n))
		}
	}
}

// fillPage fills the last page of what goes to DRAM.
func (c *compiler) fillPage() {
	for len(c.im.binary)%BinaryPageSize != 0 {
		c.im.binary = append(c.im.binary, 0)
	}
}

// texts collects the kernels of all groups. The text of a group starts at a page of the binary buffer.
func (c *compiler) texts() {
	for _, g := range c.groups {
		g.page = len(c.im.binary) / BinaryPageSize
		c.im.binary = append(c.im.binary, g.text...)
		c.fillPage()
	}
}

// commonAt notes where the common arguments of a group's kernels lie, when its block lies at an offset.
func (c *compiler) commonAt(g *group, at int) {
	for i := range c.p.Kernels {
		k := &c.p.Kernels[i]
		if g.kernels[k.Processor] == k && len(k.Common) > 0 {
			args := &c.im.args[i]
			args.common = append(args.common, int32(at)+int32(c.lay.common[k.Processor]-c.lay.common[0]))
		}
	}
}

// groupConfig returns n bytes from the start of the common arguments.
func (c *compiler) groupConfig(g *group, n uint32) []byte {
	le := binary.LittleEndian
	b := make([]byte, n)
	base := c.lay.common[0]
	for proc, k := range g.kernels {
		if k != nil {
			for i, v := range k.Common {
				le.PutUint32(b[c.lay.common[proc]-base+uint32(4*i):], v)
			}
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

// binaries relays the kernels of each group from DRAM to its cores.
func (c *compiler) binaries() {
	align := uint32(c.b.Layout().DRAMAlign())
	var subs []cq.LargeSub
	var pages []int
	for _, g := range c.groups {
		for _, r := range g.rects {
			for off := 0; off < len(g.text); off += maxRelayLength {
				n := min(len(g.text)-off, maxRelayLength)
				subs = append(subs, cq.LargeSub{NOC: c.rect(r), Addr: uint32(off), Length: uint32(n), Dests: uint8(r.Cores), Unlink: off+n == len(g.text)})
				pages = append(pages, g.page+off/BinaryPageSize)
			}
		}
	}
	for i := 0; i < len(subs); i += cq.MaxLargeSubs {
		j := min(i+cq.MaxLargeSubs, len(subs))
		// Rectangles are re-read only behind an unlink, so a command ends with one; the next command starts afresh.
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

// launch writes the launch message of each group. Its address and the place of the program's slot change with every
// run.
func (c *compiler) launch() {
	size := c.d.pr.L1.LaunchSize
	per := min(maxCommandBytes/int(size+8), 400)
	var rects []cq.Rect
	var data []byte
	var of []*group // of each rectangle
	flush := func() {
		if len(rects) == 0 {
			return
		}
		w := c.b.WritePacked(cq.WritePacked{
			Type: cq.PackedLaunch, OffsetIndex: offsetNone, Size: uint16(size), Addr: c.d.pr.L1.Launch, Rects: rects, Data: data,
		})
		c.to.launchAddr = append(c.to.launchAddr, int32(w.At+cq.AtPackedAddr))
		for i, g := range of {
			at := w.Slot(i)
			c.to.slots = append(c.to.slots, int32(at))
			for proc, k := range g.kernels {
				if k != nil {
					c.to.entries = append(c.to.entries, entryPatch{at: int32(at + atKernelText + 4*proc), off: g.textOff[proc]})
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

// atKernelText is where a launch message says where the kernel of processor 0 begins, counted from the program's slot.
// Source: tt-metal dev_msgs.h.
const atKernelText = 44

// launchMessage lays out what a core needs to know to start its kernels. Source: tt-metal dev_msgs.h, the offsets of
// the pinned revision.
func (c *compiler) launchMessage(g *group) []byte {
	le := binary.LittleEndian
	b := make([]byte, c.d.pr.L1.LaunchSize)
	le.PutUint16(b[12:], uint16(c.lay.sems))
	le.PutUint16(b[18:], uint16(c.lay.cbs))
	var mask, enables uint32
	for _, cb := range g.cbs {
		mask |= 1 << cb.Index
	}
	for proc, k := range g.kernels {
		le.PutUint16(b[22+4*proc:], uint16(c.lay.args[proc]))
		le.PutUint16(b[24+4*proc:], uint16(c.lay.common[proc]))
		if k == nil {
			continue
		}
		enables |= 1 << proc
		if proc == int(chip.BRISC) {
			b[68] = uint8(k.NOC)
		}
		if proc == int(chip.NCRISC) && g.kernels[chip.BRISC] == nil {
			b[68] = uint8(k.NOC.Other())
		}
	}
	le.PutUint32(b[64:], mask)
	b[70] = MaxCircularBuffers // no remote circular buffers
	le.PutUint32(b[76:], enables)
	b[92], b[94] = 0, 0
	b[95] = 0x80 // preload: the core may prepare before its go signal
	return b
}

// goSignal tells the subordinate dispatcher to start the workers once all writes have landed.
func (c *compiler) goSignal() {
	c.b.NotifySubordinate(cq.NotifySubordinate{Wait: true, Mask: 1})
	at := c.b.SendGoSignal(cq.Subordinate, cq.SendGoSignal{WaitStream: uint32(c.d.pr.Stream.FirstDispatch)})
	c.to.goCount = at + cq.AtGoWaitCount
	c.to.goWord = at + cq.AtGoWord
}

func (c *compiler) coreXY(core chip.Core) uint32 {
	xy, err := c.d.ch.Virtual(core)
	c.err = errors.Join(c.err, err)
	return c.d.ch.Arch().NOCXY(xy)
}

func (c *compiler) rect(r chip.VirtualRect) uint32 { return c.d.ch.Arch().NOCMulticast(r.Start, r.End) }
