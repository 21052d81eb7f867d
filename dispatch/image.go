package dispatch

import (
	"fmt"

	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/dispatch/cq"
)

// Image is a compiled program: its commands as they go to the prefetcher, with the few places that depend on when
// and where it runs, and its kernels as they go to DRAM. Running a program and recording it use the same image.
// Once placed, an image changes only by SetWords.
type Image struct {
	name       string
	layout     cq.Layout
	slotSize   uint32 // bytes of the kernel-config ring
	configBase uint32 // L1 address of the ring
	launchBase uint32 // L1 address of the first launch message
	launchSize uint32
	stream     uint16     // that counts completions
	cores      int        // that run a kernel
	bounds     chip.Range // the smallest with everything that the program has on cores
	binary     []byte
	placed     bool

	cmds []byte
	head int   // bytes of the first command, behind which a wait may be inserted
	cuts []int // ends of commands at which the stream may be split over fetch entries

	// Offsets in cmds of what a run patches.
	hostID      int
	configBases []int // 32-bit addresses of the program's slot
	binaryBase  int
	textOff     uint32 // added to the slot's address there
	launchAddr  []int
	goCount     int
	goWord      int
	relays      []relayPatch
	args        []kernelArgs // by kernel

	// resident, if it isn't nil, is the program with arguments and configuration that lie in Binary, behind the kernels,
	// and are relayed from there: far fewer bytes for the host. It is what runs until arguments change.
	resident *Image
	changed  bool
	words    []uint32 // arguments of a core, while they are changed
}

// relayPatch is a sub-command of a RELAY_PAGED_PACKED that reads a page of the binary buffer.
type relayPatch struct{ at, page int }

// Name returns the program's name.
func (im *Image) Name() string { return im.name }

// Cores returns how many cores run a kernel of the program.
func (im *Image) Cores() int { return im.cores }

// CommandBytes returns the size of the commands of one run that need not wait for kernel-config memory.
func (im *Image) CommandBytes() int { return len(im.current().cmds) }

// RunBytes returns the most that one run has now.
func (im *Image) RunBytes() int {
	return len(im.current().cmds) + im.layout.Stride(2*cq.HeaderSize)
}

// Commands returns how many commands of the prefetcher one run has that need not wait for kernel-config memory.
func (im *Image) Commands() int { return countCommands(im.layout, im.current().cmds) }

// Commands returns how many commands of the prefetcher are sent.
func (p *Prepared) Commands(d *Device) int { return countCommands(d.layout(), p.Bytes) }

func countCommands(l cq.Layout, cmds []byte) int {
	n := 0
	for range cq.All(l, cmds) {
		n++
	}
	return n
}

// current returns the form of the program that runs from now on.
func (im *Image) current() *Image {
	if im.resident != nil && !im.changed {
		return im.resident
	}
	return im
}

// form returns the form of the program that a recorded run of n bytes has. Their lengths differ by more than a wait.
func (im *Image) form(n int) *Image {
	if r := im.resident; r != nil && n < len(im.cmds) {
		return r
	}
	return im
}

// Inline says whether a recorded run of n bytes has its arguments in it.
func (im *Image) Inline(n int) bool { return im.form(n) == im }

// Binary returns the kernels as they have to lie in an interleaved DRAM buffer with pages of BinaryPageSize.
func (im *Image) Binary() []byte { return im.binary }

// Place tells the image where Binary lies: the address, equal in all banks, of an interleaved buffer over that many
// banks. It must be called once, before the first run.
func (im *Image) Place(addr uint32, banks int) error {
	if im.placed {
		return fmt.Errorf("dispatch: program %q: its kernels are already placed", im.name)
	}
	for _, r := range im.relays {
		cq.Put16(im.cmds, r.at+cq.AtPagedSubStart, uint16(r.page%banks))
		cq.Put32(im.cmds, r.at+cq.AtPagedSubBase, addr+uint32(r.page/banks)*BinaryPageSize)
	}
	im.placed = true
	if im.resident != nil {
		return im.resident.Place(addr, banks)
	}
	return nil
}

// State is what a command stream assumes about the workers and leaves behind. A queue has one; a trace starts from
// ReplayState and carries the one it ends with. It is a value.
type State struct {
	// Expected is the count of completions once everything so far has run. It wraps.
	Expected cq.Count
	launch   uint32 // slot of the next launch message
	config   configRing
}

