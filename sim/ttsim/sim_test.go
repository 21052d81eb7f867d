package ttsim_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/internal/expect"
	"github.com/reprise-tt/reprise/internal/kabi"
	"github.com/reprise-tt/reprise/kmd"
	"github.com/reprise-tt/reprise/sim/ttsim"
	"github.com/reprise-tt/reprise/sim/ttsim/ttsimtest"
)

func TestMain(m *testing.M) {
	if ttsimtest.Serving() {
		return
	}
	goleak.VerifyTestMain(m)
}

// Facts: WormholeB0/PCIExpressTile/TLBs.md of the ISA documentation, and ttsim src/libttsim.cpp.
type board struct {
	variable string
	id       uint32
	barSize  [3]uint64
	window   uint64 // offset of the window in BAR0 that the tests use
	x, y     uint32 // a Tensix tile
	iatu     uint64 // outbound region 0 in BAR2
	pcieX    uint32
	pcieY    uint32
	noc      uint64 // NoC address of host offset 0
	config   func(f *ttsim.Function, x, y uint32, addr uint64)
	span     uint64
}

var boards = map[string]board{
	"wormhole": {
		variable: ttsimtest.Wormhole, id: 0x401E1E52,
		barSize: [3]uint64{512 << 20, 1 << 20, 32 << 20},
		window:  0x0B000000, x: 1, y: 1, iatu: 0x1200, pcieX: 0, pcieY: 3, noc: 0x8_0000_0000, span: 16 << 20,
		config: func(f *ttsim.Function, x, y uint32, addr uint64) {
			f.BARStore(0, 0x1FC00000+8*166, 8, addr>>24|uint64(x)<<12|uint64(y)<<18|1<<38)
		},
	},
	"blackhole": {
		variable: ttsimtest.Blackhole, id: 0xB1401E52,
		barSize: [3]uint64{512 << 20, 1 << 20, 32 << 30},
		window:  0, x: 1, y: 2, iatu: 0x1000, pcieX: 19, pcieY: 24, noc: 1 << 60, span: 2 << 20,
		config: func(f *ttsim.Function, x, y uint32, addr uint64) {
			lo := addr>>21 | uint64(x)<<43 | uint64(y)<<49
			f.BARStore(0, 0x1FC00000, 4, lo&(1<<32-1))
			f.BARStore(0, 0x1FC00004, 4, lo>>32)
			f.BARStore(0, 0x1FC00008, 4, 1<<6)
		},
	},
}

func (b board) at(f *ttsim.Function, x, y uint32, addr uint64) uint64 {
	b.config(f, x, y, addr&^(b.span-1))
	return b.window + addr&(b.span-1)
}

func eachBoard(t *testing.T, test func(t *testing.T, b board, f *ttsim.Function), opts ...ttsim.Option) {
	for name, b := range boards {
		t.Run(name, func(t *testing.T) {
			s := ttsimtest.Start(t, b.variable, opts...)
			test(t, b, s.Functions()[0])
		})
	}
}

type sysmem struct {
	mu   sync.Mutex
	base uint64
	mem  []byte
}

func (m *sysmem) span(bus uint64, n int) ([]byte, error) {
	if bus < m.base || bus+uint64(n) > m.base+uint64(len(m.mem)) {
		return nil, fmt.Errorf("bus address %#x is not mapped", bus)
	}
	return m.mem[bus-m.base:][:n], nil
}

func (m *sysmem) ReadHost(bus uint64, p []byte) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	b, err := m.span(bus, len(p))
	copy(p, b)
	return err
}

func (m *sysmem) WriteHost(bus uint64, p []byte) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	b, err := m.span(bus, len(p))
	copy(b, p)
	return err
}

func (m *sysmem) word(off int) uint32 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return binary.LittleEndian.Uint32(m.mem[off:])
}

func TestIdentity(t *testing.T) {
	eachBoard(t, func(t *testing.T, b board, f *ttsim.Function) {
		equal(t, f.ConfigRead(0), b.id, "config word 0")
		if v, d := f.ID(); uint32(v)|uint32(d)<<16 != b.id {
			t.Errorf("ID() = %#x %#x, want %#x", v, d, b.id)
		}
		must(t, f.Fault())
	})
}

