package ttsim

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/internal/seam"
	"github.com/reprise-tt/reprise/sim/driver"
	"github.com/reprise-tt/reprise/sim/serve/function"
)

// A Card is a target for kmd.Open: a card in a machine with the model of the kernel driver.
type Card struct{ node seam.Node }

// Node returns the card's device node.
func (c *Card) Node() seam.Node { return c.node }

func (c *Card) String() string { return c.node.String() }

// Library returns a library's first card, with Start's options and errors, running from the first
// open to the last close. A library with several cards needs Start and Sim.Cards.
func Library(path string, opts ...Option) *Card {
	return &Card{node: &libraryNode{path: path, opts: opts}}
}

// Cards returns the functions as targets for kmd.Open, with one driver model, until the simulator
// is closed. Don't use a function both directly and through its card.
func (s *Sim) Cards() ([]*Card, error) {
	s.life.Lock()
	defer s.life.Unlock()
	if s.closed {
		return nil, fmt.Errorf("ttsim: cards: %w", ErrClosed)
	}
	if s.cards != nil {
		return s.cards, nil
	}
	cfg := driver.Config{Arch: s.functions[0].Arch(), Name: s.path + ":"}
	for _, f := range s.functions {
		cfg.Functions = append(cfg.Functions, f)
	}
	d, err := driver.New(cfg)
	if err != nil {
		return nil, fmt.Errorf("ttsim: cards: %w", err)
	}
	s.driver = d
	for i := range d.Len() {
		s.cards = append(s.cards, &Card{node: d.Node(i)})
	}
	return s.cards, nil
}

// Driver returns the cards' driver model, for package sim/serve/cards.
func (s *Sim) Driver() (*driver.Driver, error) {
	if _, err := s.Cards(); err != nil {
		return nil, err
	}
	return s.driver, nil
}

type libraryNode struct {
	path string
	opts []Option

	mu      sync.Mutex
	driver  *driver.Driver
	arch    chip.Arch
	started *Sim // started to learn the architecture, not yet taken by the driver
}

func (n *libraryNode) String() string { return n.path }

func (n *libraryNode) Open(flags int) (seam.File, error) {
	d, err := n.load()
	if err != nil {
		return nil, err
	}
	f, err := d.Node(0).Open(flags)
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.started != nil { // the driver refused the open
		n.started.Close()
		n.started = nil
	}
	return f, err
}

// Only the running library knows the architecture.
func (n *libraryNode) load() (*driver.Driver, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.driver != nil {
		return n.driver, nil
	}
	s, err := Start(n.path, n.opts...)
	if err != nil {
		return nil, err
	}
	arch := s.functions[0].Arch()
	d, err := driver.New(driver.Config{Arch: arch, Start: n.start, Name: n.path + ":"})
	if err != nil {
		s.Close()
		return nil, fmt.Errorf("ttsim: open: %w", err)
	}
	n.driver, n.arch, n.started = d, arch, s
	return d, nil
}

func (n *libraryNode) start() (driver.Function, error) {
	n.mu.Lock()
	s := n.started
	n.started = nil
	n.mu.Unlock()
	if s == nil {
		var err error
		if s, err = Start(n.path, n.opts...); err != nil {
			return nil, err
		}
	}
	if a := s.functions[0].Arch(); a != n.arch {
		s.Close()
		return nil, &LibraryError{Path: n.path, Err: fmt.Errorf("%w: it was a %v and is a %v", ErrUnknownChip, n.arch, a),
			Hint: "the file has changed since the first use; make a new target"}
	}
	return &only{Function: s.functions[0]}, nil
}

// only is the first function of a simulator whose other functions have no card.
type only struct{ *Function }

func (o *only) Reset() error { return o.sim.Reset() }
func (o *only) Close() error { return o.sim.Close() }

