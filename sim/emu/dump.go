package emu

import (
	"fmt"
	"maps"
	"slices"

	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/sim/emu/internal/check"
	"github.com/reprise-tt/reprise/sim/emu/internal/word"
)

// CoreState is what a processor was doing.
type CoreState struct {
	Tile    chip.XY // raw NoC 0 coordinate
	Virtual chip.XY // as software names the tile
	Core    chip.Processor
	PC      uint32
	// State is "in reset", "runnable", "parked" (a poll), "blocked" (a mailbox, or engines),
	// "paused by a debugger", or "lost: …" (until its next reset).
	State   string
	Retired uint64 // instructions
	// Waits are the words of L1, and Registers the registers or groups of registers that a parked
	// processor polls. Pages says more of those that count pages of circular buffers.
	Waits     []uint32
	Registers []string
	Pages     []PageWait
	// Changers are who last changed words of Waits through a NoC, one each, if among the tile's
	// latest 32 changes of single words.
	Changers []Changer
	// Idle are NIUs that a parked processor polls although no answer is due. With acknowledgements,
	// software has counted a multicast's destinations wrong.
	Idle []IdleNIU
	// Engine says what a T core's first unexecuted Tensix instruction waits for.
	Engine string
	// X are the general registers.
	X [32]uint32
	// Executed is how many instructions the engines executed for a T core, after expansion of MOP
	// and REPLAY.
	Executed uint64
}

// PageWait is a wait for pages in a circular buffer, or for room.
type PageWait struct {
	Stream     int // that counts the buffer's pages
	Room       bool
	Put, Taken uint16
	// By is the processor of the tile that last put pages, or took some if Room; Known is false
	// if none did since the counter was reset.
	By    chip.Processor
	Known bool
}

// IdleNIU is the counts of an NIU that expects no answer.
type IdleNIU struct {
	NIU                  int
	Acks, Reads, Atomics uint32
}

// Changer is who changed a word of L1.
type Changer struct {
	Addr uint32
	Tile chip.XY // raw NoC 0 coordinate
	Core chip.Processor
}

var classNames = map[class]string{
	classNIU0: "NIU 0", classNIU1: "NIU 1", classStream: "streams", classConfig: "configuration", classMailbox: "mailboxes",
	classServed0: "NIU 0 as target", classServed1: "NIU 1 as target",
}

// Cores returns the state of every processor out of reset, by tile and order of hardware (BRISC,
// the TRISCs, NCRISC).
func (c *Chip) Cores() []CoreState {
	defer c.leave(c.visit())
	var out []CoreState
	for _, t := range c.tiles {
		for _, k := range t.cores {
			if k.state == inReset {
				continue
			}
			s := CoreState{
				Tile: t.xy, Virtual: chip.XY{X: uint8(t.id[0] & 63), Y: uint8(t.id[0] >> 6)},
				Core: k.proc, PC: k.pc, State: k.state.String(), Retired: k.retired, X: [32]uint32(k.X[:32]),
			}
			if k.state == parked || k.state == blocked {
				if k.state == parked {
					for _, r := range k.wait.reads[:k.wait.n] {
						s.Waits = append(s.Waits, r.word<<2)
						if by := t.changer(r.word); by != nil {
							s.Changers = append(s.Changers, Changer{r.word << 2, by.tile.xy, by.proc})
						}
					}
				}
				for n := range t.niu {
					if u := &t.niu[n]; k.classes&(classNIU0<<n) != 0 && u.open == [16]int16{} {
						s.Idle = append(s.Idle, IdleNIU{n, u.count[cntWriteAck], u.count[cntReadResp], u.count[cntAtomicResp]})
					}
				}
				s.Registers, s.Pages = k.registers()
			}
			if k.hw >= 1 && k.hw <= 3 {
				s.Engine = t.engineWait(int(k.hw) - 1)
				if e := t.tensix.engines; e != nil {
					s.Executed = e.Executed(int(k.hw) - 1)
				}
			}
			out = append(out, s)
		}
	}
	return out
}

// counterNames are those of an NIU's counters that software waits for (tt-isa-documentation
// WormholeB0/NoC/Counters.md).
var counterNames = map[uint32]string{
	cntAtomicResp: "atomic responses", cntWriteAck: "write acknowledgements", cntReadResp: "read responses",
	check.CounterSent: "writes sent", check.CounterSent + 1: "posted writes sent",
}

