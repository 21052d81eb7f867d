package firmware_test

import (
	"encoding/binary"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/dispatch/abi"
	"github.com/reprise-tt/reprise/dispatch/firmware"
	"github.com/reprise-tt/reprise/internal/seam"
	"github.com/reprise-tt/reprise/kernels"
	"github.com/reprise-tt/reprise/kmd"
	"github.com/reprise-tt/reprise/sim/driver"
	"github.com/reprise-tt/reprise/sim/emu"
	"github.com/reprise-tt/reprise/sim/ttsim/ttsimtest"
)

func TestMain(m *testing.M) { ttsimtest.Main(m) }

// Values of the interface between host and firmware, as kernels/include/reprise/abi.h has them.
const (
	signalInit, signalGo               = 0x40, 0x80
	signalReset, signalResetHost       = 0xC0, 0xE0
	signalReplay                       = 0xF0
	modeDevice, modeHost         uint8 = 0, 1
	preload                      uint8 = 0x80
)

type target struct {
	node seam.Node
	chip *emu.Chip
}

func (t *target) Node() seam.Node { return t.node }
func (t *target) String() string  { return "emulated card" }

type machine struct {
	t    *testing.T
	d    *kmd.Device
	c    *chip.Chip
	p    *chip.Params
	l1   *abi.L1Map
	emu  *emu.Chip // nil on the vendor's simulator
	work []chip.XY // virtual coordinates of all workers
}

func emulated(t *testing.T, cfg emu.Config) *machine {
	t.Helper()
	e, err := emu.New(cfg)
	must(t, err)
	drv, err := driver.New(driver.Config{Arch: cfg.Arch, Functions: []driver.Function{e}})
	must(t, err)
	t.Cleanup(func() { drv.Close() })
	m := open(t, &target{node: drv.Node(0), chip: e})
	m.emu = e
	m.boot()
	return m
}

func open(t *testing.T, target kmd.Target) *machine {
	t.Helper()
	d, err := kmd.Open(t.Context(), target)
	must(t, err)
	t.Cleanup(func() {
		if err := d.Fault(); err != nil {
			t.Errorf("the device stopped: %v", err)
		}
		d.Close()
	})
	h, err := d.Harvesting(t.Context())
	must(t, err)
	c, err := chip.New(d.Arch(), h)
	must(t, err)
	m := &machine{t: t, d: d, c: c, p: d.Arch().Params(), l1: &abi.Own(d.Arch()).L1}
	for core := range c.Workers() {
		xy, err := c.Virtual(core)
		must(t, err)
		m.work = append(m.work, xy)
	}
	return m
}

func (m *machine) read(xy chip.XY, addr uint32, n int) []byte {
	m.t.Helper()
	p := make([]byte, n)
	if err := m.d.Read(xy, uint64(addr), p); err != nil {
		m.t.Fatalf("%v (%v)", err, m.d.Fault())
	}
	return p
}

func (m *machine) write(xy chip.XY, addr uint32, p []byte) {
	m.t.Helper()
	if err := m.d.Write(xy, uint64(addr), p); err != nil {
		m.t.Fatalf("%v (%v)", err, m.d.Fault())
	}
}

func (m *machine) word(xy chip.XY, addr uint32) uint32 {
	m.t.Helper()
	return binary.LittleEndian.Uint32(m.read(xy, addr, 4))
}

func (m *machine) setWord(xy chip.XY, addr, v uint32) { m.write(xy, addr, words(v)) }

func words(v ...uint32) []byte {
	var p []byte
	for _, w := range v {
		p = binary.LittleEndian.AppendUint32(p, w)
	}
	return p
}

func (m *machine) boot() {
	m.t.Helper()
	images, err := firmware.Base(m.d.Arch())
	if err != nil {
		m.t.Fatal(err)
	}
	l1 := m.l1
	banks := m.bankTable()
	i := 0
	for core := range m.c.Workers() {
		xy := m.work[i]
		i++
		m.setWord(xy, m.p.SoftReset, m.p.ResetAll)
		for p, image := range images {
			m.write(xy, l1.Firmware[p], image)
		}
		base := l1.Firmware[chip.BRISC]
		m.setWord(xy, 0, base&0xFF000|base&0x800<<9|base&0x7FE<<20|0x6F) // JAL x0, base
		m.write(xy, l1.CoreInfo, append(words(abi.CoreInfoMagic, uint32(core.X)|uint32(core.Y)<<8), make([]byte, l1.CoreInfoSize-8)...))
		m.write(xy, l1.BankTable, banks)
		m.write(xy, l1.Launch, make([]byte, l1.LaunchEntries*l1.LaunchSize))
		m.setWord(xy, l1.GoIndex, 0)
		m.setWord(xy, l1.LaunchReadPtr, 0)
		m.write(xy, l1.Go, append([]byte{0, 0, 0, signalInit}, make([]byte, 4*(l1.GoEntries-1))...))
	}
	for _, xy := range m.work {
		m.setWord(xy, m.p.SoftReset, m.p.ResetAllButBRISC)
	}
	m.wait(0, m.work...)
}

