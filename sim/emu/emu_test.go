package emu

import (
	"encoding/binary"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/internal/expect"
	"github.com/reprise-tt/reprise/sim/driver"
	"github.com/reprise-tt/reprise/sim/ttsim/ttsimtest"
)

var arches = []chip.Arch{chip.Wormhole, chip.Blackhole}

// rig is a chip with what tests do to it, through one TLB window, as a host.
type rig struct {
	t      testing.TB
	c      *Chip // nil on ttsim
	dev    driver.Function
	settle func() // lets processors run until they should be waiting
	arch   chip.Arch
	topo   *chip.Chip
	params *chip.Params
}

func newRig(t testing.TB, cfg Config) *rig {
	t.Helper()
	c := value(New(cfg))(t)
	t.Cleanup(func() { c.Close() })
	return rigOf(t, c)
}

func rigOf(t testing.TB, c *Chip) *rig {
	return &rig{t, c, c, func() {}, c.arch, c.Topology(), c.params}
}

// planned is a rig without a chip, to make programs.
func planned(t testing.TB, arch chip.Arch) *rig {
	t.Helper()
	topo := value(chip.New(arch, chip.Harvesting{}))(t)
	return &rig{t: t, arch: arch, topo: topo, params: arch.Params()}
}

func (r *rig) reset() {
	r.t.Helper()
	must(r.t, r.c.Reset())
}

func (r *rig) dump() string {
	r.t.Helper()
	var b strings.Builder
	must(r.t, r.c.Dump(&b))
	return b.String()
}

func syncRig(t testing.TB, a chip.Arch) *rig {
	return newRig(t, Config{Arch: a, Synchronous: true, Seed: 1})
}

func (r *rig) worker(x, y int) chip.XY {
	r.t.Helper()
	return value(r.topo.Virtual(chip.Core{X: x, Y: y}))(r.t)
}

func (r *rig) raw(v chip.XY) chip.XY {
	r.t.Helper()
	return value(r.topo.Translate(chip.NOC0, v))(r.t)
}

// point aims a window at an address of a tile and returns the BAR 0 offset.
func (r *rig) point(v chip.XY, addr uint64) uint64 {
	if r.arch == chip.Wormhole {
		cfg := addr>>24 | uint64(v.X)<<12 | uint64(v.Y)<<18
		r.dev.BARStore(0, 0x1FC00000+8*166, 8, cfg)
		return 0x0B000000 + addr&0xFFFFFF
	}
	cfg := [3]uint32{uint32(addr >> 21), uint32(addr>>53) | uint32(v.X)<<11 | uint32(v.Y)<<17, 0}
	for i, w := range cfg {
		r.dev.BARStore(0, 0x1FC00000+uint64(4*i), 4, uint64(w))
	}
	return addr & 0x1FFFFF
}

func (r *rig) write(v chip.XY, addr uint64, p []byte) { r.dev.BARWrite(0, r.point(v, addr), p) }
func (r *rig) read(v chip.XY, addr uint64, n int) []byte {
	p := make([]byte, n)
	r.dev.BARRead(0, r.point(v, addr), p)
	return p
}
func (r *rig) st(v chip.XY, addr uint64, w uint32) { r.dev.BARStore(0, r.point(v, addr), 4, uint64(w)) }
func (r *rig) ld(v chip.XY, addr uint64) uint32    { return uint32(r.dev.BARLoad(0, r.point(v, addr), 4)) }

// run loads code for BRISC, with a jump to it at 0, and releases BRISC only.
func (r *rig) run(v chip.XY, a *asm) {
	r.load(v, a)
	r.st(v, 0xFFB121B0, 0x47000)
}

func (r *rig) load(v chip.XY, a *asm) {
	r.write(v, uint64(a.base), a.bytes())
	r.write(v, 0, binary.LittleEndian.AppendUint32(nil, jtype(x0, int32(a.base))))
}

func (r *rig) healthy() {
	r.t.Helper()
	if err := r.dev.Fault(); err != nil {
		r.t.Fatalf("the chip stopped: %v", err)
	}
}

func (r *rig) eventually(what string, ok func() bool) {
	r.t.Helper()
	for deadline := time.Now().Add(20 * time.Second); !ok(); {
		if err := r.dev.Fault(); err != nil {
			r.t.Fatalf("%s: the chip stopped: %v", what, err)
		}
		if time.Now().After(deadline) {
			r.t.Fatalf("%s: it did not happen", what)
		}
		time.Sleep(50 * time.Microsecond)
	}
}

func TestHostRunsProgram(t *testing.T) {
	for _, arch := range arches {
		for _, synchronous := range []bool{true, false} {
			r := newRig(t, Config{Arch: arch, Synchronous: synchronous, Seed: 7})
			v := r.worker(2, 3)
			a := onB().li(a0, 0x20000).li(a1, 0).li(a2, 100).
				label("loop").add(a1, a1, a2).addi(a2, a2, -1).bne(a2, x0, "loop").
				sw(a1, a0, 0).halt()
			if got := r.ld(v, 0xFFB121B0); got != 0x47800 {
				t.Fatalf("%v: soft reset register reads %#x before release", arch, got)
			}
			r.run(v, a)
			r.eventually("sum", func() bool { return r.ld(v, 0x20000) == 5050 })
			r.healthy()
			if n := r.c.Retired(r.raw(v), chip.BRISC); n < 300 || n > 2000 {
				t.Errorf("%v: BRISC retired %d instructions: want some 300, and few while it waits", arch, n)
			}
		}
	}
}

var (
	must   = expect.Must
	noDiff = expect.NoDiff
)

func value[V any](v V, err error) func(expect.TB) V { return expect.Value(v, err) }

func equal[V comparable](t expect.TB, got, want V, what string, args ...any) {
	t.Helper()
	expect.Equal(t, got, want, what, args...)
}
func TestMain(m *testing.M) {
	if ttsimtest.Serving() {
		return
	}
	goleak.VerifyTestMain(m)
}
