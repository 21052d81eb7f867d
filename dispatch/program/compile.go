package program

import (
	"encoding/binary"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/dispatch/abi"
	"github.com/reprise-tt/reprise/dispatch/cq"
	"github.com/reprise-tt/reprise/dispatch/memmap"
	"github.com/reprise-tt/reprise/kernels/print"
)

// BinaryPageSize is the page size in bytes of the interleaved DRAM buffer with a program's kernels.
// Source: tt-metal device_command.hpp (program binaries are relayed in pages of 2^11 B).
const BinaryPageSize = 1 << binaryPageLog

const (
	binaryPageLog   = 11
	maxRelayLength  = memmap.ScratchSize / 2
	maxCommandBytes = 64 << 10 // half of a fetch entry
)

// Write offsets of a program's commands. Source: tt-metal program/dispatch.cpp.
const (
	offsetNone   = 0
	offsetConfig = 1
	offsetBinary = 2 // kernels in that slot
)

type group struct {
	cores   []chip.Core
	rects   []chip.VirtualRect
	kernels [chip.NumProcessors]*Kernel
	cbs     []CircularBuffer
	sems    []Semaphore

	prints *print.Program // nil if no kernel prints

	textOff [chip.NumProcessors]uint32 // in text
	text    []byte
	page    int // of the binary buffer
}

// slotLayout is the offsets in bytes of a program's parts in its slot, in tt-metal's order.
type slotLayout struct {
	args, common         [chip.NumProcessors]uint32
	argBytes, commonSize [chip.NumProcessors]uint32
	ArgFormat
	sems, cbs uint32
	size      uint32 // of the slot
	text      uint32
}

// Target is a device's workers and its queues' command format, for which programs are compiled.
type Target struct {
	Chip        *chip.Chip
	Workers     *abi.Layout
	Grid        chip.Range // for programs
	Args        ArgFormat
	PackedCores uint32
	// Stock selects tt-metal's wire format.
	Stock bool

	texts  atomic.Uint64
	loaded *sync.Map // by textID, weak.Pointer[Loaded]; apart, for clean-ups must not keep the Target
}

// NewTarget returns a Target for the workers of a chip; the caller sets the other fields.
func NewTarget(ch *chip.Chip, workers *abi.Layout, grid chip.Range) *Target {
	return &Target{Chip: ch, Workers: workers, Grid: grid, loaded: new(sync.Map)}
}

func (t *Target) layout() cq.Layout { return cq.Layout(t.Chip.Arch()) }

// Compile checks a program and turns it into commands.
func (t *Target) Compile(p *Program) (*Image, error) {
	l1 := &t.Workers.L1
	if err := p.validate(t.Grid, t.Workers); err != nil {
		return nil, err
	}
	if t.Workers.Launch.ArgSlots < chip.NumProcessors {
		return nil, p.fail("program", "it can't run on base firmware of %v, whose processors share arguments: use one from ttnn 0.63.0 or newer",
			t.Workers.Revision)
	}
	groups := t.groups(p)
	t.findPrints(p, groups)
	lay := layoutSlot(p, groups, t.Args)
	if n := alignSlot(lay.size) + alignSlot(lay.text); n > l1.KernelConfigSize {
		return nil, p.fail("program", "its kernels, arguments and circular buffers need %d B of each core's kernel-config memory, which has %d B: make the kernels smaller", n, l1.KernelConfigSize)
	}
	if lay.cbs > 0xFFFF {
		return nil, p.fail("program", "its arguments need %d B, more than the 64 KiB that a launch message can address", lay.cbs)
	}
	im, err := t.emit(p, &lay, groups, nil)
	if err != nil {
		return nil, err
	}
	if len(im.main.bytes) < residentSaving {
		return im, nil
	}
	resident, err := t.emit(p, &lay, groups, im)
	if err != nil {
		return nil, err
	}
	if len(resident.main.bytes)+residentSaving <= len(im.main.bytes) {
		im.resident, im.binary = resident, resident.binary
	}
	return im, nil
}

