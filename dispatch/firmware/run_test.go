package firmware_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/dispatch/abi"
	"github.com/reprise-tt/reprise/dispatch/firmware"
	"github.com/reprise-tt/reprise/internal/effort"
	"github.com/reprise-tt/reprise/internal/expect"
	"github.com/reprise-tt/reprise/internal/seam"
	"github.com/reprise-tt/reprise/kernels"
	"github.com/reprise-tt/reprise/kmd"
	"github.com/reprise-tt/reprise/sim/driver"
	"github.com/reprise-tt/reprise/sim/emu"
	"github.com/reprise-tt/reprise/sim/ttsim/ttsimtest"
)

var arches = []chip.Arch{chip.Wormhole, chip.Blackhole}

// everywhere runs a test on the emulator and on the vendor's simulator where that is at hand.
func everywhere(t *testing.T, test func(*testing.T, *machine)) {
	seeds := effort.Of[uint64](1, 3, 3)
	for _, arch := range arches {
		t.Run(arch.String(), func(t *testing.T) {
			t.Run("emulator", func(t *testing.T) { test(t, emulated(t, emu.Config{Arch: arch})) })
			for seed := range seeds {
				t.Run(fmt.Sprintf("emulator slow NoC seed %d", seed), func(t *testing.T) {
					test(t, emulated(t, emu.Config{Arch: arch, Seed: seed, Synchronous: true, Delay: 300}))
				})
			}
			for seed := range seeds {
				t.Run(fmt.Sprintf("emulator strict seed %d", seed), func(t *testing.T) {
					test(t, emulated(t, emu.Config{
						Arch: arch, Seed: seed, Delay: 300, Synchronous: seed&1 != 0,
						RefuseUnwritten: true, RefuseStaleCode: true, RefuseRaces: true, RefuseCounters: true, DataCache: true,
					}))
				})
			}
			t.Run("ttsim", func(t *testing.T) {
				variable := map[chip.Arch]string{chip.Wormhole: ttsimtest.Wormhole, chip.Blackhole: ttsimtest.Blackhole}[arch]
				m := open(t, ttsimtest.Card(t, variable))
				m.boot()
				test(t, m)
			})
		})
	}
}

// scratch is L1 for tests, above what the runtime allocates.
func (m *machine) scratch() uint32 { return m.l1.Unreserved&^0xFFF + 0x1000 }

func TestBoot(t *testing.T) {
	everywhere(t, func(t *testing.T, m *machine) {
		idle := state{waypoint: "IDLE"}
		for _, xy := range m.work {
			m.until("idle", xy, func() bool { return m.states(xy) == [5]state{idle, idle, idle, idle, idle} })
		}
		if z := m.read(m.work[3], m.l1.Zeros, int(m.l1.ZerosSize)); !bytes.Equal(z, make([]byte, len(z))) {
			t.Error("the zeros are not zero")
		}
	})
}

func TestHostMode(t *testing.T) {
	everywhere(t, func(t *testing.T, m *machine) {
		xy, master := m.work[9], m.work[0]
		for round := range uint32(3) {
			p := program{mode: modeHost, kernels: map[chip.Processor]kernel{}}
			for proc := range chip.Processor(5) {
				p.kernels[proc] = kernel{name: kernels.Store, args: []uint32{m.scratch() + 16*uint32(proc), 2, uint32(proc), round},
					common: []uint32{100}}
			}
			m.run(xy, p)
			for proc := range uint32(5) {
				want := words(100+proc, 100+round)
				if got := m.read(xy, m.scratch()+16*proc, 8); !bytes.Equal(got, want) {
					t.Errorf("%v stored %x, want %x", chip.Processor(proc), got, want)
				}
			}
		}
		expect.Equal(t, m.word(xy, m.l1.LaunchReadPtr), 0, "launch read pointer")
		expect.Equal(t, m.completions(master, 0), 0, "completions")
	})
}

func TestDeviceMode(t *testing.T) {
	everywhere(t, func(t *testing.T, m *machine) {
		xy, master := m.work[9], m.work[4]
		const stream = 5
		for i := range 20 {
			early := i%3 != 0
			p := program{mode: modeDevice, noc: uint8(i & 1), kernels: map[chip.Processor]kernel{}}
			if early {
				p.preload = preload
			}
			for proc := range chip.Processor(5) {
				if i%4 == 3 && proc != chip.Processor(i%5) {
					continue // now and then one processor alone
				}
				p.kernels[proc] = kernel{name: kernels.Store, args: []uint32{m.scratch() + 16*uint32(proc), 1, uint32(i)},
					common: []uint32{uint32(proc) << 16}}
			}
			m.launch(xy, p)
			if early {
				for proc := range p.kernels {
					m.until("ready", xy, func() bool { return m.states(xy)[proc].waypoint == "GOW" })
					if got := m.word(xy, m.scratch()+16*uint32(proc)); got == uint32(proc)<<16+uint32(i) {
						t.Errorf("launch %d: %v did not wait for its go signal", i, proc)
					}
				}
			}
			slot := m.word(xy, m.l1.LaunchReadPtr)
			m.signal(xy, 0, signalGo, stream, master)
			m.wait(0, xy)
			m.until("counted", master, func() bool { return m.completions(master, stream) == uint32(i+1) })
			for proc := range p.kernels {
				expect.Equal(t, m.word(xy, m.scratch()+16*uint32(proc)), uint32(proc)<<16+uint32(i), "launch %d: %v left", i, proc)
			}
			entry := m.read(xy, m.l1.Launch+slot*m.l1.LaunchSize, int(m.l1.LaunchSize))
			e := binary.LittleEndian.Uint32(entry[76:])
			expect.Equal(t, e, 0, "launch %d", i)
			expect.Equal(t, entry[95], 0, "launch %d", i)
			expect.Equal(t, m.word(xy, m.l1.LaunchReadPtr), uint32(i+1)%m.l1.LaunchEntries, "launch %d: read pointer", i)
		}
	})
}