// The first failed transfer ends the server.
func (p *process) transfer(t *function.Transfer) {
	err := p.move(t)
	if err == nil || p.dmaErr.Load() != nil {
		return
	}
	verb := "read"
	if t.Write {
		verb = "write"
	}
	p.dmaErr.Store(&Error{
		Category: CategoryHostDMA,
		Message:  fmt.Sprintf("%s of %d bytes at bus address %#x: %v", verb, len(t.Data), t.Addr&busMask, err),
		Clock:    p.client.Clocks(),
		Status:   -1,
		Err:      err,
	})
	p.cmd.Process.Kill()
}

// A transfer is to the memory of the device in the address's tag, or else of the device whose BAR
// is being accessed, or else of the first that has the address.
func (p *process) move(t *function.Transfer) error {
	device := uint32(t.Device)
	if tag := t.Addr >> tagShift; tag != 0 {
		device = uint32(tag) - 1
	}
	bus := t.Addr & busMask
	var errs []error
	for _, f := range p.sim.functions {
		if device != function.AnyDevice && device != f.device {
			continue
		}
		if f.controller.access(t, bus) {
			return nil
		}
		d := f.dma.Load()
		if d == nil {
			continue
		}
		var err error
		if t.Write {
			err = (*d).WriteHost(bus, t.Data)
		} else {
			err = (*d).ReadHost(bus, t.Data)
		}
		if err == nil {
			return nil
		}
		errs = append(errs, err)
	}
	if errs == nil {
		return fmt.Errorf("%w: no host memory was attached", ErrDMA)
	}
	return fmt.Errorf("%w: %w", ErrDMA, errors.Join(errs...))
}

var _ driver.Peer = (*Function)(nil)

// peers is the queue of devices' accesses to each other. Their DMA's goroutine must not wait for
// the server, so another performs them, or a host that uses any of the devices.
type peers struct {
	waiting atomic.Int32 // accesses that aren't done
	doing   sync.Mutex   // held while one is done; taken before mu
	mu      sync.Mutex
	list    []func()
	running bool // run is running
}

func (p *peers) post(f func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.list = append(p.list, f)
	p.waiting.Add(1)
	if !p.running {
		p.running = true
		go p.run()
	}
}

func (p *peers) run() {
	for {
		p.next()
		p.mu.Lock()
		if len(p.list) == 0 {
			p.running = false
			p.mu.Unlock()
			return
		}
		p.mu.Unlock()
	}
}

func (p *peers) settle() {
	for n := p.waiting.Load(); n > 0; n-- {
		p.next()
	}
}

func (p *peers) next() {
	p.doing.Lock()
	defer p.doing.Unlock()
	p.mu.Lock()
	if len(p.list) == 0 {
		p.mu.Unlock()
		return
	}
	f := p.list[0]
	p.list[0] = nil
	if p.list = p.list[1:]; len(p.list) == 0 {
		p.list = nil // frees its memory
	}
	p.mu.Unlock()
	f()
	p.waiting.Add(-1)
}

// PeerWrite's waiting writes are dropped by a reset.
func (f *Function) PeerWrite(bar int, off uint64, p []byte, taken func()) {
	to, p := f.sim.current.Load().client, slices.Clone(p)
	f.sim.peers.post(func() {
		f.write(to, bar, off, p)
		taken()
	})
}

// PeerRead implements driver.Peer.
func (f *Function) PeerRead(bar int, off uint64, n int, done func(p []byte)) {
	to := f.sim.current.Load().client
	f.sim.peers.post(func() {
		p := make([]byte, n)
		f.read(to, bar, off, p)
		done(p)
	})
}

// The devices' earlier accesses to each other are done.
func (f *Function) client() *function.Client {
	f.sim.peers.settle()
	return f.sim.current.Load().client
}

// The simulator only acknowledges Wormhole's reset on request.
type firmware struct {
	message atomic.Uint32
	reset   atomic.Pointer[func()]
}

// OnResetAsked implements driver.ResetAsker.
func (f *Function) OnResetAsked(ask func()) { f.firmware.reset.Store(&ask) }

func (w *firmware) stored(off, v uint64) {
	switch {
	case off == message:
		w.message.Store(uint32(v))
	case off == interrupt && v&interruptBit != 0 && w.message.Swap(0)&0xFF == messageReset:
		if ask := w.reset.Load(); ask != nil {
			(*ask)()
		}
	}
}