// emit makes the commands with arguments and configuration inline or, if inline isn't nil, in DRAM
// beside the kernels.
func (t *Target) emit(p *Program, lay *slotLayout, groups []*group, inline *Image) (*Image, error) {
	l1 := &t.Workers.L1
	im := &Image{
		name: p.Name, slotSize: lay.size, textSize: lay.text, argCount: uint32(lay.ArgFormat),
		layout: t.layout(), configBase: l1.KernelConfig, launchBase: l1.Launch, launchSize: l1.LaunchSize,
		stream: uint16(t.Chip.Params().Stream.FirstDispatch),
	}
	for _, g := range groups {
		im.where = append(im.where, g.cores...)
	}
	im.bounds = bounds(im.where)
	c := compiler{t: t, p: p, lay: lay, groups: groups, im: im}
	if inline != nil {
		c.resident, im.id, im.text, im.binary = true, inline.id, inline.text, slices.Clone(inline.binary)
	} else {
		im.id = textID(t.texts.Add(1))
		for _, g := range groups {
			if g.prints != nil {
				im.prints = append(im.prints, *g.prints)
			}
			g.page = len(im.binary) / BinaryPageSize
			im.binary = append(im.binary, g.text...)
			c.fillPage()
		}
		t.noteKernels(im, groups)
		for i := range p.Kernels {
			im.args = append(im.args, kernelArgs{name: p.Kernels[i].Name, n: len(p.Kernels[i].Common)})
		}
		if err := c.part(&im.text, c.binaries); err != nil {
			return nil, fmt.Errorf("dispatch: program %q: its kernels: %w", p.Name, err)
		}
	}
	err := c.part(&im.main, func() {
		c.uniqueArgs()
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

func bounds(cores []chip.Core) chip.Range {
	out := cores[0].Range()
	for _, c := range cores {
		out.Start.X, out.Start.Y = min(out.Start.X, c.X), min(out.Start.Y, c.Y)
		out.End.X, out.End.Y = max(out.End.X, c.X), max(out.End.Y, c.Y)
	}
	return out
}

func (t *Target) groups(p *Program) []*group {
	var out []*group
	byKey := map[string]*group{}
	for c := range t.Grid.Cores() {
		var g group
		key := make([]byte, 0, 64)
		uses := func(kind byte, i int, cores []chip.Range) bool {
			if !c.In(cores) {
				return false
			}
			key = append(key, kind, byte(i), byte(i>>8))
			return true
		}
		for i := range p.Kernels {
			if k := &p.Kernels[i]; uses('k', i, k.Cores) {
				g.kernels[k.Processor] = k
			}
		}
		for i, b := range p.CircularBuffers {
			if uses('c', i, b.Cores) {
				g.cbs = append(g.cbs, b)
			}
		}
		for i, s := range p.Semaphores {
			if uses('s', i, s.Cores) {
				g.sems = append(g.sems, s)
			}
		}
		if len(key) == 0 {
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
		for _, r := range chip.Cover(g.cores) {
			g.rects = append(g.rects, t.Chip.Rects(r)...)
		}
	}
	return out
}

func layoutSlot(p *Program, groups []*group, args ArgFormat) slotLayout {
	s := slotLayout{ArgFormat: args}
	maxCB, maxSem := -1, -1
	for i := range p.Kernels {
		k := &p.Kernels[i]
		for _, a := range k.Args {
			s.argBytes[k.Processor] = max(s.argBytes[k.Processor], s.bytes(a.Args))
		}
		s.commonSize[k.Processor] = max(s.commonSize[k.Processor], s.bytes(k.Common))
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
			for len(g.text)%SlotAlign != 0 {
				g.text = append(g.text, 0)
			}
		}
		s.text = max(s.text, uint32(len(g.text)))
	}
	return s
}

func align16(n uint32) uint32 { return (n + 15) &^ 15 }

// ArgFormat is the bytes of the number of arguments before a block of them, 0 or 4.
type ArgFormat uint32

// Counted is for base firmware that wants the number.
const Counted ArgFormat = 4

func (f ArgFormat) bytes(args []uint32) uint32 {
	if len(args) == 0 {
		return 0
	}
	return uint32(f) + uint32(4*len(args))
}

// Put writes a block of arguments.
func (f ArgFormat) Put(b []byte, args []uint32) {
	if len(args) == 0 {
		return
	}
	if f > 0 {
		binary.LittleEndian.PutUint32(b, uint32(len(args)))
	}
	for i, v := range args {
		binary.LittleEndian.PutUint32(b[uint32(f)+uint32(4*i):], v)
	}
}

// Offset returns a launch message's offset for a block of arguments of some bytes.
func (f ArgFormat) Offset(off, size uint32) uint16 {
	if f > 0 && size == 0 {
		return noArgs
	}
	return uint16(off)
}

// noArgs is the offset of an empty block, for firmware that checks the number. Source: tt-metal
// rta_constants.h (RTA_CRTA_NO_ARGS_SENTINEL).
const noArgs = 0xFFFF

// PackedPage returns the bytes of a page that dispatcher commands may share (cq.Pack); 0 for none.
func (t *Target) PackedPage() int {
	if t.Stock {
		return 0
	}
	return memmap.PageSize
}

func (c *compiler) pack() error {
	if page := c.t.PackedPage(); page > 0 {
		packed, moved, err := cq.Pack(c.t.layout(), page, c.to.bytes)
		if err != nil {
			return err
		}
		c.to.bytes = packed
		if err := c.to.move(moved); err != nil {
			return err
		}
		if c.to == &c.im.main {
			for i := range c.im.args {
				if err := c.im.args[i].move(moved); err != nil {
					return err
				}
			}
		}
	}
	for e, err := range cq.All(c.t.layout(), c.to.bytes) {
		if err != nil {
			return err
		}
		if _, header := e.Command.(cq.RelayInlineNoFlush); !header {
			c.to.cuts = append(c.to.cuts, e.Offset+len(e.Raw))
		}
	}
	return nil
}

// mover keeps the first offset without a place as an error.
type mover struct {
	by  cq.Moved
	err error
}

func (m *mover) at(o int) int {
	now, ok := m.by.At(o)
	if !ok && m.err == nil {
		m.err = fmt.Errorf("what lay at %#x of its commands is in none of the packed ones", o)
	}
	return now
}

func (m *mover) all(os []int32) {
	for i := range os {
		os[i] = int32(m.at(int(os[i])))
	}
}

func (c *commands) move(by cq.Moved) error {
	m := mover{by: by}
	c.hostID, c.wait = m.at(c.hostID), m.at(c.wait)
	m.all(c.slots)
	m.all(c.texts)
	m.all(c.launchAddr)
	for i := range c.entries {
		c.entries[i].at = int32(m.at(int(c.entries[i].at)))
	}
	for i := range c.relays {
		c.relays[i].at = m.at(c.relays[i].at)
	}
	if c.goWord != 0 {
		c.goWord, c.goCount = m.at(c.goWord), m.at(c.goCount)
	}
	return m.err
}

func (k *kernelArgs) move(by cq.Moved) error {
	m := mover{by: by}
	for i := range k.unique {
		k.unique[i].at = int32(m.at(int(k.unique[i].at)))
	}
	m.all(k.common)
	return m.err
}

// For less, the prefetcher's round trip to DRAM isn't worth it.
const residentSaving = 8 << 10

type block struct {
	to   chip.VirtualRect
	off  uint32
	data []byte
}

func (c *compiler) blocks(blocks []block) {
	align := c.b.Layout().DRAMAlign()
	for chunk := range slices.Chunk(blocks, cq.MaxLargeSubs) {
		w := cq.WritePackedLarge{Type: cq.LargeConfig, Alignment: uint16(align), OffsetIndex: offsetConfig}
		var data []byte
		for _, b := range chunk {
			w.Subs = append(w.Subs, cq.LargeSub{NOC: c.rect(b.to), Addr: b.off, Length: uint32(len(b.data)),
				Dests: uint8(b.to.Cores), Unlink: true})
			data = append(data, b.data...)
			data = append(data, make([]byte, -len(data)&(align-1))...)
		}
		c.b.WritePackedLargeHeader(w)
		c.relay(data)
	}
}

// endsInPage reports whether a relay's padding up to the alignment of DRAM ends in the dispatcher's
// last page of data, of which the rest is skipped.
func (c *compiler) endsInPage(head, data int) bool {
	align := c.b.Layout().DRAMAlign()
	brought := (data + align - 1) &^ (align - 1)
	return (head+data+memmap.PageSize-1)/memmap.PageSize == (head+brought+memmap.PageSize-1)/memmap.PageSize
}

// relay puts the data of the last header beside the kernels and relays them from there.
func (c *compiler) relay(data []byte) {
	align := c.b.Layout().DRAMAlign()
	page, n := len(c.im.binary)/BinaryPageSize, (len(data)+align-1)&^(align-1)
	c.im.binary = append(c.im.binary, data...)
	c.fillPage()
	var relay cq.RelayPagedPacked
	for off := 0; off < n; off += maxRelayLength {
		relay.Subs = append(relay.Subs, cq.PagedSub{LogPageSize: binaryPageLog, Length: uint32(min(n-off, maxRelayLength))})
	}
	at := c.b.RelayPagedPacked(relay)
	for i := range relay.Subs {
		c.to.relays = append(c.to.relays, relayPatch{at: at + cq.AtPagedSub(i), page: page + i*maxRelayLength/BinaryPageSize})
	}
}
