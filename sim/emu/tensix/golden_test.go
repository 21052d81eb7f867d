package tensix

import (
	"bufio"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/internal/expect"
	"github.com/reprise-tt/reprise/sim/emu/tensix/arith"
	"github.com/reprise-tt/reprise/sim/emu/tensix/isa"
	"github.com/reprise-tt/reprise/sim/ttsim/ttsimtest"
)

var updateGolden = flag.Bool("golden.update", false, "rewrite testdata with results of the vendor's simulator")

// A line of a golden file is a digest of the vendor's simulator's L1, Dst, counters and registers,
// and the encoded accesses of a program.
func goldenFile(arch chip.Arch) string { return "testdata/" + arch.String() + ".golden" }

const (
	goldenPrograms = 24
	goldenSize     = 400 // accesses of each
)

func TestGoldenPrograms(t *testing.T) {
	for _, arch := range archs {
		t.Run(arch.String(), func(t *testing.T) {
			if *updateGolden {
				writeGolden(t, arch)
			}
			f := value(os.Open(goldenFile(arch)))(t)
			defer f.Close()
			s := bufio.NewScanner(f)
			s.Buffer(nil, 1<<20)
			n := 0
			for ; s.Scan(); n++ {
				want, text, _ := strings.Cut(s.Text(), " ")
				list := decodeProgram(t, text)
				equal(t, runProgram(t, arch, list), want, "program %d, of %d accesses: digest", n, len(list))
			}
			equal(t, n, goldenPrograms, "programs")
		})
	}
}

func runProgram(t *testing.T, arch chip.Arch, list []access) string {
	r := newRig(arch, nil)
	for _, a := range list {
		if a.addr == fillData {
			r.tile.write(dataBase, randomData(a.value))
		} else if !r.try(a) {
			t.Fatalf("%+v is refused: %v", a, r.why)
		}
	}
	return r.digest()
}

func (r *rig) digest() string {
	h := sha256.New()
	h.Write(r.tile.bytes(dataBase, dataSize))
	var p []byte
	add := func(v uint32) { p = binary.LittleEndian.AppendUint32(p, v) }
	for row := range uint32(dstRows) {
		for pair := range uint32(8) {
			add(r.e.DebugDst(row, pair))
		}
	}
	for _, b := range busReads() {
		if b.addr == busControl {
			v, _ := r.e.DebugBus(b.value>>16&0xFF, b.value&0xFFFF, b.value>>25&3)
			add(v)
		}
	}
	for thread := range numThreads {
		for i := range NumGPRs {
			add(r.e.GPR(thread, i))
		}
	}
	for i := range numSemaphores {
		add(r.e.Semaphore(i))
	}
	h.Write(p)
	return hex.EncodeToString(h.Sum(nil)[:8])
}

func writeGolden(t *testing.T, arch chip.Arch) {
	var out strings.Builder
	for n := range goldenPrograms {
		o := newOracle(t, arch)
		r := newRig(arch, rand.New(rand.NewPCG(2026, uint64(n))))
		r.start(o)
		r.fill(o, uint32(n))
		g := generator{rig: r}
		for len(r.pending) < goldenSize {
			g.step()
		}
		must(t, r.compare(o))
		o.close()
		fmt.Fprintf(&out, "%s %s\n", runProgram(t, arch, r.history), encodeProgram(r.history))
	}
	must(t, os.WriteFile(goldenFile(arch), []byte(out.String()), 0o644))
}

func encodeProgram(list []access) string {
	var p []byte
	last := uint32(0)
	for _, a := range list {
		p = binary.AppendUvarint(p, uint64(a.core))
		p = binary.AppendVarint(p, int64(int32(a.addr-last)))
		p = binary.LittleEndian.AppendUint32(p, a.value)
		last = a.addr
	}
	return base64.RawStdEncoding.EncodeToString(p)
}