func TestBARSizing(t *testing.T) {
	eachBoard(t, func(t *testing.T, b board, f *ttsim.Function) {
		for i, off := range []uint32{0x10, 0x18, 0x20} {
			lo, hi := f.ConfigRead(off), f.ConfigRead(off+4)
			f.ConfigWrite(off, ^uint32(0))
			f.ConfigWrite(off+4, ^uint32(0))
			mask := uint64(f.ConfigRead(off+4))<<32 | uint64(f.ConfigRead(off)&^0xF)
			f.ConfigWrite(off, lo)
			f.ConfigWrite(off+4, hi)
			equal(t, ^mask+1, b.barSize[i], "bytes of BAR %d", 2*i)
		}
		off := b.at(f, b.x, b.y, 0x20000)
		f.BARStore(0, off, 4, 0x12345678)
		equal(t, f.BARLoad(0, off, 4), 0x12345678, "L1 after the BARs were sized")
	})
}

func TestL1(t *testing.T) {
	eachBoard(t, func(t *testing.T, b board, f *ttsim.Function) {
		off := b.at(f, b.x, b.y, 0x20000)
		f.BARStore(0, off, 8, 0x1122334455667788)
		f.BARStore(0, off+2, 1, 0xAB)
		f.BARStore(0, off+4, 2, 0xCDEF)
		for _, c := range []struct {
			off   uint64
			width int
			want  uint64
		}{{0, 8, 0x1122CDEF55AB7788}, {0, 4, 0x55AB7788}, {4, 4, 0x1122CDEF}, {4, 2, 0xCDEF}, {2, 1, 0xAB}, {7, 1, 0x11}} {
			equal(t, f.BARLoad(0, off+c.off, c.width), c.want, "load of %d bytes at %d", c.width, c.off)
		}
		want := make([]byte, 700_000) // several chunks of every kind, and the ring wraps
		for i := range want {
			want[i] = byte(i * 7 >> 3)
		}
		f.BARWrite(0, off, want)
		got := make([]byte, len(want))
		f.BARRead(0, off, got)
		if !bytes.Equal(got, want) {
			t.Errorf("%d bytes read back differ", len(want))
		}
		must(t, f.Fault())
	})
}

func eventually(t *testing.T, f *ttsim.Function, what string, cond func() bool) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); !cond(); time.Sleep(100 * time.Microsecond) {
		must(t, f.Fault())
		if time.Now().After(end) {
			t.Fatalf("%s did not happen in 20 s", what)
		}
	}
}

func TestProgram(t *testing.T) {
	eachBoard(t, func(t *testing.T, b board, f *ttsim.Function) {
		load(b, f, program)
		equal(t, f.BARLoad(0, b.at(f, b.x, b.y, 0xFFB121B0), 4), 0x47800, "soft reset")
		release(b, f)
		off := b.at(f, b.x, b.y, 0x30000)
		eventually(t, f, "the store", func() bool { return f.BARLoad(0, off, 4) == 0xD0DE })
	})
}

func TestConcurrent(t *testing.T) {
	eachBoard(t, func(t *testing.T, b board, f *ttsim.Function) {
		off := b.at(f, b.x, b.y, 0x20000)
		var wg sync.WaitGroup
		for g := range uint64(4) {
			wg.Go(func() {
				at := off + g<<14
				for i := range uint64(300) {
					f.BARStore(0, at, 8, g<<32|i)
					if got := f.BARLoad(0, at, 8); got != g<<32|i {
						t.Errorf("goroutine %d round %d reads %#x", g, i, got)
						return
					}
					p := bytes.Repeat([]byte{byte(g), byte(i)}, 3000)
					f.BARWrite(0, at+8, p)
					got := make([]byte, len(p))
					if f.BARRead(0, at+8, got); !bytes.Equal(got, p) {
						t.Errorf("goroutine %d round %d reads other bulk data", g, i)
						return
					}
				}
			})
		}
		wg.Wait()
	})
}

func TestManualClock(t *testing.T) {
	eachBoard(t, func(t *testing.T, b board, f *ttsim.Function) {
		load(b, f, program)
		release(b, f)
		off := b.at(f, b.x, b.y, 0x30000)
		must(t, f.Sim().Clock(3))
		equal(t, f.BARLoad(0, off, 4), 0, "after 3 clocks the word")
		must(t, f.Sim().Clock(1))
		equal(t, f.BARLoad(0, off, 4), 0xD0DE, "after 4 clocks the word")
		equal(t, f.Sim().Clocks(), 4, "clocks")
	}, ttsim.ManualClock())
}

