package tensix

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"testing"

	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/internal/effort"
	"github.com/reprise-tt/reprise/sim/emu/tensix/arith"
	"github.com/reprise-tt/reprise/sim/emu/tensix/isa"
)

// combination is an instruction with formats and modes, and a program that executes it.
type combination struct {
	name string
	// run makes the result visible and reports whether the engine accepted the instruction.
	run func(d *director) bool
	// more are combinations that only exist if this one is accepted.
	more []combination
	// alone says that this program and its neighbours may overwrite each other's results.
	alone bool
}

type director struct {
	generator
	last access   // the instruction that a combination is of
	no   *Refusal // of that
	bad  error    // a step that configures what it needs was refused
	next uint32   // first row of Dst, of 32-bit data, without a result that hasn't been compared
	slot uint32   // the same of the packers' output
	used int      // combinations since the last comparison
}

func (d *director) compared() { d.pending, d.next, d.slot, d.used = nil, 0, 0, 0 }

const mostRows = 2 * srcRows

func (d *director) full() bool {
	return d.next+mostRows > dstRows/2 || (d.slot+1)*d.slotSize() > outputSize
}

const outputSize = dataSize / 2 / 16

func (d *director) slotSize() uint32 {
	if d.e.wormhole {
		return numPackers * 0x100
	}
	return 0x40
}

func (d *director) rowOfResult(n uint32, wide bool) uint32 {
	row := d.next
	d.next += (n + 7) &^ 7
	if wide {
		return row
	}
	return 2 * row
}

func (d *director) execute(c combination, check func(*director)) (taken bool) {
	if d.used > 0 && (c.alone || d.full()) {
		check(d)
		d.compared()
	}
	taken = c.run(d)
	if d.used++; c.alone {
		check(d)
		d.compared()
	}
	return taken
}

func direct(r *rig) *director {
	d := &director{generator: generator{rig: r}}
	d.thread = d.rng.IntN(numThreads)
	d.core = pick(&d.generator, 0, d.thread+1)
	d.wantThread(isa.ThreadStateID, d.below(2))
	for block := range uint32(dstRows / 2 / srcRows) {
		d.fillDst(block)
	}
	return d
}

func (d *director) must(w uint32) {
	if d.bad == nil && !d.try(d.push(w)) {
		d.bad = fmt.Errorf("%s %#08x: %v", mnemonic(w), w, d.why)
	}
}

func (d *director) take(w uint32) bool {
	d.last = d.push(w)
	if d.bad != nil {
		return false
	}
	taken := d.try(d.last)
	d.no = d.why
	return taken
}

func (d *director) want(f isa.Config, v uint32) {
	p := d.e.places[f]
	if v &= p.Mask; d.bad == nil && d.e.cfg(&d.e.threads[d.thread], f) != v && !d.configure(f, v) {
		d.bad = fmt.Errorf("field %d of the configuration, %#x: %v", f, v, d.why)
	}
}

func (d *director) wantThread(f isa.Thread, v uint32) {
	t := &d.e.threads[d.thread]
	if v &= t.places[f].Mask; d.bad == nil && t.field(f) != v && !d.setThread(f, v) {
		d.bad = fmt.Errorf("field %d of the thread's configuration, %#x: %v", f, v, d.why)
	}
}

type unpack struct {
	unit            uint32
	toDst           bool
	in, out         arith.Format
	haloize, tilize bool
	context         uint32
	throttle        uint32
	forced          bool   // an exponent from the configuration
	exponent        uint32 // that
	exp4, unsigned  bool
	rows            uint32
	base            uint32 // 0 for random data
	dst             uint32 // first row of Dst
	valid           bool   // the bank becomes valid
}

