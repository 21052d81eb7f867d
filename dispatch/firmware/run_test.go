package firmware_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/kernels"
	"github.com/reprise-tt/reprise/kmd"
	"github.com/reprise-tt/reprise/sim/emu"
	"github.com/reprise-tt/reprise/sim/ttsim/ttsimtest"
)

var arches = []chip.Arch{chip.Wormhole, chip.Blackhole}

// everywhere runs a test on each architecture: on the emulator, with requests of the NoC that take
// their time and memory that must be written before it is read, and on the vendor's simulator where
// that is at hand. In short it takes one order of the processors instead of three.
func everywhere(t *testing.T, test func(*testing.T, *machine)) {
	seeds := uint64(3)
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

// scratch is L1 for tests: above what the runtime gives to anybody.
func (m *machine) scratch() uint32 { return m.l1.Unreserved&^0xFFF + 0x1000 }

// After boot every core waits at the same place, and knows who it is.
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

// In host mode the core says DONE and nothing else changes: no completion, the launch ring stays.
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

// In device mode an entry is cleared, the ring advances and wraps, and the master counts one
// completion for each go signal, on the stream that the signal names. With preload the core gets
// ready before the signal and no further.
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

// A core that a program doesn't use gets its go signal all the same, and only reports back.
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

// The three signals that take the launch ring back to its start, each with its own answer, also on
// a go message other than the first.
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

// A hang report can tell what each core of a tile waits for.
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

// Cores that wait run nothing: each polling loop is one an emulator can recognize and park, idle or
// inside a kernel.
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
						if err != nil {
							t.Fatal(err)
						}
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
			all := program{mode: modeDevice, preload: preload, kernels: map[chip.Processor]kernel{0: spin, 1: spin, 2: spin, 3: spin, 4: spin}}
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

// Pages travel through three processors that compute and two that move data, by four circular
// buffers of different depths; a second program finds the buffers' counters at zero.
func TestPipeline(t *testing.T) {
	everywhere(t, func(t *testing.T, m *machine) {
		const pages, pageSize, source, destination = 9, 256, 0x10000, 0x20000
		rng := rand.New(rand.NewPCG(1, 2))
		for i := range uint32(pages) {
			p := make([]byte, pageSize)
			for j := range p {
				p[j] = byte(rng.Uint32())
			}
			m.writePage(source, pageSize, i, p)
		}
		buffer := func(i, depth uint32) [4]uint32 {
			return [4]uint32{m.scratch() + 0x2000*i, depth * pageSize, depth, pageSize}
		}
		xy := m.work[5]
		copyArgs := func(base, cb uint32) []uint32 { return []uint32{base, 0, pages, pageSize, cb} }
		for round := range uint8(2) {
			for i := range uint32(pages) {
				m.writePage(destination, pageSize, i, make([]byte, pageSize))
			}
			m.run(xy, program{
				mode: modeDevice, noc: round, preload: preload * round,
				kernels: map[chip.Processor]kernel{
					chip.BRISC:  {name: kernels.CopyReader, args: copyArgs(source, 0)},
					chip.NCRISC: {name: kernels.CopyWriter, args: copyArgs(destination, 3)},
					chip.TRISC0: {name: kernels.Add, args: []uint32{0, 1, pages, 1}},
					chip.TRISC1: {name: kernels.Add, args: []uint32{1, 2, pages, 10}},
					chip.TRISC2: {name: kernels.Add, args: []uint32{2, 3, pages, 100}},
				},
				buffers: [][4]uint32{buffer(0, 2), buffer(1, 3), buffer(2, 1), buffer(3, 4)},
			})
			for i := range uint32(pages) {
				want := m.readPage(source, pageSize, i)
				for j := 0; j < len(want); j += 4 {
					binary.LittleEndian.PutUint32(want[j:], binary.LittleEndian.Uint32(want[j:])+111)
				}
				if diff := cmp.Diff(want, m.readPage(destination, pageSize, i)); diff != "" {
					t.Fatalf("round %d page %d (-want +got)\n%s", round, i, diff)
				}
			}
		}
	})
}

// One processor copies on either NoC, pages larger than a NoC packet too.
func TestCopy(t *testing.T) {
	everywhere(t, func(t *testing.T, m *machine) {
		const pages, source, destination = 5, 0x100000, 0x400000
		pageSize := m.p.MaxBurst + 4096
		for noc := range uint8(2) {
			for _, proc := range []chip.Processor{chip.BRISC, chip.NCRISC} {
				for i := range uint32(pages) {
					m.writePage(source, pageSize, i, bytes.Repeat([]byte{byte(i), noc, byte(proc), 1}, int(pageSize/4)))
				}
				m.run(m.work[8], program{mode: modeHost, noc: noc, kernels: map[chip.Processor]kernel{
					proc: {name: kernels.Copy, args: []uint32{source, destination, 0, pages, pageSize, m.scratch()}},
				}})
				for i := range uint32(pages) {
					if !bytes.Equal(m.readPage(source, pageSize, i), m.readPage(destination, pageSize, i)) {
						t.Errorf("NoC %d %v: page %d differs", noc, proc, i)
					}
				}
			}
		}
	})
}

// page returns where the host finds a page of an interleaved buffer.
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

// Two cores at opposite corners raise each other's semaphores.
func TestPingPong(t *testing.T) {
	everywhere(t, func(t *testing.T, m *machine) {
		a, b := m.work[0], m.work[len(m.work)-1]
		const turns = 30
		for _, proc := range []chip.Processor{chip.BRISC, chip.NCRISC} {
			for _, side := range []struct {
				me, other chip.XY
				begins    uint32
			}{{a, b, 1}, {b, a, 0}} {
				m.launch(side.me, program{mode: modeHost, semaphores: []uint32{0, 0, 0}, kernels: map[chip.Processor]kernel{
					proc: {name: kernels.PingPong, args: []uint32{uint32(side.other.X), uint32(side.other.Y), 2, turns, side.begins, m.scratch()}},
				}})
				m.setWord(side.me, m.scratch(), 0)
			}
			m.signal(a, 0, signalGo, 0, a)
			m.signal(b, 0, signalGo, 0, a)
			m.wait(0, a, b)
			for _, xy := range []chip.XY{a, b} {
				if n := m.word(xy, m.scratch()); n != turns {
					t.Errorf("%v: core %v took %d turns", proc, xy, n)
				}
			}
		}
	})
}

// One core sends to a rectangle that it lies in, on each NoC, more than a packet at once.
func TestMulticast(t *testing.T) {
	everywhere(t, func(t *testing.T, m *machine) {
		rect := m.c.Rects(chip.Range{Start: chip.Core{X: 1, Y: 2}, End: chip.Core{X: 5, Y: 6}})
		if len(rect) != 1 {
			t.Fatalf("%d rectangles", len(rect))
		}
		var cores []chip.XY
		for x := 1; x <= 5; x++ {
			for y := 2; y <= 6; y++ {
				xy, err := m.c.Virtual(chip.Core{X: x, Y: y})
				if err != nil {
					t.Fatal(err)
				}
				cores = append(cores, xy)
			}
		}
		const size = 20000
		rng := rand.New(rand.NewPCG(3, 4))
		for noc := range uint8(2) {
			sender := cores[7]
			var sum uint32
			var data []byte
			for range size / 4 {
				v := rng.Uint32()
				sum += v
				data = binary.LittleEndian.AppendUint32(data, v)
			}
			at, result := m.scratch(), m.scratch()+0x8000
			m.write(sender, at, data)
			for _, xy := range cores {
				p := program{mode: modeHost, noc: noc, semaphores: []uint32{0, 0}, kernels: map[chip.Processor]kernel{
					chip.TRISC1: {name: kernels.MulticastWait, args: []uint32{at, size, 1, result}},
				}}
				if xy == sender {
					s, e := rect[0].Start, rect[0].End
					p.kernels[chip.BRISC] = kernel{name: kernels.MulticastSend, args: []uint32{
						uint32(s.X), uint32(s.Y), uint32(e.X), uint32(e.Y), uint32(len(cores)), at, size, 1}}
				}
				m.launch(xy, p)
			}
			for _, xy := range cores {
				m.signal(xy, 0, signalGo, 0, sender)
			}
			m.wait(0, cores...)
			for _, xy := range cores {
				if got := m.word(xy, result); got != sum {
					t.Errorf("NoC %d: core %v has sum %#x, want %#x", noc, xy, got, sum)
				}
			}
		}
	})
}

var _ kmd.Target = (*target)(nil)