func outbound(b board, f *ttsim.Function, base, limit, target uint64) {
	for _, w := range []struct{ off, v uint64 }{
		{0x08, base}, {0x0C, 0}, {0x10, limit}, {0x14, target & (1<<32 - 1)}, {0x18, target >> 32}, {0x04, 1 << 31},
	} {
		f.BARStore(2, b.iatu+w.off, 4, w.v)
	}
}

func TestHostDMA(t *testing.T) {
	eachBoard(t, func(t *testing.T, b board, f *ttsim.Function) {
		m := &sysmem{base: 0x7_0000_0000, mem: make([]byte, 1<<20)}
		f.AttachDMA(m)
		outbound(b, f, 0x100000, 0x1FFFFF, m.base)
		copy(m.mem[0x40:], "from the host")
		off := b.at(f, b.pcieX, b.pcieY, b.noc+0x100000)
		got := make([]byte, 13)
		f.BARRead(0, off+0x40, got)
		equal(t, string(got), "from the host", "what the device read")
		f.BARStore(0, off+0x80, 4, 0xCAFE)
		big := bytes.Repeat([]byte("0123456789abcdef"), 20_000)
		f.BARWrite(0, off+0x100, big)
		must(t, f.Sim().Sync())
		equal(t, m.word(0x80), 0xCAFE, "host word")
		if !bytes.Equal(m.mem[0x100:][:len(big)], big) {
			t.Error("a large write to host memory differs")
		}
		back := make([]byte, len(big))
		f.BARRead(0, off+0x100, back)
		if !bytes.Equal(back, big) {
			t.Error("a large read of host memory differs")
		}
	})
}

func TestControllerRegisters(t *testing.T) {
	b := boards["wormhole"]
	f := ttsimtest.Start(t, b.variable).Functions()[0]
	m := &sysmem{mem: make([]byte, 4096)}
	f.AttachDMA(m)
	off := b.at(f, b.pcieX, b.pcieY, b.noc) + 0x78
	registers := func(v uint64) {
		f.BARStore(0, 0x1FF30078, 4, v)
		f.BARStore(0, 0x1FF3007C, 4, v)
	}
	registers(1 << 21)
	equal(t, f.BARLoad(0, off, 4), 0, "the word before anybody stored")
	f.BARStore(0, off, 4, 0x2810)
	registers(0) // without waiting for that
	f.BARStore(0, off, 4, 0xCAFE)
	got := f.BARLoad(0, off, 4)
	equal(t, got, 0xCAFE, "read")
	equal(t, m.word(0x78), 0xCAFE, "m.word(0x78)")
	registers(1 << 21)
	equal(t, f.BARLoad(0, off, 4), 0x2810, "the register")
	registers(0)
	must(t, f.Fault())
	must(t, f.Reset())
	f.BARStore(0, 0x1FF30078, 4, 1<<21)
	equal(t, f.BARLoad(0, b.at(f, b.pcieX, b.pcieY, b.noc)+0x78, 4), 0, "the register after a reset")
}

func TestResetAsked(t *testing.T) {
	f := ttsimtest.Start(t, boards["wormhole"].variable).Functions()[0]
	send := func(bar int, base, code uint64) {
		f.BARStore(bar, base+0x74, 4, 0xAA00|code)
		f.BARStore(bar, base+0x100, 4, 1<<16)
		equal(t, f.BARLoad(bar, base+0x74, 4), code, "message %#x: status", code)
	}
	const bar0, bar4 = 0x1FF30000, 0x1F30000
	send(0, bar0, 0x56) // nothing listens
	asked := 0
	f.OnResetAsked(func() { asked++ })
	for i, m := range []struct {
		bar        int
		base, code uint64
		asked      int
	}{{0, bar0, 0x11, 0}, {0, bar0, 0x56, 1}, {4, bar4, 0x56, 2}, {4, bar4, 0x90, 2}} {
		if send(m.bar, m.base, m.code); asked != m.asked {
			t.Errorf("message %d: asked %d times, want %d", i, asked, m.asked)
		}
	}
	must(t, f.Fault())
}

