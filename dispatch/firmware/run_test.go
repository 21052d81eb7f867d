package firmware_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"testing"

	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/internal/effort"
	"github.com/reprise-tt/reprise/kernels"
	"github.com/reprise-tt/reprise/kmd"
	"github.com/reprise-tt/reprise/sim/emu"
	"github.com/reprise-tt/reprise/sim/ttsim/ttsimtest"
)

var arches = []chip.Arch{chip.Wormhole, chip.Blackhole}

// everywhere runs a test on the emulator and on the vendor's simulator where that is at hand.
func everywhere(t *testing.T, test func(*testing.T, *machine)) {
	seeds := effort.Of[uint64](1, 3, 3)
	if testing.Short() {
		seeds = 1
	}
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
		if n := m.word(xy, m.l1.LaunchReadPtr); n != 0 {
			t.Errorf("launch read pointer %d, want 0", n)
		}
		if n := m.completions(master, 0); n != 0 {
			t.Errorf("%d completions, want none", n)
		}
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
				if got := m.word(xy, m.scratch()+16*uint32(proc)); got != uint32(proc)<<16+uint32(i) {
					t.Errorf("launch %d: %v left %#x", i, proc, got)
				}
			}
			entry := m.read(xy, m.l1.Launch+slot*m.l1.LaunchSize, int(m.l1.LaunchSize))
			if e := binary.LittleEndian.Uint32(entry[76:]); e != 0 || entry[95] != 0 {
				t.Errorf("launch %d: enables %#x, preload %#x left", i, e, entry[95])
			}
			if n := m.word(xy, m.l1.LaunchReadPtr); n != uint32(i+1)%m.l1.LaunchEntries {
				t.Errorf("launch %d: read pointer %d", i, n)
			}
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
			if n := pointer(); n != 0 {
				t.Errorf("signal %#x: read pointer %d", signal, n)
			}
		}
		advance()
		m.signal(xy, index, signalResetHost, stream, master)
		m.until("pointer reset", xy, func() bool { return pointer() == 0 })
		if s := m.read(xy, m.l1.Go+4*index+3, 1)[0]; s != signalResetHost {
			t.Errorf("the host's reset signal became %#x", s)
		}
		m.signal(xy, index, 0, stream, master)
		advance()
		if n := m.completions(master, stream); n != counted {
			t.Errorf("%d completions, want %d: the host's reset must not count", n, counted)
		}
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
	if err := m.d.Write(xy, addr, p); err != nil {
		m.t.Fatal(err)
	}
}

func (m *machine) readPage(base, pageSize, page uint32) []byte {
	m.t.Helper()
	xy, addr := m.page(base, pageSize, page)
	p := make([]byte, pageSize)
	if err := m.d.Read(xy, addr, p); err != nil {
		m.t.Fatal(err)
	}
	return p
}

var _ kmd.Target = (*target)(nil)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

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