// Append appends the commands of one run to dst and moves st past it. id names the run in profilers. It allocates
// only when dst is too small.
func (im *Image) Append(dst []byte, st *State, dispatcher Dispatcher, id uint16) []byte {
	f := im.current()
	p := f.place(st, dispatcher)
	return f.build(dst, f.cmds[:f.head], f.cmds[f.head:], &p, dispatcher, id)
}

// AppendInline is Append with the arguments among the commands, wherever runs have them.
func (im *Image) AppendInline(dst []byte, st *State, dispatcher Dispatcher, id uint16) []byte {
	p := im.place(st, dispatcher)
	return im.build(dst, im.cmds[:im.head], im.cmds[im.head:], &p, dispatcher, id)
}

// AppendAgain is Append with the runtime arguments of a run that was appended before, whatever has been changed since.
func (im *Image) AppendAgain(dst, run []byte, st *State, dispatcher Dispatcher, id uint16) []byte {
	f := im.form(len(run))
	p := f.place(st, dispatcher)
	return f.build(dst, run[:f.head], run[f.head+len(run)-len(f.cmds):], &p, dispatcher, id)
}

// placement is what of a run depends on the runs before it.
type placement struct {
	base    uint32 // L1 address of the program's slot
	launch  uint32 // L1 address of its launch message
	before  cq.Count
	waitFor uint32 // completions before the slot may be written
	wait    bool
}

// place places a run and moves st past it.
func (im *Image) place(st *State, dispatcher Dispatcher) placement {
	p := placement{before: st.Expected, launch: im.launchBase + st.launch*im.launchSize}
	after := st.Expected + cq.Count(dispatcher.workers)
	off, waitFor, wait := st.config.reserve(im.slotSize, uint32(after))
	p.base, p.waitFor, p.wait = im.configBase+off, waitFor, wait
	st.launch = (st.launch + 1) % launchEntries
	st.Expected = after
	return p
}

// size returns the bytes of a run.
func (im *Image) size(p *placement) int {
	if p.wait {
		return len(im.cmds) + im.layout.Stride(2*cq.HeaderSize)
	}
	return len(im.cmds)
}

// build appends a run whose commands are head and body, but for a wait between them, and those of no run or of any.
func (im *Image) build(dst, head, body []byte, p *placement, dispatcher Dispatcher, id uint16) []byte {
	start := len(dst)
	dst = append(dst, head...)
	shift := start // of everything behind the head
	if p.wait {
		b := cq.NewBuilder(im.layout, dst)
		b.Wait(cq.Master, cq.Wait{Flags: cq.WaitStream, Stream: im.stream, Count: p.waitFor})
		shift += b.Len() - len(dst)
		dst = b.Bytes()
	}
	dst = append(dst, body...)

	at := func(o int) int {
		if o < im.head {
			return start + o
		}
		return shift + o
	}
	cq.Put16(dst, at(im.hostID), id)
	for _, o := range im.configBases {
		cq.Put32(dst, at(o), p.base)
	}
	cq.Put32(dst, at(im.binaryBase), p.base+im.textOff)
	for _, o := range im.launchAddr {
		cq.Put32(dst, at(o), p.launch)
	}
	cq.Put32(dst, at(im.goWord), uint32(dispatcher.goWord(cq.SignalGo)))
	cq.Put32(dst, at(im.goCount), uint32(p.before))
	return dst
}

// ReplayState is the state in which a trace's commands run: no completions counted, launch messages at the first
// slot, and all kernel-config memory in use by something that is known to be done.
func (d *Device) ReplayState() State {
	return State{config: fullRing(d.pr.L1.KernelConfigSize, 0)}
}

// Detach returns the state behind a trace that ended in st: all kernel-config memory is in use until its last
// program is done.
func (d *Device) Detach(st State) State {
	return State{Expected: st.Expected, launch: st.launch, config: fullRing(d.pr.L1.KernelConfigSize, uint32(st.Expected))}
}

// Dispatcher is the core that starts workers and to which they report completions.
type Dispatcher struct {
	at      chip.XY
	workers uint32 // completions that one run causes: one from each worker of the queue, used by the program or not
}

func (d Dispatcher) goWord(s cq.Signal) cq.GoWord { return cq.NewGoWord(0, d.at.X, d.at.Y, s) }

func (d *Device) layout() cq.Layout {
	return cq.Layout(d.ch.Arch())
}