func TestRefusal(t *testing.T) {
	eachBoard(t, func(t *testing.T, b board, f *ttsim.Function) {
		f.BARStore(2, 0, 8, 0) // BAR2 takes 32-bit accesses only
		equal(t, f.BARLoad(0, b.window, 4), 0xFFFFFFFF, "a stopped device answers")
		var e *ttsim.Error
		if !errors.As(f.Fault(), &e) {
			t.Fatalf("fault %v, want an *Error", f.Fault())
		}
		if e.Category != "UnsupportedFunctionality" || e.Function != "pci_mem_wr_cur" || e.Message != "bar2: size=8" {
			t.Errorf("fault %+v", e)
		}
		p := []byte{1, 2, 3}
		f.BARRead(0, b.window, p)
		if !bytes.Equal(p, []byte{0xFF, 0xFF, 0xFF}) {
			t.Errorf("a stopped device's bulk read gives %x", p)
		}
		f.BARStore(0, b.window, 4, 1)
		equal(t, f.ConfigRead(0), 0xFFFFFFFF, "a stopped device's config space")
		fails(t, f.Sim().Clock(1), e, "Clock on a stopped device")
	})
}

func TestHostMemoryRefusal(t *testing.T) {
	for _, attach := range []bool{false, true} {
		eachBoard(t, func(t *testing.T, b board, f *ttsim.Function) {
			if attach {
				f.AttachDMA(&sysmem{base: 0x10000, mem: make([]byte, 4096)})
			}
			f.BARLoad(0, b.at(f, b.pcieX, b.pcieY, b.noc)+0x4000, 4)
			f.Sim().Sync()
			var e *ttsim.Error
			if err := f.Fault(); !errors.As(err, &e) || e.Category != ttsim.CategoryHostDMA || !errors.Is(err, ttsim.ErrDMA) {
				t.Errorf("fault %v, want %s", err, ttsim.CategoryHostDMA)
			}
		})
	}
}

func TestTwoDevices(t *testing.T) {
	s := ttsimtest.Start(t, ttsimtest.BlackholeX2)
	if n := len(s.Functions()); n != 2 {
		t.Fatalf("%d functions, want 2", n)
	}
	b := boards["blackhole"]
	var mem [2]*sysmem
	for i, f := range s.Functions() {
		mem[i] = &sysmem{base: 0xFFFF_0000, mem: make([]byte, 0x1000)}
		f.AttachDMA(mem[i])
		outbound(b, f, 0x4000, 0x4FFF, mem[i].base)
		equal(t, f.BARLoad(2, b.iatu+0x18, 4), 0, "device %d's upper target", i)
		f.BARStore(0, b.at(f, b.x, b.y, 0x20000), 4, uint64(0x100+i))
		binary.LittleEndian.PutUint32(mem[i].mem[8:], uint32(0x300+i))
	}
	for i, f := range s.Functions() {
		equal(t, f.BARLoad(0, b.window+0x20000, 4), uint64(0x100+i), "device %d", i)
		off := b.at(f, b.pcieX, b.pcieY, b.noc+0x4000)
		f.BARStore(0, off, 4, uint64(0x200+i))
		got := f.BARLoad(0, off, 4)
		equal(t, got, uint64(0x200+i), "device %d", i)
		equal(t, mem[i].word(0), uint32(0x200+i), "device %d", i)
		runRead(b, f, b.noc+0x4000, 0x20100, 64)
	}
	for i, f := range s.Functions() {
		off := b.at(f, b.x, b.y, 0x20100)
		eventually(t, f, "the NoC read", func() bool { return f.BARLoad(0, off+8, 4) == uint64(0x300+i) })
	}
	fails(t, s.Functions()[0].Reset(), ttsim.ErrSharedReset, "Reset of one of two")
	fails(t, s.Reset(), nil, "Reset of both")
	equal(t, s.Functions()[1].BARLoad(0, b.at(s.Functions()[1], b.x, b.y, 0x20000), 4), 0, "after the reset of both, L1")
	s.Functions()[0].Close()
	equal(t, s.Functions()[1].ConfigRead(0), b.id, "after the other function was closed, config")
	s.Functions()[1].Close()
	fails(t, s.Fault(), nil, "closing gave the fault")
}