func TestUnusedCore(t *testing.T) {
	everywhere(t, func(t *testing.T, m *machine) {
		master := m.work[0]
		for _, xy := range m.work {
			m.signal(xy, 0, signalGo, 2, master)
		}
		m.wait(0, m.work...)
		m.until("counted", master, func() bool { return m.completions(master, 2) == uint32(len(m.work)) })
		for _, xy := range m.work {
			if n := m.word(xy, m.l1.LaunchReadPtr); n != 1 {
				t.Fatalf("core %v: read pointer %d, want 1", xy, n)
			}
		}
	})
}

func TestResetSignals(t *testing.T) {
	everywhere(t, func(t *testing.T, m *machine) {
		xy, master := m.work[6], m.work[1]
		const index, stream = 7, 3
		m.setWord(xy, m.l1.GoIndex, index)
		counted := uint32(0)
		advance := func() {
			m.signal(xy, index, signalGo, stream, master)
			m.wait(index, xy)
			counted++
			m.until("counted", master, func() bool { return m.completions(master, stream) == counted })
			if n := m.word(xy, m.l1.LaunchReadPtr); n != 1 {
				t.Fatalf("read pointer %d, want 1", n)
			}
		}
		pointer := func() uint32 { return m.word(xy, m.l1.LaunchReadPtr) }
		for _, signal := range []uint8{signalReset, signalReplay} {
			advance()
			m.signal(xy, index, signal, stream, master)
			m.wait(index, xy)
			counted++
			m.until("counted", master, func() bool { return m.completions(master, stream) == counted })
			expect.Equal(t, pointer(), 0, "signal %#x: read pointer", signal)
		}
		advance()
		m.signal(xy, index, signalResetHost, stream, master)
		m.until("pointer reset", xy, func() bool { return pointer() == 0 })
		expect.Equal(t, m.read(xy, m.l1.Go+4*index+3, 1)[0], signalResetHost, "the host's reset signal became")
		m.signal(xy, index, 0, stream, master)
		advance()
		expect.Equal(t, m.completions(master, stream), counted, "completions: the host's reset must not count")
	})
}

func TestWaypoints(t *testing.T) {
	everywhere(t, func(t *testing.T, m *machine) {
		xy := m.work[2]
		flag := m.scratch()
		p := program{mode: modeHost, kernels: map[chip.Processor]kernel{}, buffers: [][4]uint32{{m.scratch() + 0x100, 64, 4, 16},
			{m.scratch() + 0x200, 64, 4, 16}}}
		for proc := range chip.Processor(4) {
			m.setWord(xy, flag+16*uint32(proc), 0)
			p.kernels[proc] = kernel{name: kernels.Spin, args: []uint32{flag + 16*uint32(proc), 7}}
		}
		p.kernels[chip.TRISC2] = kernel{name: kernels.Add, args: []uint32{1, 0, 1, 0}} // no core fills buffer 1
		m.launch(xy, p)
		m.signal(xy, 0, signalGo, 0, m.work[0])
		want := [5]state{{"SEMW", flag, 1}, {"SEMW", flag + 16, 1}, {"SEMW", flag + 32, 1}, {"SEMW", flag + 48, 1}, {"CWFW", 1, 1}}
		m.until("all wait", xy, func() bool { return m.states(xy) == want })
		for proc := range uint32(4) {
			m.setWord(xy, flag+16*proc, 7)
		}
		m.until("BRISC waits for the others", xy, func() bool { return m.states(xy)[0].waypoint == "WAIT" })
	})
}

