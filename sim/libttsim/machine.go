package libttsim

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/reprise-tt/reprise/allocator"
	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/internal/usage"
	"github.com/reprise-tt/reprise/sim"
	"github.com/reprise-tt/reprise/sim/driver"
	"github.com/reprise-tt/reprise/sim/emu"
	"github.com/reprise-tt/reprise/sim/serve"
	"github.com/reprise-tt/reprise/sim/serve/cards"
	"github.com/reprise-tt/reprise/sim/serve/umd"
)

var (
	// ErrMisuse: an access that the interface doesn't allow.
	ErrMisuse = errors.New("misuse of the simulator interface")
	// ErrStopped: an access to a stopped chip.
	ErrStopped = errors.New("the chip has stopped")
)

// deviceStride separates consecutive devices' BARs, in bytes, beyond a Blackhole's BAR 4 of 64 GiB.
const deviceStride = 1 << 40

// Machine is an emulated machine with its PCI functions. Call Close last.
type Machine struct {
	settings  Settings
	emulated  *sim.Machine
	chips     []*emu.Chip
	functions []*emu.Chip // chips by PCI device number
	bars      [3]barRange // of device 0
	last      [2]atomic.Uint64

	record *recorder // or nil

	logs     []*usage.Log
	samplers []*usage.Sampler

	closed  chan struct{}
	running sync.WaitGroup
	stop    context.CancelFunc
}

type barRange struct {
	bar        int
	start, end uint64 // physical addresses
}

// Start starts a machine. Its chips access host memory from their own goroutines until Close
// returns. stopped is called once, from another goroutine, with the next access's error. Errors
// wrap ErrSettings, emu.ErrConfig, or are those of listening at Settings.Serve.
func Start(s Settings, memory driver.DMA, stopped func(error), more ...sim.Option) (*Machine, error) {
	spec, opts, err := s.machine()
	if err != nil {
		return nil, err
	}
	w, err := s.waivers()
	if err != nil {
		return nil, err
	}
	opts = append(append(opts, sim.Waive(w...)), more...)
	if s.Findings != "" {
		opts = append(opts, sim.RefreshWaivers(s.waiverRefresher()))
	}
	m := &Machine{settings: s, closed: make(chan struct{})}
	if s.Record != "" {
		if m.record, err = newRecorder(s.Record, s.Machine); err != nil {
			return nil, err
		}
	}
	m.emulated = sim.NewMachine(spec, append(opts, sim.UsedBy(func(int) driver.DMA { return m.record.memory(memory) }))...)
	if err := m.emulated.Err(); err != nil {
		return nil, fmt.Errorf("libttsim: start: %w", err)
	}
	for i, s := range spec.Chips {
		c := m.emulated.Chip(i)
		m.chips = append(m.chips, c)
		if s.PCI {
			m.functions = append(m.functions, c)
		}
	}
	params := spec.Arch.Params()
	for i, bar := range []int{0, 2, 4} {
		start := m.address(0, bar)
		m.bars[i] = barRange{bar: bar, start: start, end: start + params.PCI.BARSize[bar]}
	}
	if err := m.serve(); err != nil {
		return nil, errors.Join(err, m.Close())
	}
	m.openLogs(usage.Dir)
	var once sync.Once
	for i := range m.chips {
		go m.watch(i, func(err error) { once.Do(func() { stopped(err) }) })
	}
	return m, nil
}

func (m *Machine) watch(i int, report func(error)) {
	select {
	case <-m.chips[i].Stopped():
	case <-m.closed:
		return
	}
	select {
	case <-m.closed: // closing stops the chips
	default:
		report(m.fault())
	}
}

func (m *Machine) address(device int, bar int) uint64 {
	c := m.functions[device]
	lo, hi := c.ConfigRead(0x10+4*uint32(bar)), c.ConfigRead(0x14+4*uint32(bar))
	return uint64(hi)<<32 | uint64(lo&^0xF)
}

func (m *Machine) serve() error {
	ctx, stop := context.WithCancel(context.Background())
	m.stop = stop
	if m.settings.ServeUMD != "" {
		if err := m.serveUMD(ctx); err != nil {
			return err
		}
	}
	if m.settings.Serve == "" {
		return nil
	}
	d, err := m.emulated.Driver()
	if err != nil {
		return err
	}
	for i := range m.functions {
		path := m.settings.Serve
		if i > 0 {
			path = fmt.Sprintf("%s.%d", path, i)
		}
		l, err := serve.Listen(path)
		if err != nil {
			return fmt.Errorf("libttsim: serve at %s: %w", path, err)
		}
		m.running.Go(func() { _ = cards.Serve(ctx, l, d, i) }) // problems of other tools don't concern the host
	}
	return nil
}