func (m *machine) bankTable() []byte {
	return abi.Own(m.c.Arch()).Banks.Encode(m.c.DRAMBanks(), m.work)
}

// A chip that runs beside the test may get no processor for a while.
const (
	polls     = 1 << 20
	latePolls = 20_000
)

func again(n int) bool {
	if n >= polls {
		time.Sleep(time.Millisecond)
	}
	return n < polls+latePolls
}

func (m *machine) wait(index uint32, cores ...chip.XY) {
	m.t.Helper()
	for _, xy := range cores {
		for n := 0; m.read(xy, m.l1.Go+4*index+3, 1)[0] != 0; n++ {
			if !again(n) {
				m.t.Fatalf("core %v does not finish: %v", xy, m.states(xy))
			}
		}
	}
}

func (m *machine) until(what string, xy chip.XY, cond func() bool) {
	m.t.Helper()
	for n := 0; !cond(); n++ {
		if !again(n) {
			m.t.Fatalf("%s: never: %v", what, m.states(xy))
		}
	}
}

type state struct {
	waypoint       string
	detail, kernel uint32
}

func (s state) String() string { return fmt.Sprintf("%s %#x (%d)", s.waypoint, s.detail, s.kernel) }

func (m *machine) states(xy chip.XY) (all [chip.NumProcessors]state) {
	m.t.Helper()
	b := m.read(xy, m.l1.CoreState, int(m.l1.CoreStateSize)*chip.NumProcessors)
	le := binary.LittleEndian
	for p := range all {
		s := b[int(m.l1.CoreStateSize)*p:]
		all[p] = state{strings.TrimRight(string(s[:4]), " "), le.Uint32(s[4:]), le.Uint32(s[8:])}
	}
	return all
}

func (m *machine) completions(xy chip.XY, stream int) uint32 {
	m.t.Helper()
	return m.word(xy, m.p.Stream.Reg(m.p.Stream.FirstDispatch+stream, chip.SpaceAvailable))
}

type kernel struct {
	name         string
	args, common []uint32
}

type program struct {
	kernels map[chip.Processor]kernel
	buffers [][4]uint32 // circular buffers from 0: address, size, pages, page size
	mode    uint8
	preload uint8
	noc     uint8
	origin  chip.Core
}

func (m *machine) launch(xy chip.XY, p program) {
	m.t.Helper()
	l1 := m.l1
	slot := m.word(xy, l1.LaunchReadPtr)
	base := l1.KernelConfig + slot*0x2000
	var config []byte
	put := func(b []byte) uint16 {
		config = append(config, make([]byte, -len(config)&15)...)
		at := len(config)
		config = append(config, b...)
		return uint16(at)
	}
	msg := make([]byte, l1.LaunchSize)
	le := binary.LittleEndian
	le.PutUint32(msg, base)
	var cbs []byte
	for i, cb := range p.buffers {
		cbs = append(cbs, words(cb[:]...)...)
		le.PutUint32(msg[64:], le.Uint32(msg[64:])|1<<i)
	}
	le.PutUint16(msg[12:], put(nil))
	le.PutUint16(msg[18:], put(cbs))
	var enables uint32
	for proc, k := range p.kernels {
		le.PutUint16(msg[22+4*proc:], put(words(k.args...)))
		le.PutUint16(msg[24+4*proc:], put(words(k.common...)))
		im, err := kernels.Prebuilt(m.d.Arch(), k.name)
		if err != nil {
			m.t.Fatal(err)
		}
		if err := im.Fits(m.d.Arch(), proc); err != nil {
			m.t.Fatal(err)
		}
		le.PutUint32(msg[44+4*proc:], uint32(put(im.Text)))
		enables |= 1 << proc
	}
	if len(config) > 0x2000 {
		m.t.Fatalf("program of %d bytes", len(config))
	}
	msg[42] = p.mode
	msg[68] = p.noc
	msg[70] = 32
	le.PutUint32(msg[76:], enables)
	msg[92], msg[93] = uint8(p.origin.X), uint8(p.origin.Y)
	msg[95] = p.preload
	if len(config) > 0 {
		m.write(xy, base, config)
	}
	m.write(xy, l1.Launch+slot*l1.LaunchSize, msg)
}

func (m *machine) signal(xy chip.XY, index uint32, signal, stream uint8, master chip.XY) {
	m.t.Helper()
	m.write(xy, m.l1.Go+4*index, []byte{stream, master.X, master.Y, signal})
}

func (m *machine) run(xy chip.XY, p program) {
	m.t.Helper()
	m.launch(xy, p)
	m.signal(xy, 0, signalGo, 0, m.work[0])
	m.wait(0, xy)
}