func TestClosed(t *testing.T) {
	eachBoard(t, func(t *testing.T, b board, f *ttsim.Function) {
		must(t, f.Close())
		must(t, f.Close())
		equal(t, f.BARLoad(0, 0, 2), 0xFFFF, "a closed device answers")
		fails(t, f.Sim().Sync(), ttsim.ErrClosed, "Sync")
		expect.Fails(t, f.Fault(), nil, "fault")
	})
}

func TestAccessesDoNotAllocate(t *testing.T) {
	eachBoard(t, func(t *testing.T, b board, f *ttsim.Function) {
		off := b.at(f, b.x, b.y, 0x20000)
		p := make([]byte, 100_000)
		for what, access := range map[string]func(){
			"store":      func() { f.BARStore(0, off, 4, 1) },
			"load":       func() { f.BARLoad(0, off, 4) },
			"bulk write": func() { f.BARWrite(0, off, p) },
			"bulk read":  func() { f.BARRead(0, off, p) },
		} {
			equal(t, testing.AllocsPerRun(100, access), 0, "allocations of a %s", what)
		}
	})
}

var (
	must  = expect.Must
	fails = expect.Fails
)

func value[V any](v V, err error) func(expect.TB) V { return expect.Value(v, err) }

func equal[V comparable](t expect.TB, got, want V, what string, args ...any) {
	t.Helper()
	expect.Equal(t, got, want, what, args...)
}

func second[V any](_ V, err error) error { return err }

var _ kmd.Target = (*ttsim.Card)(nil)

func open(t *testing.T, target kmd.Target) *kmd.Device {
	t.Helper()
	d := value(kmd.Open(context.Background(), target))(t)
	t.Cleanup(func() { d.Close() })
	return d
}

func describe(t *testing.T, d *kmd.Device) *chip.Chip {
	t.Helper()
	h := value(d.Harvesting(context.Background()))(t)
	return value(chip.New(d.Arch(), h))(t)
}

func TestCardLost(t *testing.T) {
	for name, b := range boards {
		t.Run(name, func(t *testing.T) {
			card := ttsimtest.Card(t, b.variable)
			d := open(t, card)
			xy := value(describe(t, d).Virtual(chip.Core{}))(t)
			must(t, d.Write32(xy, 0x20000, 7))
			_, err := d.Read32(xy, 0xFFB13000) // the interrupt controller, which the simulator doesn't have
			var e *ttsim.Error
			if !errors.Is(err, kmd.ErrDeviceLost) || !errors.As(err, &e) || e.Category != "UnimplementedFunctionality" {
				t.Errorf("a refused access gave %v", err)
			}
			fails(t, d.Fault(), e, "fault")
			fails(t, d.Close(), nil, "close")
			d = open(t, card)
			expect.Fails(t, d.Fault(), nil, "fault")
			equal(t, value(d.Read32(xy, 0x20000))(t), 0, "L1")
		})
	}
}

func TestCardReset(t *testing.T) {
	for name, b := range boards {
		t.Run(name, func(t *testing.T) {
			card := ttsimtest.Card(t, b.variable)
			d := open(t, card)
			xy := value(describe(t, d).Virtual(chip.Core{}))(t)
			must(t, d.Write32(xy, 0x20000, 7))
			if _, err := d.Read32(xy, 0xFFB13000); !errors.Is(err, kmd.ErrDeviceLost) {
				t.Fatalf("a refused access gave %v", err)
			}
			f := value(card.Node().Open(0))(t)
			for _, flags := range []uint32{kabi.ResetASIC, kabi.ResetPost} {
				r := kabi.ResetDevice{In: kabi.ResetDeviceIn{OutputSizeBytes: 8, Flags: flags}}
				if err := f.Ioctl(kabi.IoctlResetDevice, kabi.Bytes(&r)); err != nil || r.Out.Result != 0 {
					t.Fatalf("reset %d: %v, %d", flags, err, r.Out.Result)
				}
			}
			again := open(t, card)
			equal(t, value(again.Read32(xy, 0x20000))(t), 0, "L1")
			must(t, f.Close())
		})
	}
}