func TestWaitingCoresRest(t *testing.T) {
	for _, arch := range arches {
		t.Run(arch.String(), func(t *testing.T) {
			m := emulated(t, emu.Config{Arch: arch, Synchronous: true})
			busy, other := m.work[2], m.work[3]
			rest := func(what string) {
				t.Helper()
				count := func() (n uint64) {
					for core := range m.c.Workers() {
						raw, err := m.c.Physical(core)
						must(t, err)
						for p := range chip.Processor(5) {
							n += m.emu.Retired(raw, p)
						}
					}
					return n
				}
				m.setWord(other, m.scratch()+0x4000, 1)
				before := count()
				for i := range uint32(100) {
					m.setWord(other, m.scratch()+0x4000, i) // no core waits for this word
				}
				if n := count() - before; n > 0 {
					t.Errorf("%s: the chip ran %d instructions with nothing to do", what, n)
				}
			}
			rest("idle")
			m.setWord(busy, m.scratch(), 0)
			spin := kernel{name: kernels.Spin, args: []uint32{m.scratch(), 7}}
			all := program{mode: modeDevice, preload: preload,
				kernels: map[chip.Processor]kernel{0: spin, 1: spin, 2: spin, 3: spin, 4: spin}}
			m.launch(busy, all)
			rest("waiting for the go signal")
			m.signal(busy, 0, signalGo, 0, m.work[0])
			rest("waiting for a semaphore")
			m.setWord(busy, m.scratch(), 7)
			m.wait(0, busy)
			m.signal(busy, 0, signalResetHost, 0, m.work[0])
			rest("host's reset signal standing")
		})
	}
}

func (m *machine) page(base, pageSize, page uint32) (chip.XY, uint64) {
	banks := m.c.DRAMBanks()
	b := banks[int(page)%len(banks)]
	return b.HostEndpoint, b.Offset + uint64(base+page/uint32(len(banks))*pageSize)
}

func (m *machine) writePage(base, pageSize, page uint32, p []byte) {
	m.t.Helper()
	xy, addr := m.page(base, pageSize, page)
	expect.Must(m.t, m.d.Write(xy, addr, p))
}

func (m *machine) readPage(base, pageSize, page uint32) []byte {
	m.t.Helper()
	xy, addr := m.page(base, pageSize, page)
	p := make([]byte, pageSize)
	expect.Must(m.t, m.d.Read(xy, addr, p))
	return p
}

var _ kmd.Target = (*target)(nil)

var must = expect.Must

// After a kernel's end was reported, its results may be read, and the next program takes over its
// NoC's counters. The emulator refuses a tile that reports the end sooner.
func TestKernelsEndWithTheirRequests(t *testing.T) {
	const pageSize, source, destination, pages = 64, 0x100000, 0x400000, 5
	for _, arch := range arches {
		copies := func(proc chip.Processor) map[chip.Processor]kernel {
			return map[chip.Processor]kernel{proc: {name: kernels.Copy, args: []uint32{source, destination, 0, pages, pageSize, 0}}}
		}
		reader := kernel{name: kernels.CopyReader, args: []uint32{source, 0, pages, pageSize, 16}}
		for _, c := range []struct {
			name    string
			kernels map[chip.Processor]kernel
		}{
			{"copy on BRISC", copies(chip.BRISC)},
			{"copy on NCRISC", copies(chip.NCRISC)},
			{"copy_writer on NCRISC", map[chip.Processor]kernel{
				chip.BRISC: reader, chip.NCRISC: {name: kernels.CopyWriter, args: []uint32{destination, 0, pages, pageSize, 16}},
			}},
			{"copy_writer on BRISC", map[chip.Processor]kernel{
				chip.NCRISC: reader, chip.BRISC: {name: kernels.CopyWriter, args: []uint32{destination, 0, pages, pageSize, 16}},
			}},
		} {
			for noc := range uint8(2) {
				t.Run(fmt.Sprintf("%v %s NoC %d", arch, c.name, noc), func(t *testing.T) {
					m := emulated(t, emu.Config{Arch: arch, Seed: uint64(noc), Delay: 300, RefuseRaces: true})
					p := program{mode: modeDevice, noc: noc, kernels: map[chip.Processor]kernel{}, buffers: make([][4]uint32, 17)}
					for i := range p.buffers {
						p.buffers[i] = [4]uint32{m.scratch() + 0x100 + uint32(i)*8*pageSize, 8 * pageSize, 8, pageSize}
					}
					for proc, k := range c.kernels {
						if k.name == kernels.Copy {
							k.args[5] = m.scratch()
						}
						p.kernels[proc] = k
					}
					want := bytes.Repeat([]byte{1, 2, 3, noc + 4}, pageSize/4)
					for i := range uint32(pages) {
						m.writePage(source, pageSize, i, want)
					}
					m.writePage(destination, pageSize, 0, make([]byte, pageSize))
					m.run(m.work[8], p)
					m.until("counted", m.work[0], func() bool { return m.completions(m.work[0], 0) == 1 })
					if got := m.readPage(destination, pageSize, 0); !bytes.Equal(got, want) {
						t.Errorf("the kernel has ended, and its page holds %x, not %x", got, want)
					}
				})
			}
		}
	}
}

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
		expect.Fails(t, d.Fault(), nil, "the device stopped")
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
	images := expect.Value(firmware.Base(m.d.Arch()))(m.t)
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
		im := expect.Value(kernels.Prebuilt(m.d.Arch(), k.name))(m.t)
		expect.Must(m.t, im.Fits(m.d.Arch(), proc))
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