// controller models a part of Wormhole's PCIe controller that the simulator lacks: while a bit of
// two scratch registers is set, accesses to host memory reach the controller's own registers
// (tt-kmd wormhole.c, open_dbi), by which the driver keeps the device control register over a
// reset.
type controller struct {
	open    atomic.Uint32 // bit 0: for reads, bit 1: for writes
	control atomic.Uint32
}

const (
	message       = 0x1FF30074 // a message to the firmware, sent by a store to interrupt (tt-kmd wormhole.c)
	interrupt     = 0x1FF30100
	interruptBit  = 1 << 16
	messageReset  = 0x56
	scratchRead   = 0x1FF30078 // in BAR 0, and in BAR 4 as the driver maps that
	scratchWrite  = 0x1FF3007C
	bar4Start     = 0x1E000000
	controlOpen   = 1 << 21
	deviceControl = 0x78 // where host memory starts
)

// stored sees a store before the simulator. Closing the registers waits for earlier stores, which
// this side answers.
func (f *Function) stored(bar int, off, v uint64) {
	if bar == 4 {
		bar, off = 0, off+bar4Start
	}
	if bar != 0 || f.Arch() != chip.Wormhole {
		return
	}
	f.firmware.stored(off, v)
	if off != scratchRead && off != scratchWrite {
		return
	}
	bit := uint32(1)
	if off == scratchWrite {
		bit = 2
	}
	if v&controlOpen != 0 {
		f.controller.open.Or(bit)
	} else if f.controller.open.Load()&bit != 0 {
		f.sim.current.Load().client.Load(f.address(0, off), 4)
		f.controller.open.And(^bit)
	}
}

// access returns false for host memory.
func (c *controller) access(t *function.Transfer, bus uint64) bool {
	open := c.open.Load()
	if open == 0 || bus != deviceControl || len(t.Data) != 4 {
		return false
	}
	switch {
	case !t.Write && open&1 != 0:
		binary.LittleEndian.PutUint32(t.Data, c.control.Load())
	case t.Write && open&2 != 0:
		c.control.Store(binary.LittleEndian.Uint32(t.Data))
	default:
		return false
	}
	return true
}

func (c *controller) reset() {
	c.open.Store(0)
	c.control.Store(0)
}

// A Function is one simulated chip as a PCI function.
type Function struct {
	sim                   *Sim
	device                uint32
	id                    uint32
	bars                  [3]uint64 // addresses of BAR 0, 2 and 4 in the library's address space
	tag                   uint64    // marks the function's bus addresses inside the library; 0 for a single function
	dma                   atomic.Pointer[driver.DMA]
	iatu, stride, regions uint64 // outbound iATU regions in BAR 2, if there is a tag
	closed                atomic.Bool
	controller            controller
	firmware              firmware
}

var (
	_ driver.Function   = (*Function)(nil)
	_ driver.Resetter   = (*Function)(nil)
	_ driver.ResetAsker = (*Function)(nil)
)

// The library doesn't say which chip makes a DMA transfer, and bus addresses can be equal. So a
// function of several writes its tag into the targets of its outbound iATU regions, above the 58
// bits of a bus address (tt-kmd blackhole.c), and finds it in transfers.
const (
	tagShift = 58
	busMask  = 1<<tagShift - 1
)

func (f *Function) share() {
	pci := f.Arch().Params().PCI
	f.tag = uint64(f.device+1) << tagShift
	f.iatu, f.stride, f.regions = uint64(pci.IATUBase), uint64(pci.IATUStride), uint64(pci.IATURegions)
}

// targetHigh reports the upper target of a tagged outbound iATU region (ttsim src/libttsim.cpp
// iatu_reg_field).
func (f *Function) targetHigh(bar int, off uint64) bool {
	in := off - f.iatu
	return bar == 2 && f.tag != 0 && in < f.regions*f.stride && in%f.stride == 0x18
}

// ID returns the PCI ids: 0x1E52, and 0x401E for a Wormhole or 0xB140 for a Blackhole (tt-kmd
// enumerate.h).
func (f *Function) ID() (vendor, device uint16) { return uint16(f.id), uint16(f.id >> 16) }