func TestCards(t *testing.T) {
	s := ttsimtest.Start(t, ttsimtest.BlackholeX2)
	cards := value(s.Cards())(t)
	if len(cards) != 2 {
		t.Fatalf("%d cards, want 2", len(cards))
	}
	var devices []*kmd.Device
	var memory []*kmd.HostMemory
	for i, card := range cards {
		d := open(t, card)
		m := value(d.PinHostMemory(4096))(t)
		devices, memory = append(devices, d), append(memory, m)
		must(t, d.Write32(describe(t, d).PCIe(chip.NOC0), m.NOCAddr(), uint32(0x100+i)))
	}
	must(t, s.Sync())
	for i, m := range memory {
		equal(t, binary.LittleEndian.Uint32(m.Bytes()), uint32(0x100+i), "host memory of card %d", i)
	}
	for _, d := range devices {
		must(t, d.Close())
	}
	equal(t, value(s.Cards())(t)[0], cards[0], "first card when asked again")
	s.Close()
	expect.Error(t, second(kmd.Open(context.Background(), cards[0]))) // a card of a closed simulator
}

var program = []uint32{
	0x0000D537, // lui a0, 0xD
	0x0DE50513, // addi a0, a0, 0xDE
	0x000305B7, // lui a1, 0x30
	0x00A5A023, // sw a0, 0(a1)
	0x0000006F, // j .
}

func load(b board, f *ttsim.Function, words []uint32) {
	p := make([]byte, 0, 4*len(words))
	for _, w := range words {
		p = binary.LittleEndian.AppendUint32(p, w)
	}
	f.BARWrite(0, b.at(f, b.x, b.y, 0), p)
}

// release lets BRISC of the test's tile run from address 0 (soft reset bits: ttsim src/tile.cpp).
func release(b board, f *ttsim.Function) { f.BARStore(0, b.at(f, b.x, b.y, 0xFFB121B0), 4, 0x47000) }

// Registers for the little programs below (RISC-V ABI numbers).
const (
	t0, t1, t2, t3, t4 = 5, 6, 7, 28, 29
)

type assembler []uint32

func (a *assembler) emit(w ...uint32) { *a = append(*a, w...) }

func (a *assembler) li(rd, v uint32) {
	a.emit((v+0x800)&0xFFFFF000|rd<<7|0x37, v<<20|rd<<15|rd<<7|0x13) // lui, addi
}

func (a *assembler) addi(rd, rs, v uint32) { a.emit(v<<20 | rs<<15 | rd<<7 | 0x13) }

func (a *assembler) sw(rs, off, base uint32) {
	a.emit(off>>5<<25 | rs<<20 | base<<15 | 2<<12 | off&0x1F<<7 | 0x23)
}

func (a *assembler) jump(to int) {
	d := uint32(4 * (to - len(*a)))
	a.emit(d>>20&1<<31 | d>>1&0x3FF<<21 | d>>11&1<<20 | d>>12&0xFF<<12 | 0x6F)
}

// request fills the registers of NoC 0's command buffer at base register rb; t1 is used up. remote
// is in the PCIe tile, local in the program's own (registers and control bits: tt-isa-documentation
// NoC/MemoryMap.md).
func (a *assembler) request(b board, rb uint32, write bool, remote, local uint64, size uint32) {
	put := func(reg, v uint32) { a.li(t1, v); a.sw(t1, reg, rb) }
	address := func(reg uint32, addr uint64, x, y uint32) {
		put(reg, uint32(addr))
		if b.id == boards["wormhole"].id {
			put(reg+4, uint32(addr>>32)|x<<4|y<<10)
			return
		}
		put(reg+4, uint32(addr>>32))
		put(reg+8, x|y<<6)
	}
	const targ, ret, ctrl, atLen = 0x00, 0x0C, 0x1C, 0x20
	const marked, isWrite = 1 << 4, 2
	if write {
		address(targ, local, b.x, b.y)
		address(ret, remote, b.pcieX, b.pcieY)
		put(ctrl, marked|isWrite)
	} else {
		address(targ, remote, b.pcieX, b.pcieY)
		address(ret, local, b.x, b.y)
		put(ctrl, marked)
	}
	put(atLen, size)
}

const niu = 0xFFB20000