// registers names what the core polls.
func (c *core) registers() (names []string, pages []PageWait) {
	add := func(name string) {
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	t, named := c.tile, class(0)
	for _, addr := range c.polled[:c.polls] {
		cl, _ := t.readClass(addr)
		switch {
		case addr >= niu0Base && addr < streamBase:
			noc, i := (addr-niu0Base)/(niu1Base-niu0Base), addr%(niu1Base-niu0Base)/4-0x200/4
			name := counterNames[i]
			if i-check.CounterOutstanding < 16 {
				name = fmt.Sprintf("responses of transaction %d", i-check.CounterOutstanding)
			}
			if name == "" {
				continue
			}
			add(fmt.Sprintf("%s of NIU %d", name, noc))
		case cl == classStream:
			n, w := int(addr-streamBase)/streamBytes, PageWait{}
			s := &t.streams[n]
			by := t.pagers[n].put
			switch streamRegister(t.chip.arch, addr%streamBytes) {
			case streamBufStart:
				by, w.Room = t.pagers[n].took, true
			case streamBufSize:
			default:
				add(fmt.Sprintf("stream %d", n))
				named |= cl
				continue
			}
			w.Stream, w.Put, w.Taken = n, uint16(s.bufSize), uint16(s.bufStart)
			if by != nil {
				w.By, w.Known = by.proc, true
			}
			add(fmt.Sprintf("stream %d", n))
			pages = append(pages, w)
		default:
			continue
		}
		named |= cl
	}
	for cl := classNIU0; cl != 0 && cl <= classServed1; cl <<= 1 {
		if c.classes&cl&^named != 0 {
			add(classNames[cl])
		}
	}
	return names, pages
}

// ReadCore reads a processor's local or instruction RAM, or L1, of the tile at a raw NoC 0
// coordinate, unchecked and even from a stopped chip, false if there is no such memory.
func (c *Chip) ReadCore(xy chip.XY, p chip.Processor, addr uint32, b []byte) bool {
	defer c.leave(c.visit())
	return c.readCore(xy, p, addr, b)
}

// Registers returns the registers of a processor, zero if there is none.
func (c *Chip) Registers(xy chip.XY, p chip.Processor) [32]uint32 {
	defer c.leave(c.visit())
	return c.registers(xy, p)
}

func (c *Chip) registers(xy chip.XY, p chip.Processor) (x [32]uint32) {
	if k := c.coreAt(xy, p); k != nil {
		copy(x[:], k.X[:32])
	}
	return x
}

func (c *Chip) readCore(xy chip.XY, p chip.Processor, addr uint32, b []byte) bool {
	k := c.coreAt(xy, p)
	if k == nil {
		return false
	}
	t, off, words := k.tile, addr, []uint32(nil)
	switch {
	case addr < t.size:
		if uint64(len(b)) > uint64(t.size-addr) {
			return false
		}
		words = t.memory(addr + uint32(len(b)))
	case addr-localBase < 4*uint32(len(k.local)):
		words, off = k.local, addr-localBase
	case addr-iramBase < 4*uint32(len(t.iram)):
		words, off = t.iram, addr-iramBase
	}
	if uint64(off)+uint64(len(b)) > 4*uint64(len(words)) {
		return false
	}
	word.Unpack(b, uint64(off), words[off>>2:])
	return true
}

func (c *Chip) coreAt(xy chip.XY, p chip.Processor) *core {
	if t := c.tileAt(xy); t != nil {
		return t.core(p)
	}
	return nil
}

// EngineWait returns what the first unexecuted instruction of T core thread, 0 to 2, at a virtual
// coordinate waits for; "" if there is none.
func (c *Chip) EngineWait(x, y uint8, thread int) string {
	defer c.leave(c.visit())
	raw, err := c.topology.Translate(chip.NOC0, chip.XY{X: x, Y: y})
	if err != nil {
		return ""
	}
	t := c.tileAt(raw)
	if t == nil || t.kind != chip.Tensix || thread < 0 || thread > 2 {
		return ""
	}
	return t.engineWait(thread)
}

func (t *tile) engineWait(thread int) string {
	e := t.tensix.engines
	if e == nil {
		return ""
	}
	s := e.Waiting(thread)
	if w := &e.waiting[thread]; s != "" && !w.empty() {
		s += fmt.Sprintf(", and %d that have no room in the queue", len(w.ops)-w.first)
	}
	return s
}

// Retired returns how many instructions processor p of the tile at raw NoC 0 coordinate xy has
// executed; 0 if there is none.
func (c *Chip) Retired(xy chip.XY, p chip.Processor) uint64 {
	defer c.leave(c.visit())
	if k := c.coreAt(xy, p); k != nil {
		return k.retired
	}
	return 0
}

// Work is what a chip has done since it was made or reset.
type Work struct {
	// Instructions is how many its processors have executed.
	Instructions uint64
	// NoCBytes is the data that tiles have read and written over NoCs. A multicast counts once for
	// each target, an atomic as 4.
	NoCBytes uint64
}

// Work returns what the chip has done.
func (c *Chip) Work() Work {
	defer c.leave(c.visit())
	w := Work{NoCBytes: c.moved}
	for _, t := range c.tiles {
		for _, k := range t.cores {
			w.Instructions += k.retired
		}
	}
	return w
}

// Profile returns how often processor p of the tile at raw NoC 0 coordinate xy has executed each
// address since the first call, which makes it slow. All but the first rounds of waiting loops are
// left out. It returns nil if there is no such processor.
func (c *Chip) Profile(xy chip.XY, p chip.Processor) map[uint32]uint64 {
	defer c.leave(c.visit())
	if k := c.coreAt(xy, p); k != nil {
		return maps.Clone(k.profiled().counts)
	}
	return nil
}

// QueueExecuted returns how many instructions the prefetcher, the dispatcher and the dispatcher's
// subordinate of the first command queue have executed since the first call, which makes them slow.
// All but the first rounds of waiting loops are left out, as in Profile. The processors are those
// that this project and tt-metal use by default: of the first two tiles in the last column of a
// Blackhole, or in the last row of a Wormhole.
func (c *Chip) QueueExecuted() (n [3]uint64) {
	defer c.leave(c.visit())
	w, h := c.topology.Grid()
	tiles := [2]chip.Core{{X: w - 1}, {X: w - 1, Y: 1}}
	if c.topology.Arch() == chip.Wormhole {
		tiles = [2]chip.Core{{Y: h - 1}, {X: 1, Y: h - 1}}
	}
	for i, p := range []chip.Processor{chip.BRISC, chip.BRISC, chip.NCRISC} {
		if xy, err := c.topology.Physical(tiles[min(i, 1)]); err == nil {
			f := c.coreAt(xy, p).profiled()
			n[i] = f.total - f.waited
		}
	}
	return n
}

// profiled returns the core's counts, which begin with the first call.
func (c *core) profiled() *profile {
	if c.profile == nil {
		c.profile = &profile{counts: map[uint32]uint64{}, jumps: map[uint32]jump{}}
		c.checked = true
	}
	return c.profile
}

// Fault returns the *Refusal for which the chip stopped, or nil.
func (c *Chip) Fault() error {
	if !c.faulted.Load() {
		return nil
	}
	defer c.leave(c.visit())
	return c.fault
}

// Load is what a chip does at one time.
type Load struct {
	Tiles, Busy int    // with a processor out of reset, and those of them whose processors don't all wait
	DRAM        uint64 // bytes that were ever written, in pages of 256 KiB
}

// Load returns what the chip does now.
func (c *Chip) Load() (l Load) {
	defer c.leave(c.visit())
	for _, t := range c.tiles {
		up, busy := false, false
		for _, k := range t.cores {
			up, busy = up || k.state != inReset, busy || k.state == runnable
		}
		if up {
			l.Tiles++
		}
		if busy {
			l.Busy++
		}
	}
	for _, d := range c.drams {
		for _, p := range d.pages {
			if p != nil {
				l.DRAM += dramPage
			}
		}
	}
	return l
}

// TakeTrack returns what was used since the last call, and begins the order in which processors run
// anew, so that it depends less on how often the host polled. The chip needs Config.Track.
func (c *Chip) TakeTrack() Track {
	<-c.tok // and runs nothing
	defer func() { c.tok <- struct{}{} }()
	out := *c.track
	c.reseed()
	c.track = newTrack()
	for _, t := range c.tiles {
		if t.track != nil {
			maps.Copy(out.Read, t.track.Read)
			maps.Copy(out.Written, t.track.Written)
			t.track = newTrack()
		}
	}
	return out
}

// pausedChip is a chip while it waits for Config.Findings.
type pausedChip struct{ c *Chip }

func (p pausedChip) Topology() *chip.Chip { return p.c.topology }

func (p pausedChip) ReadCore(xy chip.XY, of chip.Processor, addr uint32, b []byte) bool {
	return p.c.readCore(xy, of, addr, b)
}

func (p pausedChip) Registers(xy chip.XY, of chip.Processor) [32]uint32 { return p.c.registers(xy, of) }
