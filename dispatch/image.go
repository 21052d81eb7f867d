package dispatch

import (
	"fmt"
	"slices"

	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/dispatch/cq"
	"github.com/reprise-tt/reprise/kernels/print"
)

// Image is a compiled program: its commands as they go to the prefetcher, with the few places that depend on when
// and where it runs, and its kernels as they go to DRAM. Running a program and recording it use the same image.
// Once placed, an image changes only by SetWords.
type Image struct {
	name       string
	id         textID
	layout     cq.Layout
	slotSize   uint32 // bytes of arguments and configuration
	textSize   uint32 // bytes of kernels in each core's memory
	argCount   uint32 // bytes before each block of arguments
	configBase uint32 // L1 address of the kernel-config memory
	launchBase uint32 // L1 address of the first launch message
	launchSize uint32
	stream     uint16     // that counts completions
	cores      int        // that run a kernel
	bounds     chip.Range // the smallest with all cores of the program
	binary     []byte
	placed     bool

	kernels *kernelTexts
	prints  []print.Program // one for each set of cores with kernels that print

	text commands // which bring the kernels; a run has them in front if they aren't on the cores yet
	main commands // everything else
	args []kernelArgs

	// resident, if it isn't nil, is the program with arguments and configuration that lie in Binary, after the kernels,
	// and are relayed from there: far fewer bytes for the host. It is what runs until arguments change.
	resident *Image
	changed  bool
	compiled []byte   // main's bytes with the arguments of Compile, which are those of resident runs; kept by the first change
	words    []uint32 // arguments of a core, while they are changed
}

// commands are a part of a run, with the offsets of what a run patches.
type commands struct {
	bytes []byte
	cuts  []int // ends of commands at which they may be split over fetch entries

	hostID     int
	wait       int     // a WAIT for the memory that they write
	slots      []int32 // 32-bit addresses of the program's slot
	texts      []int32 // 32-bit addresses of its kernels
	entries    []entryPatch
	launchAddr []int32
	goCount    int // 0 if there is no go signal
	goWord     int
	relays     []relayPatch
}

// entryPatch is a word that says where a kernel begins, counted from the program's slot.
type entryPatch struct {
	at  int32
	off uint32 // of the kernel in the program's text
}

// relayPatch is a sub-command of a RELAY_PAGED_PACKED that reads a page of the binary buffer.
type relayPatch struct{ at, page int }

// Name returns the program's name.
func (im *Image) Name() string { return im.name }

// Prints returns what the program's kernels print, one for each set of cores with the same kernels.
func (im *Image) Prints() []print.Program { return im.prints }

// Cores returns how many cores run a kernel of the program.
func (im *Image) Cores() int { return im.cores }

// Bounds returns the smallest range with all cores that run a kernel of the program or have a part of its memory.
func (im *Image) Bounds() chip.Range { return im.bounds }

// CommandSize is how much is sent.
type CommandSize struct {
	Count int // commands of the prefetcher
	Bytes int
}

// Commands returns the size of one run whose kernels are on the cores already.
func (im *Image) Commands() CommandSize {
	b := im.current().main.bytes
	return CommandSize{Count: countCommands(im.layout, b), Bytes: len(b)}
}

// RunBytes returns the most that one run has now.
func (im *Image) RunBytes() int { return len(im.text.bytes) + len(im.current().main.bytes) }

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

// Binary returns the kernels as they have to lie in an interleaved DRAM buffer with pages of BinaryPageSize.
func (im *Image) Binary() []byte { return im.binary }

// Place tells the image where Binary lies: the address, equal in all banks, of an interleaved buffer over that many
// banks. It must be called once, before the first run.
func (im *Image) Place(addr uint32, banks int) error {
	if im.placed {
		return fmt.Errorf("dispatch: program %q: its kernels are already placed", im.name)
	}
	for _, c := range []*commands{&im.text, &im.main} {
		for _, r := range c.relays {
			cq.Put16(c.bytes, r.at+cq.AtPagedSubStart, uint16(r.page%banks))
			cq.Put32(c.bytes, r.at+cq.AtPagedSubBase, addr+uint32(r.page/banks)*BinaryPageSize)
		}
	}
	im.placed = true
	if im.resident != nil {
		return im.resident.Place(addr, banks)
	}
	return nil
}

// State is what a command stream assumes about the workers and how it leaves them. A queue has one; a trace starts from
// ReplayState and carries the one it ends with. It is a value.
type State struct {
	// Expected is the count of completions once everything so far has run. It wraps.
	Expected cq.Count
	launch   uint32 // slot of the next launch message
	config   configRing
}