func (b board) commandBuffers() (stride, command uint32) {
	if b.id == boards["wormhole"].id {
		return 0x400, 0x28
	}
	return 0x800, 0x40
}

func runRead(b board, f *ttsim.Function, from, to uint64, size uint32) {
	_, command := b.commandBuffers()
	var a assembler
	a.li(t0, niu)
	a.request(b, t0, false, from, to, size)
	a.li(t1, 1)
	a.sw(t1, command, t0)
	a.jump(len(a))
	load(b, f, a)
	release(b, f)
}

func TestHostMemoryOrder(t *testing.T) {
	eachBoard(t, func(t *testing.T, b board, f *ttsim.Function) {
		m := &sysmem{base: 0x7_0000_0000, mem: make([]byte, 1<<16)}
		f.AttachDMA(m)
		outbound(b, f, 0, 0xFFFF, m.base)

		const source, data, flag = 0x20000, 0x1000, 0x2000
		stride, command := b.commandBuffers()
		var a assembler
		a.li(t0, niu)
		a.li(t3, niu+stride)
		a.request(b, t0, true, b.noc+data, source, 4096)
		a.request(b, t3, true, b.noc+flag, source, 4)
		a.li(t4, source)
		a.li(t1, 1)
		a.li(t2, 0)
		loop := len(a)
		a.addi(t2, t2, 1)
		a.sw(t2, 0, t4)
		a.sw(t1, command, t0)
		a.sw(t1, command, t3)
		a.jump(loop)
		load(b, f, a)
		release(b, f)

		off := b.at(f, b.x, b.y, source)
		seen := uint32(0)
		eventually(t, f, "a hundred rounds", func() bool {
			count := uint32(f.BARLoad(0, off, 4))
			now := m.word(flag)
			if after := m.word(data); int32(after-now) < 0 {
				t.Fatalf("flag %d came before its data, %d", now, after)
			}
			if count > 1 && now+1 < count {
				t.Fatalf("the device is at round %d and host memory at %d", count, now)
			}
			seen = now
			return seen > 100
		})
	})
}

func benchBoards(b *testing.B, bench func(b *testing.B, c board, f *ttsim.Function)) {
	for name, c := range boards {
		b.Run(name, func(b *testing.B) {
			s := ttsimtest.Start(b, c.variable)
			f := s.Functions()[0]
			b.ReportAllocs()
			bench(b, c, f)
			must(b, s.Sync())
		})
	}
}

func BenchmarkAccess(b *testing.B) {
	for _, a := range []struct {
		name   string
		n      int // bytes of bulk accesses
		host   bool
		access func(f *ttsim.Function, off uint64, p []byte)
	}{
		{"store", 0, false, func(f *ttsim.Function, off uint64, _ []byte) { f.BARStore(0, off, 4, 1) }},
		{"load", 0, false, func(f *ttsim.Function, off uint64, _ []byte) { f.BARLoad(0, off, 4) }},
		{"bulk write", 1 << 20, false, func(f *ttsim.Function, off uint64, p []byte) { f.BARWrite(0, off, p) }},
		{"bulk read", 1 << 20, false, func(f *ttsim.Function, off uint64, p []byte) { f.BARRead(0, off, p) }},
		{"host read", 16 << 10, true, func(f *ttsim.Function, off uint64, p []byte) { f.BARRead(0, off, p) }},
	} {
		b.Run(a.name, func(b *testing.B) {
			benchBoards(b, func(b *testing.B, c board, f *ttsim.Function) {
				off := c.at(f, c.x, c.y, 0)
				if a.host {
					f.AttachDMA(&sysmem{mem: make([]byte, 1<<20)})
					off = c.at(f, c.pcieX, c.pcieY, c.noc)
				}
				p := make([]byte, a.n)
				b.SetBytes(int64(a.n))
				for b.Loop() {
					a.access(f, off, p)
				}
			})
		})
	}
}

func BenchmarkClock(b *testing.B) {
	benchBoards(b, func(b *testing.B, c board, f *ttsim.Function) {
		load(c, f, program)
		release(c, f)
		start, begin := f.Sim().Clocks(), time.Now()
		for b.Loop() {
			time.Sleep(time.Millisecond)
		}
		b.ReportMetric(float64(f.Sim().Clocks()-start)/time.Since(begin).Seconds(), "clocks/s")
	})
}