var blackholeCores = regexp.MustCompile(`\b8-[23579],\s*`)

// toolsTiles returns a soc_descriptor.yaml with Blackhole's security and L2CPU tiles. In the one of
// TT-NN they are routers, whose NIUs have another address (tt-umd blackhole_implementation.hpp).
func toolsTiles(soc string) string {
	if !strings.Contains(soc, "BLACKHOLE") || strings.Contains(soc, "l2cpu:") {
		return soc
	}
	return blackholeCores.ReplaceAllString(soc, "") + "\nsecurity: [8-2]\nl2cpu: [8-3, 8-5, 8-7, 8-9]\n"
}

func (m *Machine) serveUMD(ctx context.Context) error {
	soc, err := os.ReadFile(filepath.Join(m.settings.Described, "soc_descriptor.yaml"))
	if err != nil {
		return fmt.Errorf("libttsim: serve tt-umd: %w: %w", ErrSettings, err)
	}
	cluster, err := os.ReadFile(filepath.Join(m.settings.Described, "cluster_descriptor.yaml"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("libttsim: serve tt-umd: %w: %w", ErrSettings, err)
	}
	spec := m.Spec()
	for i, c := range m.chips {
		l, err := serve.Listen(umd.Socket(m.settings.ServeUMD, i))
		if err != nil {
			return fmt.Errorf("libttsim: serve tt-umd: %w", err)
		}
		s := &umd.Chip{Arch: spec.Arch, Harvesting: spec.Chips[i].Harvesting, UnusedPCIe: UnusedPCIe(spec.Arch, &spec.Chips[i]),
			SOC: toolsTiles(string(soc)), Simulator: filepath.Join(m.settings.Described, "libttsim.so"), Cluster: string(cluster),
			Observe: func() umd.Tiles { return c.Observe() },
			Warn:    func(text string) { fmt.Fprintf(os.Stderr, "reprise: chip %d: %s\n", i, text) }}
		m.running.Go(func() { s.Serve(ctx, l) })
	}
	return nil
}

// Settings returns the settings of Start.
func (m *Machine) Settings() Settings { return m.settings }

// Spec returns the machine's description.
func (m *Machine) Spec() chip.Machine { return m.emulated.Spec() }

// Chips returns the emulated chips, in the order of Spec.
func (m *Machine) Chips() []*emu.Chip { return m.chips }

// Cards returns the machine's cards, for inspection.
func (m *Machine) Cards() []*sim.Card { return m.emulated.Cards() }

// ConfigRead reads the word at off of a function's configuration space, all ones if missing; bdf is
// bus<<8 | device<<3 | function. The error wraps ErrMisuse for a bus or function other than 0, or a
// misaligned offset.
func (m *Machine) ConfigRead(bdf, off uint32) (uint32, error) {
	device := bdf >> 3
	switch {
	case bdf&7 != 0 || device > 31:
		return 0, fmt.Errorf("libttsim: configuration of %02x:%02x.%x: %w: only bus 0 and function 0 have cards", bdf>>8, bdf>>3&31,
			bdf&7, ErrMisuse)
	case off&3 != 0 || off >= 4096:
		return 0, fmt.Errorf("libttsim: configuration word at %#x: %w: want a multiple of 4 below 4096", off, ErrMisuse)
	case int(device) >= len(m.functions):
		return 0xFFFF_FFFF, nil
	}
	v := m.functions[device].ConfigRead(off)
	if off == 0x14 || off == 0x1C || off == 0x24 { // the upper half of a BAR
		v += device * (deviceStride >> 32)
	}
	return v, m.fault()
}

func (m *Machine) locate(address uint64, n int) (c *emu.Chip, bar int, off uint64, err error) {
	device, at := address/deviceStride, address%deviceStride
	if device < uint64(len(m.functions)) {
		for _, r := range m.bars {
			if at >= r.start && at < r.end && uint64(n) <= r.end-at {
				return m.functions[device], r.bar, at - r.start, nil
			}
		}
	}
	return nil, 0, 0, fmt.Errorf("libttsim: %d bytes at physical address %#x: %w: they are in no BAR of the %d cards", n, address,
		ErrMisuse,
		len(m.functions))
}

// Read reads at a physical address in a BAR, in one load if naturally aligned and of 4 or 8 bytes.
// The error wraps ErrMisuse or ErrStopped.
func (m *Machine) Read(address uint64, p []byte) error {
	c, bar, off, err := m.locate(address, len(p))
	if err != nil {
		return err
	}
	m.note(address, len(p), 0)
	if n := len(p); (n == 4 || n == 8) && off%uint64(n) == 0 {
		var b [8]byte
		binary.LittleEndian.PutUint64(b[:], c.BARLoad(bar, off, n))
		copy(p, b[:])
	} else {
		c.BARRead(bar, off, p)
	}
	return m.fault()
}

// Write writes like Read. A store may be performed after Write has returned.
func (m *Machine) Write(address uint64, p []byte) error {
	c, bar, off, err := m.locate(address, len(p))
	if err != nil {
		return err
	}
	m.note(address, len(p), 1)
	if n := len(p); (n == 4 || n == 8) && off%uint64(n) == 0 {
		var b [8]byte
		copy(b[:], p)
		c.BARStore(bar, off, n, binary.LittleEndian.Uint64(b[:]))
	} else {
		c.BARWrite(bar, off, p)
	}
	m.record.step(m.chips, c)
	return m.fault()
}

// ReadTile reads a tile of the first card, at its virtual NoC 0 coordinate. The error wraps
// emu.ErrRefused or ErrStopped.
func (m *Machine) ReadTile(at chip.XY, address uint64, p []byte) error {
	if err := m.functions[0].Observe().ReadTile(at, address, p); err != nil {
		return fmt.Errorf("libttsim: %w", err)
	}
	return m.fault()
}

// WriteTile writes p like ReadTile.
func (m *Machine) WriteTile(at chip.XY, address uint64, p []byte) error {
	if err := m.functions[0].Observe().WriteTile(at, address, p); err != nil {
		return fmt.Errorf("libttsim: %w", err)
	}
	return m.fault()
}

func (m *Machine) fault() error {
	for i, c := range m.chips {
		if err := c.Fault(); err != nil {
			return &StoppedError{Chip: i, Fault: err}
		}
	}
	return nil
}

// StoppedError is a stopped chip's reason. It wraps ErrStopped.
type StoppedError struct {
	Chip  int // of the machine's Spec
	Fault error
}

func (e *StoppedError) Error() string { return fmt.Sprintf("libttsim: chip %d: %v", e.Chip, e.Fault) }

func (e *StoppedError) Unwrap() []error { return []error{ErrStopped, e.Fault} }

// LastAccess returns the physical address and bytes of the host's newest access to a BAR, and
// whether it wrote; not ok before the first. During an access the results may mix.
func (m *Machine) LastAccess() (address uint64, n int, write, ok bool) {
	what := m.last[1].Load()
	return m.last[0].Load(), int(what >> 1), what&1 != 0, what != 0
}

func (m *Machine) note(address uint64, n int, write uint64) {
	m.last[0].Store(address)
	m.last[1].Store(uint64(n)<<1 | write)
}

// openLogs shows other processes what the chips do and how much DRAM was written: which of it is in
// use only TT-NN knows. A log that can't be created is missing.
func (m *Machine) openLogs(dir string) {
	arch := m.Spec().Arch
	p := arch.Params()
	for i, c := range m.chips {
		log, err := usage.Create(dir, usage.Device{Name: fmt.Sprintf("emulated %v %d for TT-NN", arch, i), Arch: arch.String(), NUMANode: -1,
			Emulated: true})
		if err != nil {
			continue
		}
		var a usage.Activity
		m.logs = append(m.logs, log)
		m.samplers = append(m.samplers, usage.StartSampler(log, 50*time.Millisecond, func() {
			l := c.Load()
			a.Samples, a.Workers, a.Busy = a.Samples+1, uint64(l.Tiles), a.Busy+uint64(l.Busy)
			log.SetActivity(a)
			log.Set(allocator.DRAM, allocator.Usage{Capacity: uint64(p.DRAMBanks) * p.DRAMBankSize, Allocated: l.DRAM, Peak: l.DRAM})
		}))
	}
}

// Close ends the machine. Afterwards no chip accesses host memory and no socket is left.
func (m *Machine) Close() error {
	close(m.closed)
	for i, s := range m.samplers {
		s.Stop()
		_ = m.logs[i].Close() // the next log's owner sweeps it away
	}
	m.stop()
	m.running.Wait()
	return errors.Join(m.emulated.Close(), m.record.close())
}