func (d *director) unpack(u unpack) uint32 {
	unit, context := isa.Config(u.unit), isa.Config(u.context)
	for s, _ := d.e.source(u.unit); s.matrixValid() && d.bad == nil; {
		d.must(opCLEARDVALID<<24 | 1<<(22+u.unit))
	}
	d.want(isa.UnpackDescriptor+unit, 256<<16|0x10|uint32(u.in))
	d.want(isa.UnpackDescriptor1+unit, 4<<16|1)
	d.want(isa.UnpackOutFormat+unit, uint32(u.out))
	d.want(isa.UnpackThrottle+unit, u.throttle)
	d.want(isa.UnpackOwnThrottle, 1)
	d.want(isa.UnpackUncompressed+2*unit+context, 1)
	d.want(isa.UnpackOffset+2*unit+context, 0)
	if u.base == 0 {
		u.base = dataBase + 16*d.below(0x80)
	}
	d.want(isa.UnpackBase+2*unit+context, u.base/16-1)
	if u.unit == 0 {
		d.want(isa.UnpackToDstContext+context, bit(u.toDst))
		d.want(isa.UnpackXDim+context, 256)
		d.want(isa.UnpackDst+context, firstRows+rowSize*u.dst)
	}
	d.wantThread(isa.ThreadSrcASetByAddress, bit(!u.toDst))
	d.want(isa.UnpackYStride+unit, 64)
	d.want(isa.UnpackZStride+unit, 1024)
	d.want(isa.UnpackHaloize+unit, bit(u.haloize))
	d.want(isa.UnpackTilize+unit, bit(u.tilize))
	d.want(isa.UnpackShift0+unit, 4*bit(u.tilize))
	d.want(isa.UnpackForceExponent+unit, bit(u.forced))
	d.want(isa.UnpackExponent+unit, u.exponent)
	d.want(isa.UnpackFP8E4+unit, bit(u.exp4))
	d.want(isa.SrcUnsigned+unit, bit(u.unsigned))
	d.wantThread(isa.ThreadUnpackContext+isa.Thread(unit), u.context)
	d.must(opSETADCXX<<24 | 1<<(21+u.unit) | (rowSize*u.rows-1)<<10)
	d.must(opSETADCXY<<24 | 1<<(21+u.unit) | 0xB)
	d.must(opSETADCZW<<24 | 1<<(21+u.unit) | 0xF)
	return opUNPACR<<24 | 1 | 1<<7 | bit(u.valid)<<6 | u.unit<<23
}

func (d *director) fillDst(block uint32) {
	d.must(d.unpack(unpack{in: arith.INT32, out: arith.INT32, toDst: true, rows: srcRows, dst: block * srcRows}))
}

func sourceData(f arith.Format, int8 bool) (in, out arith.Format) {
	switch {
	case int8:
		return arith.INT8, arith.INT8
	case f == arith.FP32 || f == arith.TF32:
		return arith.FP32, arith.TF32
	case toSources.has(uint32(f)):
		return f, f
	}
	return arith.BF16, arith.BF16
}

func (d *director) load(unit uint32, f arith.Format, int8, ones bool) {
	in, out := sourceData(f, int8)
	u := unpack{unit: unit, in: in, out: out, rows: srcRows, valid: true}
	if ones {
		u.base = onesOf(in)
	}
	d.must(d.unpack(u))
}

func (d *director) formats(a, b arith.Format, explicit bool) {
	d.want(isa.SrcAForced, 0)
	d.want(isa.SrcAFormat, uint32(a))
	d.want(isa.SrcBFormat, uint32(b))
	d.wantThread(isa.ThreadExplicitSrcA, bit(explicit))
	d.wantThread(isa.ThreadExplicitSrcB, bit(explicit))
}

func (d *director) firstRows() {
	d.wantThread(isa.ThreadDstOffset, 0)
	d.wantThread(isa.ThreadFidelityBase, 0)
	d.must(opSETRWC<<24 | 15)
}

// phase sets the fidelity phase. Blackhole has no field for the phase: the address mode of a
// ZEROACC counts it up.
func (d *director) phase(n uint32) {
	if d.e.wormhole || n == 0 {
		d.wantThread(isa.ThreadFidelityBase, n)
		return
	}
	const mode, rows = 1, 16
	d.wantThread(isa.ThreadModeFidelityIncrement+mode, n)
	d.want(isa.ZeroAbsolute, 0)
	d.must(opZEROACC<<24 | clear16<<19 | mode<<14 | d.rowOfResult(8, false)/rows)
}

func (d *director) showSource(unit, rows uint32) {
	d.firstRows()
	d.formats(arith.TF32, arith.TF32, true)
	d.want(isa.KeepDenormals, 1)
	to := d.rowOfResult(rows, true)
	if unit == 0 {
		for i := uint32(0); i < rows; i += 8 {
			d.must(opMOVA2D<<24 | i<<17 | 2<<12 | (to + i))
		}
		return
	}
	mod := uint32(4) << d.modOfMOVB2D()
	for i := uint32(0); i < rows; i += 4 {
		d.must(opMOVB2D<<24 | i<<17 | mod | (to + i))
	}
}

func (d *director) modOfMOVB2D() int {
	if d.e.wormhole {
		return 12
	}
	return 11
}

func (d *director) rowOfDst(n uint32) uint32 { return d.below(dstRows/2/int(n)) * n }

func combinations(arch chip.Arch) []combination {
	e := New(arch, newTestTile(arch))
	var list []combination
	for _, family := range []func(*Engine) []combination{mathCombinations, packCombinations, unpackCombinations, moveCombinations,
		vectorCombinations, otherCombinations} {
		list = append(list, family(e)...)
	}
	return list
}

type program struct {
	combination
	taken bool
}

const perDirector = 500