// Arch returns the function's architecture.
func (f *Function) Arch() chip.Arch {
	if f.id == idBlackhole {
		return chip.Blackhole
	}
	return chip.Wormhole
}

// Sim returns the function's simulator.
func (f *Function) Sim() *Sim { return f.sim }

func (f *Function) String() string { return fmt.Sprintf("%s:00:%02x.0", f.sim.path, f.device) }

// ConfigRead reads a word of the standard header; all ones once the device stopped.
func (f *Function) ConfigRead(off uint32) uint32 {
	if f.closed.Load() {
		return ^uint32(0)
	}
	v, _ := f.client().ConfigRead(f.device, off)
	return v
}

// ConfigWrite writes a word of config space. The library keeps decoding the BARs' initial
// addresses.
func (f *Function) ConfigWrite(off uint32, v uint32) {
	if f.closed.Load() {
		return
	}
	f.client().ConfigWrite(f.device, off, v)
}

// The library refuses and reports an invalid BAR's address.
func (f *Function) address(bar int, off uint64) uint64 {
	if bar < 0 || bar > 4 || bar&1 != 0 {
		return uint64(f.device)<<function.DeviceShift | off&(1<<32-1)
	}
	return f.bars[bar/2] + off
}

// BARLoad performs one load after all earlier stores; all ones on a stopped device.
func (f *Function) BARLoad(bar int, off uint64, width int) uint64 {
	v, ok := uint64(0), !f.closed.Load()
	if ok {
		v, ok = f.client().Load(f.address(bar, off), width)
	}
	if !ok {
		return ^uint64(0) >> (64 - 8*uint(width))
	}
	if f.targetHigh(bar, off) {
		v &= busMask >> 32
	}
	return v
}

// BARStore performs one posted store of width 1, 2, 4 or 8 bytes of BAR 0, 2 or 4.
func (f *Function) BARStore(bar int, off uint64, width int, v uint64) {
	if f.closed.Load() {
		return
	}
	if f.targetHigh(bar, off) {
		v |= f.tag >> 32
	}
	f.stored(bar, off, v)
	f.client().Store(f.address(bar, off), width, v)
}

// BARRead copies from BAR 0, 2 or 4 in large accesses.
func (f *Function) BARRead(bar int, off uint64, p []byte) { f.read(f.client(), bar, off, p) }

func (f *Function) read(from *function.Client, bar int, off uint64, p []byte) {
	if f.closed.Load() || !from.Read(f.address(bar, off), p) {
		for i := range p {
			p[i] = 0xFF
		}
	}
}

// BARWrite copies to BAR 0, 2 or 4 in large posted accesses.
func (f *Function) BARWrite(bar int, off uint64, p []byte) { f.write(f.client(), bar, off, p) }

func (f *Function) write(to *function.Client, bar int, off uint64, p []byte) {
	to.Write(f.address(bar, off), p, f.closed.Load)
}

// AttachDMA gives the device its host memory, before any access. d is called while a load waits for
// its answer, so it must not wait for loads. An error stops the device.
func (f *Function) AttachDMA(d driver.DMA) { f.dma.Store(&d) }

// Fault is Sim.Fault.
func (f *Function) Fault() error { return f.sim.Fault() }

// CoreDebug is false: the library stops at the debug interface's registers.
func (f *Function) CoreDebug() bool { return false }

// Reset restores the chip's power-on state, also after a fault, or fails with ErrSharedReset.
func (f *Function) Reset() error {
	if n := len(f.sim.functions); n > 1 {
		return fmt.Errorf("ttsim: reset %s: %w: there are %d", f, ErrSharedReset, n)
	}
	return f.sim.Reset()
}

// Close ends the use of the function; the last one's ends the simulator.
func (f *Function) Close() error {
	if f.closed.Swap(true) {
		return nil
	}
	f.dma.Store(nil)
	if f.sim.open.Add(-1) == 0 {
		return f.sim.Close()
	}
	return nil
}