func decodeProgram(t *testing.T, s string) (list []access) {
	p := value(base64.RawStdEncoding.DecodeString(s))(t)
	last := uint32(0)
	for len(p) > 0 {
		core, n := binary.Uvarint(p)
		delta, m := binary.Varint(p[n:])
		last += uint32(delta)
		list = append(list, access{last, binary.LittleEndian.Uint32(p[n+m:]), int(core)})
		p = p[n+m+4:]
	}
	return list
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

func TestMain(m *testing.M) { ttsimtest.Main(m) }

var archs = []chip.Arch{chip.Wormhole, chip.Blackhole}

func FuzzEngine(f *testing.F) {
	f.Add(byte(0), []byte{})
	f.Add(byte(1), words(opUNPACR<<24|0x81, opPACR<<24|1, opMVMUL<<24, opREPLAY<<24|1<<4|3, opMOP<<24, opSFPMAD<<24))
	for arch := range byte(2) {
		all := []byte{arch}
		for op := range uint32(256) {
			all = append(all, words(op<<24)...)
		}
		f.Add(arch, all)
	}
	f.Fuzz(func(t *testing.T, how byte, program []byte) {
		arch := chip.Wormhole
		if how&1 != 0 {
			arch = chip.Blackhole
		}
		e := New(arch, newTestTile(arch))
		if how&2 != 0 {
			e.RefuseHazards()
		}
		for i := 0; len(program) >= 5 && e.Fault() == nil; i++ {
			kind, w := program[0], binary.LittleEndian.Uint32(program[1:])
			program = program[5:]
			switch n := int(kind % numThreads); {
			case kind&0x80 != 0:
				e.StoreConfig(uint32(kind)<<1&0xFF, w)
			case kind&0x40 != 0:
				e.StoreMOP(n, int(kind>>2)%mopWords, w)
			default:
				e.Push(n, w, kind&0x20 != 0)
			}
			for e.Step() > 0 {
			}
		}
		if f := e.Fault(); f != nil && (f.Category.String() == "" || f.Detail == "" || f.Error() == "") {
			t.Errorf("a refusal without a reason: %+v", f)
		}
		for n := range numThreads {
			e.Waiting(n)
		}
	})
}

// generator makes random programs that are mostly legal: scenes configure a unit as kernels do,
// with random changes, and execute instructions with random fields.
type generator struct {
	*rig
	left  int // instructions of the scene
	tiles bool
	mix   []weight
	again [8]uint32 // instructions of the vector unit, which come more than once
}

type weight struct {
	op uint32
	n  int
}

func (g *generator) step() (access, *Refusal) {
	if g.left == 0 {
		g.scene()
	}
	g.left--
	if g.tiles && g.chance(6) {
		g.tile()
	}
	var a access
	switch g.rng.IntN(40) {
	case 0:
		a = g.randomConfig()
	case 1:
		a = g.randomThread()
	case 2:
		a = g.randomRegister()
	case 3:
		a = g.loop()
	default:
		a = g.push(g.instruction())
	}
	if !g.try(a) {
		return a, g.why
	}
	return access{}, nil
}

func pick[T any](g *generator, list ...T) T { return list[g.rng.IntN(len(list))] }

func (g *generator) below(n int) uint32 { return uint32(g.rng.IntN(n)) }

func (g *generator) chance(n int) bool { return g.rng.IntN(n) == 0 }

func (g *generator) sparse() uint32 {
	v := g.rng.Uint32()
	for range g.rng.IntN(5) {
		v &= g.rng.Uint32()
	}
	return v
}

func (g *generator) randomConfig() access {
	p := g.e.places[g.rng.IntN(isa.NumConfig)]
	w := g.e.config[0][p.Word]
	v := g.sparse() & p.Mask
	if g.chance(2) {
		v &= 3
	}
	return access{configWindow + 4*uint32(p.Word), w&^(p.Mask<<p.Shift) | v<<p.Shift, g.core}
}

func (g *generator) randomRegister() access {
	if g.core == 0 {
		return g.randomConfig()
	}
	switch g.rng.IntN(3) {
	case 0:
		return access{gprWindow + 4*g.below(NumGPRs), g.sparse(), g.core}
	case 1:
		return access{semWindow + 4*g.below(numSemaphores), g.below(2), g.core}
	}
	i := g.below(mopWords)
	v := g.instruction()
	if i < 2 {
		v = uint32(1 + g.rng.IntN(4))
	} else if g.chance(4) {
		v = nop
	}
	return access{mopWindow + 4*i, v, g.core}
}

func (g *generator) loop() access {
	replay := g.push(opREPLAY<<24 | g.below(replaySize)<<14 | uint32(1+g.rng.IntN(6))<<4 | uint32(pick(g, 0, 1, 3, 3)))
	if g.core == 0 || g.chance(3) {
		return replay
	}
	if g.chance(2) {
		return g.push(opMOP<<24 | g.below(6)<<16 | g.rng.Uint32()&0xFFFF)
	}
	if g.chance(4) {
		return g.push(opMOP_CFG<<24 | g.rng.Uint32()&0xFFFF)
	}
	return g.push(opMOP<<24 | 1<<23)
}

func (g *generator) randomThread() access {
	t := &g.e.threads[g.thread]
	p := t.places[1+g.rng.IntN(isa.NumThread-1)] // not the bank
	w := t.config[p.Word]&^(p.Mask<<p.Shift) | g.sparse()&p.Mask<<p.Shift
	return g.push(opSETC16<<24 | uint32(p.Word)<<16 | w&0xFFFF)
}

func (g *generator) scene() {
	g.left = 100 + g.rng.IntN(800)
	g.thread = g.rng.IntN(numThreads)
	g.core = pick(g, 0, g.thread+1)
	g.setThread(isa.ThreadStateID, bit(g.chance(6)))
	g.unpackers()
	g.matrix()
	g.packers()
	if g.chance(2) {
		g.everyPhase()
	}
	g.modes()
	i := g.rng.IntN(len(mixes))
	g.mix, g.tiles = mixes[i], i < tileMixes
}

func (g *generator) tile() {
	g.try(g.push(opSETRWC<<24 | 15))
	for unit := range uint32(2) {
		g.try(g.push(opUNPACR<<24 | 1 | 1<<7 | 1<<6 | unit<<23))
	}
	if g.chance(3) { // GMPOOL wants ones
		g.configure(isa.UnpackBase+2, g.ones()/16-1)
	}
	if g.chance(4) {
		g.try(g.push(opSETADCXY<<24 | 3<<21 | 0xB))
		g.try(g.push(opSETADCZW<<24 | 3<<21 | 0xF))
	}
}

func (g *generator) ones() uint32 {
	return onesOf(arith.Format(g.e.cfg(&g.e.threads[g.thread], isa.UnpackDescriptor+1) & 15))
}

var sourceFormats = []arith.Format{
	arith.BF16, arith.BF16, arith.FP16, arith.TF32, arith.FP32, arith.BFP8, arith.BFP4, arith.BFP2, arith.INT8, arith.LF8, arith.INT16,
}

func (g *generator) unpackers() {
	f := pick(g, sourceFormats...)
	forB := f
	if g.chance(4) {
		forB = pick(g, sourceFormats...)
	}
	toDst := g.chance(6)
	for unit, f := range []arith.Format{f, forB} {
		u := isa.Config(unit)
		in := f
		if f == arith.TF32 || f == arith.FP32 || (f == arith.FP16 || f == arith.BF16) && g.chance(5) {
			in = arith.FP32
		}
		out := f
		if f == arith.FP32 {
			out = arith.TF32
		}
		if unit == 0 && toDst {
			in = pick(g, arith.FP32, arith.INT32)
			out = in
			if in == arith.FP32 && g.chance(2) {
				out = arith.TF32
			}
		}
		g.configure(isa.UnpackDescriptor+u, 256<<16|0x10|uint32(in))
		g.configure(isa.UnpackDescriptor1+u, 4<<16|1)
		g.configure(isa.UnpackOutFormat+u, uint32(out))
		g.configure(isa.UnpackThrottle+u, g.below(3))
		for c := range isa.Config(2) {
			g.configure(isa.UnpackUncompressed+2*u+c, 1)
			g.configure(isa.UnpackToDstContext+2*u+c, bit(toDst && unit == 0))
			g.configure(isa.UnpackBase+2*u+c, dataBase/16-1+g.below(0x80))
			g.configure(isa.UnpackOffset+2*u+c, g.below(8))
			if unit == 0 {
				g.configure(isa.UnpackXDim+c, 256)
				g.configure(isa.UnpackDst+c, 64+16*g.below(4)*bit(g.chance(3)))
			}
		}
		g.configure(isa.UnpackAddDst, g.below(2))
		size := uint32(2)
		if out == arith.FP32 || out == arith.TF32 || out == arith.INT32 {
			size = 4
		}
		g.configure(isa.UnpackYStride+u, 16*size*g.below(2))
		g.configure(isa.UnpackZStride+u, 256*size)
		g.configure(isa.UnpackHaloize+u, bit(unit == 0 && !toDst && g.chance(5)))
		g.configure(isa.UnpackTilize+u, bit(unit == 0 && g.chance(6)))
		g.configure(isa.UnpackForceExponent+u, bit(g.chance(5)))
		g.configure(isa.UnpackExponent+u, g.rng.Uint32())
		g.configure(isa.UnpackFP8E4+u, g.below(2))
		g.configure(isa.SrcUnsigned+u, g.below(2))
		shift := uint32(0)
		if g.e.cfg(&g.e.threads[g.thread], isa.UnpackTilize+u) != 0 {
			shift = 4 // 64 bytes
		}
		g.configure(isa.UnpackShift0+u, shift)
		g.configure(isa.UnpackShift1+u, 0)
	}
	g.configure(isa.UnpackOwnThrottle, g.below(2))
	g.setThread(isa.ThreadSrcASetByAddress, bit(!toDst))
	g.setThread(isa.ThreadUnpackContext, bit(g.chance(4)))
	g.setThread(isa.ThreadUnpackContext+1, bit(g.chance(4)))
	rows := pick(g, 1, 8, 16, 32, 64, 64)
	g.try(g.push(opSETADCXX<<24 | 3<<21 | uint32(16*rows-1)<<10))
	g.try(g.push(opSETADCXY<<24 | 3<<21 | 0xB))
	g.try(g.push(opSETADCZW<<24 | 3<<21 | 0xF))
	g.configure(isa.SrcAFormat, uint32(f))
	g.configure(isa.SrcBFormat, uint32(forB))
	g.configure(isa.Int8Math, bit(f == arith.INT8))
}

func bit(b bool) uint32 {
	if b {
		return 1
	}
	return 0
}

func (g *generator) matrix() {
	g.configure(isa.Fp32Dst, g.below(2))
	g.configure(isa.Fp32SFPU, g.below(2))
	g.configure(isa.KeepDenormals, bit(g.chance(6)))
	g.setThread(isa.ThreadDstOffset, pick(g, uint32(0), 0, 64, 512, g.below(64)*16))
	g.setThread(isa.ThreadFidelityBase, g.below(4)*bit(g.chance(2)))
	g.sources()
	g.setThread(isa.ThreadKeepSrcValid, bit(g.chance(8)))
	g.setThread(isa.ThreadKeepSrcValid+1, bit(g.chance(8)))
	g.try(g.push(opSETRWC<<24 | 15))
}

func (g *generator) sources() {
	explicit := g.chance(2)
	g.setThread(isa.ThreadExplicitSrcA, bit(explicit))
	g.setThread(isa.ThreadExplicitSrcB, bit(explicit))
	if explicit && !g.e.on(&g.e.threads[g.thread], isa.Int8Math) {
		g.configure(isa.SrcAFormat, uint32(pick(g, elementwiseFormats...)))
		g.configure(isa.SrcBFormat, uint32(pick(g, slices.Concat(elementwiseFormats, []arith.Format{arith.INT16, arith.INT32})...)))
	}
}

var elementwiseFormats = []arith.Format{arith.FP32, arith.TF32, arith.BF16, arith.BFP8, arith.BFP4, arith.BFP2}

func (g *generator) modes() {
	words := map[uint8]uint32{}
	set := func(f isa.Thread, v uint32) {
		if p := g.e.threads[g.thread].places[f]; p.Mask != 0 {
			words[p.Word] = words[p.Word]&^(p.Mask<<p.Shift) | v&p.Mask<<p.Shift
		}
	}
	g.matrixModes(set)
	g.packModes(set)
	for _, word := range slices.Sorted(maps.Keys(words)) {
		g.try(g.push(opSETC16<<24 | uint32(word)<<16 | words[word]))
	}
}

// Products and pools of each phase are rare otherwise.
func (g *generator) everyPhase() {
	p := g.e.threads[g.thread].places[isa.ThreadModeFidelityIncrement]
	for i := range isa.Thread(numModes) {
		for _, f := range []isa.Thread{isa.ThreadModeSrcAIncrement, isa.ThreadModeDstIncrement,
			isa.ThreadModeBiasIncrement} { // their words have all of a mode
			if g.e.threads[g.thread].places[f+i].Mask != 0 {
				g.setThread(f+i, 0)
			}
		}
	}
	g.try(g.push(opSETC16<<24 | uint32(p.Word)<<16 | 1<<p.Shift))
	g.configure(isa.UnpackBase+2, pick(g, g.ones(), g.ones(), dataBase)/16-1)
	for _, w := range []uint32{opMVMUL << 24, opELWMUL << 24, opGAPOOL<<24 | 1<<19, opGMPOOL<<24 | 1<<19} {
		g.tile()
		for range 4 {
			g.try(g.push(w))
		}
	}
}

func (g *generator) matrixModes(set func(isa.Thread, uint32)) {
	for i := range isa.Thread(numModes) {
		ab := pick(g, uint32(0), 8, 16, 4)
		set(isa.ThreadModeSrcAIncrement+i, ab)
		set(isa.ThreadModeSrcBIncrement+i, pick(g, ab, 8, 0))
		for _, f := range []isa.Thread{isa.ThreadModeSrcACarry, isa.ThreadModeSrcAClear, isa.ThreadModeSrcBCarry,
			isa.ThreadModeSrcBClear, isa.ThreadModeDstCarry, isa.ThreadModeDstClear} {
			set(f+i, bit(g.chance(6)))
		}
		set(isa.ThreadModeDstToCarry+i, bit(g.chance(12)))
		set(isa.ThreadModeDstIncrement+i, pick(g, uint32(0), 8, 8, 4, 2, 16, 64, 1016))
		set(isa.ThreadModeFidelityIncrement+i, g.below(3)*bit(g.chance(3)))
		set(isa.ThreadModeFidelityClear+i, bit(g.chance(4)))
		set(isa.ThreadModeBiasIncrement+i, bit(g.chance(12) && g.e.wormhole))
		set(isa.ThreadModeBiasClear+i, 0)
	}
}

func (g *generator) packModes(set func(isa.Thread, uint32)) {
	for i := range isa.Thread(4) {
		set(isa.ThreadPackModeYSrcIncrement+i, g.below(5))
		for _, f := range []isa.Thread{isa.ThreadPackModeYSrcCarry, isa.ThreadPackModeYSrcClear, isa.ThreadPackModeYDstClear,
			isa.ThreadPackModeZSrcIncrement, isa.ThreadPackModeZSrcClear, isa.ThreadPackModeZDstClear} {
			set(f+i, bit(g.chance(4)))
		}
		for _, f := range []isa.Thread{isa.ThreadPackModeYDstIncrement, isa.ThreadPackModeYDstCarry, isa.ThreadPackModeZDstIncrement} {
			set(f+i, 0)
		}
	}
}

func (g *generator) packPair() (wide uint32, in, out uint32) {
	for {
		wide, in, out := g.rng.IntN(2), g.rng.IntN(16), g.rng.IntN(16)
		if g.e.packable(wide == 1, uint32(in), uint32(out)) {
			return uint32(wide), uint32(in), uint32(out)
		}
	}
}

func (g *generator) packers() {
	wide, in, out := g.packPair()
	g.configure(isa.PackRead32, wide)
	g.configure(isa.PackReadUnsigned, g.below(2))
	g.configure(isa.PackReadRaw, bit(g.chance(8)))
	round := arith.Format(in) == arith.FP16 && (wide == 1 || arith.Format(out) == arith.LF8 && g.chance(2))
	g.configure(isa.PackRound10, bit(round))
	g.configure(isa.DstFormat, in)
	rows := pick(g, uint32(16), 16, 4, uint32(1+g.rng.IntN(16)))
	accumulate := bit(g.chance(4))
	base := uint32(dataBase+dataSize/2) / 16
	for i := range isa.Config(numPackers) {
		g.configure(isa.PackInFormat+i, in)
		g.configure(isa.PackOutFormat+i, out)
		g.configure(isa.PackRows+i, rows)
		g.configure(isa.PackAccumulate+i, accumulate)
		g.configure(isa.PackExponents+i, g.below(5))
		g.configure(isa.PackOut+i, base+uint32(i)*0x100-1+g.below(64))
		g.configure(isa.PackDst+i, pick(g, uint32(0), 16*uint32(i), 64, 512)&^(bit(!g.chance(3))*15))
	}
	g.configure(isa.PackFP8E4, bit(!g.chance(4)))
	size := bytesOf(elementBits(in))
	g.configure(isa.PackYStride, 16*size)
	g.configure(isa.PackZStride, 256*size)
	g.configure(isa.PackWStride, 1024*size)
	g.configure(isa.Relu, g.below(4)*bit(g.chance(2)))
	g.configure(isa.ReluThreshold, g.rng.Uint32()&0x7FFF)
	g.configure(isa.EdgeMask, pick(g, uint32(0xFFFF), 0xFFFF, 1, 0))
	g.configure(isa.EdgeMask+1, pick(g, uint32(0xFFFF), 1, 0))
	for i := range isa.Config(32) {
		g.configure(isa.RowSets+i, bit(g.chance(4)))
	}
	g.configure(isa.EdgeRowSet, pick(g, uint32(0), 0, 0x55, 1, 4))
	g.configure(isa.DstSwizzle, g.below(2))
	g.configure(isa.DstRemap, g.e.cfg(&g.e.threads[0], isa.DstSwizzle))
	g.configure(isa.ZeroAbsolute, g.below(2))
	n := pick(g, uint32(16), 16, 64, 256, 8)
	if !g.e.wormhole {
		n = pick(g, uint32(16), 16, 16, 8)
	}
	g.try(g.push(opSETADCXX<<24 | 4<<21 | (n-1)<<10))
	g.try(g.push(opSETADCXY<<24 | 4<<21 | 0xB))
	g.try(g.push(opSETADCZW<<24 | 4<<21 | 0xF))
}

const tileMixes = 4 // which come first

var mixes = [][]weight{
	{{opUNPACR, 1}, {opMVMUL, 16}, {opSETRWC, 2}, {opPACR, 2}, {opZEROACC, 1}, {opGAPOOL, 4}, {opGMPOOL, 4}},
	{{opUNPACR, 1}, {opELWADD, 8}, {opELWSUB, 8}, {opELWMUL, 8}, {opSETRWC, 2}, {opPACR, 2}, {opZEROACC, 1}},
	{{opGMPOOL, 8}, {opGAPOOL, 4}, {opSETRWC, 2}, {opPACR, 2}, {opZEROACC, 1}},
	{{opUNPACR, 1}, {opMOVA2D, 4}, {opMOVB2D, 4}, {opMOVD2A, 2}, {opMOVD2B, 2}, {opMOVB2A, 2}, {opTRNSPSRCB, 1}, {opSETRWC, 2}, {opPACR, 3}},
	{{opSFPLOAD, 6}, {opSFPSTORE, 6}, {0x70, 20}},
	{{opPACR, 10}, {opZEROACC, 1}, {opSETADCXY, 1}},
	{{opUNPACR, 10}, {opSETADCXY, 1}, {opSETADCXX, 1}, {opSETRWC, 3}, {opMVMUL, 2}, {opUNPACR_NOP, 3}},
	{{0, 10}},
}

func (g *generator) instruction() uint32 {
	if g.chance(12) {
		return g.anyOpcode()
	}
	total := 0
	for _, w := range g.mix {
		total += w.n
	}
	n := g.rng.IntN(total)
	for _, w := range g.mix {
		if n -= w.n; n >= 0 {
			continue
		}
		switch w.op {
		case 0:
			return g.anyOpcode()
		case 0x70:
			return g.vector()
		}
		return g.fields(w.op)
	}
	return nop
}

func (g *generator) vector() uint32 {
	w := &g.again[g.rng.IntN(len(g.again))]
	if *w == 0 || !g.chance(3) {
		*w = g.fields(uint32(0x70 + g.rng.IntN(lastSFPU-0x70+1)))
	}
	return *w
}

func (g *generator) anyOpcode() uint32 {
	for {
		op := g.below(256)
		if g.e.encodings[op].executed || g.chance(400) && op > 4 {
			return g.fields(op)
		}
	}
}

func (g *generator) fields(op uint32) uint32 {
	unused := g.e.encodings[op].unused
	v := g.sparse()
	if g.chance(500) {
		unused = 0
	}
	w := op<<24 | v&0xFFFFFF&^unused
	switch op {
	case opUNPACR:
		w = op<<24 | 1 | 1<<7 | v&(0xFF<<15|1<<23|1<<6)
		if g.chance(3) {
			w &^= 0xFF << 15
		}
		if g.chance(30) {
			w ^= 1 << g.rng.IntN(24)
		}
	case opPACR:
		if g.e.wormhole {
			w = op<<24 | v&(3<<15|1) | pick(g, uint32(1), 3, 15)<<8
			if g.chance(10) {
				w |= 2
			}
		} else {
			w = op<<24 | v&(3<<15|1) | pick(g, uint32(0), 1, 3, 5, 10)<<8 | bit(g.chance(4))<<17
		}
		if g.chance(30) {
			w ^= 1 << g.rng.IntN(24)
		}
	case opMVMUL:
		w &^= 1<<19 | 7
		w &^= 3 << 22 * bit(!g.chance(6))
	case opELWADD, opELWSUB, opELWMUL:
		w &^= 7
		w &^= 3 << 22 * bit(!g.chance(6))
		if op == opELWMUL {
			w &^= 1 << 21
		}
	case opGMPOOL, opGAPOOL:
		w = w&^(1<<14|3|3<<22*bit(!g.chance(6))) | 1<<19
	case opMOVA2D:
		w = w&^(3<<12|7|7<<17) | 2<<12
	case opMOVD2A, opMOVB2A:
		w = w&^(3<<12|3|3<<17) | 2<<12
	case opMOVD2B:
		w = w&^(3<<12|3|3<<17) | pick(g, uint32(0), 2)<<12
	case opSETC16:
		if w>>16&0xFF == 0 {
			w |= 1 << 16
		}
	case opATGETM, opATRELM:
		w &^= 0xFFFF
	case opSEMINIT, opSEMPOST, opSEMGET, opSEMWAIT:
		w = w&^(0xFF<<2) | 1<<(2+g.rng.IntN(8))
	}
	if g.chance(40) {
		w ^= 1 << g.rng.IntN(24)
	}
	return w
}