// change is called before arguments change.
func (im *Image) change() {
	if !im.changed && im.resident != nil {
		im.compiled = slices.Clone(im.main.bytes)
	}
	im.changed = true
}

// placement is where a run goes, which depends on the runs before it.
type placement struct {
	base     uint32 // L1 address of the program's slot
	text     uint32 // L1 address of its kernels
	send     bool   // they aren't there yet
	launch   uint32 // L1 address of its launch message
	before   cq.Count
	textWait await // before the kernels may be written
	wait     await // before the slot may be written
}

// place places a run and moves st past it.
func (im *Image) place(st *State, dispatcher Dispatcher) placement {
	p := placement{before: st.Expected, launch: im.launchBase + st.launch*im.launchSize}
	after := st.Expected + cq.Count(dispatcher.workers)
	r := &st.config
	p.textWait = r.makeRoom(im.slotSize)
	text, ok := r.find(im.id, uint32(after))
	if !ok {
		var wait await
		p.send = true
		text, wait = r.place(im.id, im.textSize, im.slotSize, uint32(after))
		p.textWait = later(p.textWait, wait)
	}
	var off uint32
	off, p.wait = r.reserve(im.slotSize, uint32(after))
	p.base, p.text = im.configBase+off, im.configBase+text
	st.launch = (st.launch + 1) % launchEntries
	st.Expected = after
	return p
}

// size returns the bytes of a run.
func (im *Image) size(p *placement) int {
	if p.send {
		return len(im.text.bytes) + len(im.main.bytes)
	}
	return len(im.main.bytes)
}

// build appends a run whose commands are those of the image or, from any run before, equal ones but for the arguments.
func (im *Image) build(dst, main []byte, p *placement, dispatcher Dispatcher, id uint16) []byte {
	if p.send {
		start := len(dst)
		dst = append(dst, im.text.bytes...)
		im.text.patch(dst[start:], p, p.textWait, im.stream, dispatcher, id)
	}
	start := len(dst)
	dst = append(dst, main...)
	im.main.patch(dst[start:], p, p.wait, im.stream, dispatcher, id)
	return dst
}

// patch fills in what depends on the run.
func (c *commands) patch(b []byte, p *placement, wait await, stream uint16, dispatcher Dispatcher, id uint16) {
	cq.Put16(b, c.hostID, id)
	if wait.on {
		cq.Put8(b, c.wait+cq.AtWaitFlags, uint8(cq.WaitStream))
		cq.Put16(b, c.wait+cq.AtWaitStream, stream)
		cq.Put32(b, c.wait+cq.AtWaitCount, wait.count)
	} else {
		cq.Put8(b, c.wait+cq.AtWaitFlags, 0)
		cq.Put16(b, c.wait+cq.AtWaitStream, 0)
		cq.Put32(b, c.wait+cq.AtWaitCount, 0)
	}
	for _, o := range c.slots {
		cq.Put32(b, int(o), p.base)
	}
	for _, o := range c.texts {
		cq.Put32(b, int(o), p.text)
	}
	for _, e := range c.entries {
		cq.Put32(b, int(e.at), p.text-p.base+e.off)
	}
	for _, o := range c.launchAddr {
		cq.Put32(b, int(o), p.launch)
	}
	if c.goWord != 0 {
		cq.Put32(b, c.goWord, uint32(dispatcher.goWord(cq.SignalGo)))
		cq.Put32(b, c.goCount, uint32(p.before))
	}
}

// ReplayState is the state in which a trace's commands run: no completions counted, launch messages at the first
// slot, and all kernel-config memory free, since whatever ran before is done.
func (d *Device) ReplayState() State {
	return State{config: newRing(d.worker.L1.KernelConfigSize)}
}

// Detached is the state after a trace: all kernel-config memory is in use until its last program is done. It is all that a trace
// keeps of the State that it ends with, which has sixty times the bytes.
type Detached struct {
	// Expected is the count of completions that the trace leaves.
	Expected cq.Count
	launch   uint32 // slot of the next launch message
}

// Detach returns the state after a trace that ended in s.
func (s *State) Detach() Detached { return Detached{s.Expected, s.launch} }

// After returns the state of a queue after a trace.
func (d *Device) After(t Detached) State {
	return State{Expected: t.Expected, launch: t.launch, config: fullRing(d.worker.L1.KernelConfigSize, uint32(t.Expected))}
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