func programs(t testing.TB, arch chip.Arch, start func() *director, check func(*director)) (list []program) {
	names := map[string]bool{}
	var d *director
	var try func(list []combination)
	try = func(todo []combination) {
		for _, c := range todo {
			if names[c.name] {
				t.Fatalf("two combinations are %s", c.name)
			}
			names[c.name] = true
			if len(list)%perDirector == 0 {
				if d != nil {
					check(d)
				}
				d = start()
			}
			taken := d.execute(c, check)
			if d.bad != nil {
				t.Fatalf("%s: %v", c.name, d.bad)
			}
			list = append(list, program{c, taken})
			if taken {
				try(c.more)
			}
		}
	}
	try(combinations(arch))
	check(d)
	return list
}

func directed(arch chip.Arch, rng *rand.Rand, o *oracle) *director {
	r := newRig(arch, rng)
	seed := rng.Uint32()
	if o == nil {
		r.tile.write(dataBase, randomData(seed))
	} else {
		r.o = o
		r.start(o)
		r.fill(o, seed)
	}
	return direct(r)
}

func decided(t testing.TB, arch chip.Arch) []program {
	rng := rand.New(rand.NewPCG(1, 1))
	return programs(t, arch, func() *director { return directed(arch, rng, nil) }, func(*director) {})
}

// combinationsFile has digests of the vendor's simulator's results.
func combinationsFile(arch chip.Arch) string { return "testdata/" + arch.String() + ".combinations" }

func TestCombinations(t *testing.T) {
	effort.Long(t)
	for _, arch := range archs {
		t.Run(arch.String(), func(t *testing.T) {
			t.Parallel()
			rng := rand.New(rand.NewPCG(2026, 0))
			var o *oracle
			var digests []string
			start := func() *director {
				if *updateGolden {
					if o != nil {
						o.close()
					}
					o = newOracle(t, arch)
				}
				return directed(arch, rng, o)
			}
			programs(t, arch, start, func(d *director) {
				if o != nil {
					if err := d.compare(o); err != nil {
						t.Fatal(d.locate(err))
					}
				}
				digests = append(digests, d.digest())
			})
			if o != nil {
				o.close()
				must(t, os.WriteFile(combinationsFile(arch), []byte(strings.Join(digests, "\n")+"\n"), 0o644))
			}
			p, err := os.ReadFile(combinationsFile(arch))
			must(t, err)
			want := strings.Fields(string(p))
			if len(want) != len(digests) {
				t.Fatalf("%d digests, want %d", len(digests), len(want))
			}
			for i, got := range digests {
				if got != want[i] {
					t.Fatalf("digest %d: %s, want %s", i, got, want[i])
				}
			}
		})
	}
}

func directEpisode(t *testing.T, arch chip.Arch, rng *rand.Rand, counts map[string]int, todo []program) (used, n int) {
	o := newOracle(t, arch)
	defer o.close()
	d := directed(arch, rng, o)
	d.counts = counts
	check := func(d *director) {
		n += len(d.pending)
		if err := d.compare(o); err != nil {
			t.Fatalf("%v\nlast: %s", d.locate(err), d.tail(12))
		}
	}
	for used < min(len(todo), perDirector) {
		c := todo[used]
		if !d.execute(c.combination, check) {
			t.Fatalf("%s: refused: %v, %v", c.name, d.no, d.bad)
		}
		used++
	}
	check(d)
	return used, n
}

func TestRefusedCombinationsLikeTTSim(t *testing.T) {
	if !*differRefused {
		t.Skip("takes minutes: set -differ.refused")
	}
	for _, arch := range archs {
		t.Run(arch.String(), func(t *testing.T) {
			refused, waits := 0, 0
			rng := rand.New(rand.NewPCG(*differSeed, 2))
			for _, c := range decided(t, arch) {
				if c.taken {
					continue
				}
				o := newOracle(t, arch)
				d := directed(arch, rng, o)
				if c.run(d) || d.bad != nil {
					t.Fatalf("%s is taken, or not prepared: %v", c.name, d.bad)
				}
				if d.no == nil {
					waits++
				} else if err := d.refusedAlike(o, d.last, d.no); err != nil {
					t.Errorf("%s: %v", c.name, err)
				} else {
					refused++
				}
				o.close()
			}
			t.Logf("%d combinations refused alike, %d for which the thread waits", refused, waits)
		})
	}
}

type option struct {
	on   bool
	text string
}

func options(list ...option) (s string) {
	for _, f := range list {
		if f.on {
			s += ", " + f.text
		}
	}
	return s
}

func named(f arith.Format) string {
	if s := f.String(); s != arith.Format(255).String() {
		return s
	}
	return fmt.Sprintf("format %d", f)
}
