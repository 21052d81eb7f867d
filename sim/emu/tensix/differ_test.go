package tensix

import (
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/sim/emu/tensix/arith"
	"github.com/reprise-tt/reprise/sim/emu/tensix/isa"
	"github.com/reprise-tt/reprise/sim/ttsim"
	"github.com/reprise-tt/reprise/sim/ttsim/ttsimtest"
)

const (
	feederCode   = 0x1000
	feederParams = 0x2000 // go, list, output; of the T cores 0x100 bytes further each
	feederList   = 0x14000
	listBytes    = 0x2B000
	feederOut    = 0x120000
	feederDump   = 0xE0000 // list that reads Dst

	dataBase = 0x40000 // what the programs of tests work on
	dataSize = 0x20000
)

// Registers that the feeder reaches (ttsim data/*/tile_regs.json).
const (
	pushAperture = 0xFFE40000 // of thread 0; the next ones are 0x10000 apart
	configWindow = 0xFFEF0000
	mopWindow    = 0xFFB80000
	gprWindow    = 0xFFE00000
	semWindow    = 0xFFE80020
	debugBase    = 0xFFB12000
	arrayRead    = debugBase + 0x60 // enable
	arrayCommand = debugBase + 0x64
	arrayData    = debugBase + 0x6C
	busControl   = debugBase + 0x54
	busData      = debugBase + 0x5C
)

// feeder is a core's program. It waits for a go and works through pairs of words: an address and a
// value to store, or an odd address to load into the output. Then it clears the go.
func feeder(core int) []uint32 {
	return []uint32{
		0x00002437,                    // lui s0,0x2
		0x00040413 | uint32(core)<<28, // addi s0,s0,0x100*core
		0x00042283,                    // wait: lw t0,0(s0)
		0xFE028EE3,                    // beqz t0,wait
		0x00442483,                    // lw s1,4(s0)
		0x00842783,                    // lw a5,8(s0)
		0x0004A503,                    // loop: lw a0,0(s1)
		0x0044A583,                    // lw a1,4(s1)
		0x00848493,                    // addi s1,s1,8
		0x00157613,                    // andi a2,a0,1
		0x00061863,                    // bnez a2,read
		0x00050E63,                    // beqz a0,end
		0x00B52023,                    // sw a1,0(a0)
		0xFE5FF06F,                    // j loop
		0xFFF52603,                    // read: lw a2,-1(a0)
		0x00C7A023,                    // sw a2,0(a5)
		0x00478793,                    // addi a5,a5,4
		0xFD5FF06F,                    // j loop
		0x00042023,                    // end: sw zero,0(s0)
		0xFBDFF06F,                    // j wait
	}
}

var cores = [4]uint64{feederCode, 0x6000, 0xA000, 0xE000}

// access is a step of a feeder: core 0 is BRISC, n+1 T core n.
type access struct {
	addr, value uint32
	core        int
}

type oracle struct {
	t    testing.TB
	sim  *ttsim.Sim
	dev  *ttsim.Function
	arch chip.Arch
	tile chip.XY
}

var libraries = map[chip.Arch]string{chip.Wormhole: ttsimtest.Wormhole, chip.Blackhole: ttsimtest.Blackhole}

func newOracle(t testing.TB, arch chip.Arch) *oracle {
	t.Helper()
	s := value(ttsim.Start(ttsimtest.Path(t, libraries[arch]), ttsimtest.Server(), ttsim.ManualClock()))(t)
	topo := value(chip.New(arch, chip.Harvesting{}))(t)
	v := value(topo.Virtual(chip.Core{}))(t)
	o := &oracle{t: t, sim: s, dev: s.Functions()[0], arch: arch, tile: v}
	for core, base := range cores {
		o.write(base, words(feeder(core)...))
	}
	o.write(0, words(0x0000106F)) // j 0x1000
	o.write(feederDump, dumpList())
	const softReset, onlyNCRISC = 0xFFB121B0, 0x40000
	o.dev.BARStore(0, o.point(softReset), 4, onlyNCRISC)
	return o
}

func (o *oracle) close() { o.sim.Close() }

func (o *oracle) point(addr uint64) uint64 {
	if o.arch == chip.Wormhole {
		o.dev.BARStore(0, 0x1FC00000+8*166, 8, addr>>24|uint64(o.tile.X)<<12|uint64(o.tile.Y)<<18)
		return 0x0B000000 + addr&0xFFFFFF
	}
	for i, w := range []uint32{uint32(addr >> 21), uint32(o.tile.X)<<11 | uint32(o.tile.Y)<<17, 0} {
		o.dev.BARStore(0, 0x1FC00000+uint64(4*i), 4, uint64(w))
	}
	return addr & 0x1FFFFF
}

func (o *oracle) write(addr uint64, p []byte) { o.dev.BARWrite(0, o.point(addr), p) }

func (o *oracle) read(addr uint64, n int) []byte {
	p := make([]byte, n)
	o.dev.BARRead(0, o.point(addr), p)
	return p
}

func words(w ...uint32) []byte {
	var p []byte
	for _, v := range w {
		p = binary.LittleEndian.AppendUint32(p, v)
	}
	return p
}

func encode(list []access) []byte {
	p := make([]byte, 0, 8*len(list)+8)
	for _, a := range list {
		p = binary.LittleEndian.AppendUint32(p, a.addr)
		p = binary.LittleEndian.AppendUint32(p, a.value)
	}
	return append(p, make([]byte, 8)...)
}

func (o *oracle) run(core int, list uint32) error {
	params := feederParams + 0x100*uint64(core)
	o.write(params, words(1, list, feederOut))
	for range 10000 {
		o.sim.Clock(2000)
		if err := o.dev.Fault(); err != nil {
			return err
		}
		if binary.LittleEndian.Uint32(o.read(params, 4)) == 0 {
			return nil
		}
	}
	o.t.Fatal("the vendor's simulator doesn't come to the end of a list")
	return nil
}

func (o *oracle) do(list []access) ([]uint32, error) {
	var out []uint32
	for len(list) > 0 {
		n, loads := 0, 0
		for n < len(list) && n < listBytes/8-1 && list[n].core == list[0].core {
			loads += int(list[n].addr & 1)
			n++
		}
		o.write(feederList, encode(list[:n]))
		if err := o.run(list[0].core, feederList); err != nil {
			return nil, err
		}
		out = append(out, o.output(loads)...)
		list = list[n:]
	}
	return out, nil
}

func (o *oracle) output(n int) []uint32 {
	if n == 0 {
		return nil
	}
	out := make([]uint32, n)
	p := o.read(feederOut, 4*n)
	for i := range out {
		out[i] = binary.LittleEndian.Uint32(p[4*i:])
	}
	return out
}

func dumpList() []byte {
	list := []access{{arrayRead, 1, 0}}
	for row := range uint32(dstRows) {
		for pair := range uint32(8) {
			list = append(list, access{arrayCommand, row | pair<<12 | 2<<16, 0}, access{arrayData | 1, 0, 0})
		}
	}
	return encode(list)
}

// dst returns the rows of Dst: on Wormhole as they read, on Blackhole as stored, valid or not.
func (o *oracle) dst() ([]uint32, error) {
	if err := o.run(0, feederDump); err != nil {
		return nil, err
	}
	return o.output(dstRows * 8), nil
}

var (
	differFor     = flag.Duration("differ", 2*time.Second, "time to compare random programs, per architecture")
	differSeed    = flag.Uint64("differ.seed", 1, "seed of the random programs")
	differLog     = flag.Bool("differ.log", false, "print counts per opcode and per kind of refusal")
	differRefused = flag.Bool("differ.refused", false, "compare all refusals of formats and modes")
)

type testTile struct {
	l1    []uint32
	dirty [][2]uint32 // what was stored since the last mark, with what was there before unknown: see saved
	saved []uint32    // L1 at the last mark
}

func newTestTile(arch chip.Arch) *testTile {
	n := arch.Params().L1Size / 4
	return &testTile{l1: make([]uint32, n), saved: make([]uint32, n)}
}

func (t *testTile) L1(uint32) []uint32 { return t.l1 }
func (t *testTile) L1Size() uint32     { return uint32(4 * len(t.l1)) }
func (t *testTile) Loaded(uint32, int) {}
func (t *testTile) Stored(addr uint32, n int) {
	t.dirty = append(t.dirty, [2]uint32{addr / 4, (addr+uint32(n)-1)/4 + 1})
}

func (t *testTile) StoreConfig(word, value uint32) bool { return false }
func (t *testTile) Ordered(int, uint32, bool, bool)     {}
func (t *testTile) UsedDst(int, uint32, uint32, bool)   {}

func (t *testTile) StoreRegister(addr, value uint32) bool { return false }

func (t *testTile) mark() {
	for _, d := range t.dirty {
		copy(t.saved[d[0]:d[1]], t.l1[d[0]:d[1]])
	}
	t.dirty = t.dirty[:0]
}

func (t *testTile) restore() {
	for _, d := range t.dirty {
		copy(t.l1[d[0]:d[1]], t.saved[d[0]:d[1]])
	}
	t.dirty = t.dirty[:0]
}

func (t *testTile) stray() bool {
	return slices.ContainsFunc(t.dirty, func(d [2]uint32) bool {
		return d[0] < dataBase/4 || d[1] > (dataBase+dataSize)/4
	})
}

// straysIn reports whether an UNPACR would read outside of the data, where the simulator has its
// own.
func (r *rig) straysIn(n int, w uint32) bool {
	t, a := &r.e.threads[n], r.e.decodeUNPACR(w)
	u := unpacking{unit: a.unit, adc: &t.adc[a.unit], xy: &t.adc[a.unit], context: t.unpackContext(&a)}
	defer func() { r.e.fault = nil }()
	if u.context >= numContexts || !r.e.unpackFormats(t, &u) || !r.e.unpackFrom(t, &u) || !r.e.unpackTo(t, &u) || !r.e.unpackExtras(t, &u) {
		return false // it is refused
	}
	out := func(addr uint32) bool { return addr < dataBase || addr >= dataBase+dataSize }
	return out(u.at(0)/8) || out(u.at(u.count-1)/8) || u.bfp && !u.forced && (out(u.exponents/16) || out((u.exponents+u.count)/16))
}

func (t *testTile) write(addr uint32, p []byte) {
	setWordBytes(t.l1, addr, p)
	t.Stored(addr, len(p))
	t.mark()
}

func (t *testTile) bytes(addr uint32, n int) []byte {
	p := make([]byte, n)
	copy(p, view(t.l1, addr, make([]byte, len(p))))
	return p
}

// rig is an engine on which random programs are tried before the vendor's simulator executes them.
type rig struct {
	arch      chip.Arch
	rng       *rand.Rand
	e         *Engine
	saved     Engine
	data      registers // of saved, if keepsData is set
	keepsData bool
	tile      *testTile

	pending []access // since the last comparison
	history []access // since reset, without pending
	why     *Refusal // of what was tried last, if it was refused
	counts  map[string]int
	thread  int // of the scene
	core    int // that pushes to it: BRISC 0, or the thread's own
	o       *oracle
}

func newRig(arch chip.Arch, rng *rand.Rand) *rig {
	r := &rig{arch: arch, rng: rng, tile: newTestTile(arch), counts: map[string]int{}}
	r.e = New(arch, r.tile)
	return r
}

func (r *rig) apply(a access) bool {
	n := a.core - 1 // thread, unless it is BRISC's
	switch {
	case a.addr >= pushAperture && a.addr < pushAperture+numThreads<<16:
		if a.core == 0 {
			n = int(a.addr-pushAperture) >> 16
		}
		return r.pushTo(n, a.value, a.core != 0)
	case a.addr >= configWindow && a.addr < configWindow+4*numConfigWords:
		return r.e.StoreConfig((a.addr-configWindow)/4, a.value)
	case a.addr >= mopWindow && a.addr < mopWindow+4*mopWords:
		r.e.StoreMOP(n, int(a.addr-mopWindow)/4, a.value)
		return true
	case a.addr >= gprWindow && a.addr < gprWindow+4*NumGPRs:
		r.e.SetGPR(n, int(a.addr-gprWindow)/4, a.value)
		return true
	case a.addr >= semWindow && a.addr < semWindow+4*numSemaphores:
		i := int(a.addr-semWindow) / 4
		if a.value == 1 {
			return r.e.GetSemaphore(i)
		}
		return r.e.PostSemaphore(i)
	}
	return false
}

func (r *rig) oursAlone(w uint32) bool {
	switch w >> 24 {
	case opSFPLOADMACRO:
		return true
	case opSFPSHFT2:
		return w&15 == 6
	case opUNPACR:
		a := r.e.decodeUNPACR(w)
		return r.arch == chip.Wormhole && a.zero != 0 || a.context != 0 || a.counters != 0
	}
	return false
}

func (r *rig) pushTo(n int, w uint32, expand bool) bool {
	if r.oursAlone(w) {
		return false
	}
	if w>>24 != opUNPACR && !Expands(w) {
		r.e.PushRun(n, w, expand)
		return r.e.fault == nil && r.e.Idle()
	}
	if !r.e.Push(n, w, expand) {
		return false
	}
	for t := &r.e.threads[n]; ; {
		if t.queue.n != 0 {
			if next := t.queue.peek(); r.oursAlone(next) || next>>24 == opUNPACR && r.straysIn(n, next) {
				return false
			}
		}
		if r.e.Step() == 0 {
			return r.e.fault == nil && r.e.Idle()
		}
	}
}

func (r *rig) try(list ...access) bool {
	r.why = nil
	r.save(slices.ContainsFunc(list, changesData))
	for _, a := range list {
		if r.apply(a) && !r.tile.stray() {
			continue
		}
		r.why = r.e.fault
		r.restore()
		return false
	}
	r.tile.mark()
	r.pending = append(r.pending, list...)
	for _, a := range list {
		if a.addr >= pushAperture && a.addr < semWindow {
			r.counts[mnemonic(a.value)]++
		}
	}
	return true
}

func changesData(a access) bool {
	if a.addr < pushAperture || a.addr >= semWindow {
		return false
	}
	switch u := unitOf(a.value); {
	case a.value>>24 == opSETRWC, a.value>>24 == opSETDMAREG:
		return false
	default:
		return u&(unitMisc|unitConfig|unitSync) == 0
	}
}

func (r *rig) save(data bool) {
	if r.e.registers == nil {
		r.e.allocate()
	}
	r.saved, r.keepsData = *r.e, data
	if data {
		r.data = *r.e.registers
	}
}

func (r *rig) restore() {
	*r.e = r.saved
	if r.keepsData {
		*r.e.registers = r.data
	}
	// Caches depend on the sources' data.
	r.e.srcA.decoded, r.e.srcB.decoded = nil, nil
	r.tile.restore()
}

func (r *rig) push(w uint32) access {
	if r.core != 0 {
		return access{pushAperture, w, r.core}
	}
	return access{pushAperture + uint32(r.thread)<<16, w, 0}
}

// Bank 0 is set by a store, bank 1 through a GPR.
func (r *rig) configure(f isa.Config, v uint32) bool {
	const gpr = 60
	p := r.e.places[f]
	if p.Mask == 0 {
		return false
	}
	bank := r.e.threads[r.thread].field(isa.ThreadStateID)
	w := r.e.config[bank][p.Word]&^(p.Mask<<p.Shift) | v&p.Mask<<p.Shift
	if bank == 0 {
		return r.try(access{configWindow + 4*uint32(p.Word), w, r.core})
	}
	half := func(i uint32) uint32 {
		v := w >> (16 * i) & 0xFFFF
		return opSETDMAREG<<24 | v>>14<<22 | v&0x3FFF<<8 | 2*gpr + i
	}
	return r.try(r.push(half(0)), r.push(half(1)), r.push(opWRCFG<<24|gpr<<16|uint32(p.Word)))
}

func (r *rig) setThread(f isa.Thread, v uint32) bool {
	t := &r.e.threads[r.thread]
	p := t.places[f]
	if p.Mask == 0 {
		return false
	}
	w := t.config[p.Word]&^(p.Mask<<p.Shift) | v&p.Mask<<p.Shift
	return r.try(r.push(opSETC16<<24 | uint32(p.Word)<<16 | w&0xFFFF))
}

const fillData = 4

const (
	onesBase = dataBase + 0x9000
	onesSize = 0x1000
)

func randomData(seed uint32) []byte {
	rng := rand.New(rand.NewPCG(uint64(seed), 1))
	p := make([]byte, dataSize)
	style := rng.IntN(3)
	for i := 0; i < len(p); i += 4 {
		v := rng.Uint32()
		switch style {
		case 1: // bf16 numbers near 1
			v = v&0x807F807F | (0x3C003C00 + rng.Uint32()&0x07800780)
		case 2: // few bits
			v &= rng.Uint32() & rng.Uint32()
		}
		binary.LittleEndian.PutUint32(p[i:], v)
	}
	for i, one := range ones {
		at := p[onesBase-dataBase+i*onesSize:][:onesSize]
		if one.format.BFP() {
			exponents := at[:srcRows]
			for j := range exponents {
				exponents[j] = 127
			}
			at = at[srcRows:]
		}
		for j := range at {
			at[j] = one.bytes[j%len(one.bytes)]
		}
	}
	return p
}

// ones are the patterns of one. A block format's exponents for a bank come first.
var ones = []struct {
	format arith.Format
	bytes  []byte
}{
	{arith.BF16, []byte{0x80, 0x3F}},
	{arith.FP32, []byte{0, 0, 0x80, 0x3F}},
	{arith.BFP8, []byte{0x40}},
	{arith.BFP4, []byte{0x44}},
}

func onesOf(f arith.Format) uint32 {
	for i, one := range ones {
		if one.format == f {
			return onesBase + onesSize*uint32(i)
		}
	}
	return onesBase
}

func (r *rig) fill(o *oracle, seed uint32) {
	p := randomData(seed)
	r.tile.write(dataBase, p)
	o.write(dataBase, p)
	r.history = append(r.history, access{fillData, seed, 0})
}

func (r *rig) start(o *oracle) {
	for addr := uint32(0); addr < dataBase; addr += 0x10000 {
		r.tile.write(addr, o.read(uint64(addr), 0x10000))
	}
}

var digits = regexp.MustCompile(`0x[0-9a-f]+|[0-9]+`)

func kind(f *Refusal) string {
	return f.Category.String() + " " + f.Mnemonic() + ": " + digits.ReplaceAllString(f.Detail, "N")
}

func (r *rig) compare(o *oracle) error {
	buses := busReads()
	reads := append(buses, gprReads()...)
	out, err := o.do(append(slices.Clone(r.pending), reads...))
	if err != nil {
		return fmt.Errorf("the vendor's simulator refuses what we do: %w", err)
	}
	var diffs []string
	for i, b := range buses {
		if b.addr != busData|1 {
			continue
		}
		ctrl := buses[i-1].value
		want := out[0]
		out = out[1:]
		if got, _ := r.e.DebugBus(ctrl>>16&0xFF, ctrl&0xFFFF, ctrl>>25&3); got != want {
			diffs = append(diffs, fmt.Sprintf("debug bus %d/%d/%d: %#x, want %#x", ctrl>>16&0xFF, ctrl&0xFFFF, ctrl>>25&3, got, want))
		}
	}
	for _, a := range reads[len(buses):] {
		want := out[0]
		out = out[1:]
		got := uint32(0)
		if a.addr < semWindow {
			got = r.e.GPR(a.core-1, int(a.addr-gprWindow)/4)
		} else {
			got = r.e.Semaphore(int(a.addr-semWindow) / 4)
		}
		if got != want {
			diffs = append(diffs, fmt.Sprintf("load of %#x by T%d: %#x, want %#x", a.addr-1, a.core-1, got, want))
		}
	}
	got := r.tile.bytes(dataBase, dataSize)
	for i, want := range o.read(dataBase, dataSize) {
		if got[i] != want {
			diffs = append(diffs, fmt.Sprintf("L1 %#x: %#02x, want %#02x", dataBase+i, got[i], want))
		}
	}
	rows, err := o.dst()
	if err != nil {
		return err
	}
	for i, want := range rows {
		if got := r.e.DebugDst(uint32(i/8), uint32(i%8)); got != want {
			diffs = append(diffs, fmt.Sprintf("Dst row %d pair %d: %#08x, want %#08x", i/8, i%8, got, want))
		}
	}
	if len(diffs) != 0 {
		return fmt.Errorf("%d differences:\n%s", len(diffs), strings.Join(diffs[:min(len(diffs), 12)], "\n"))
	}
	r.history = append(r.history, r.pending...)
	r.pending = nil
	return nil
}

func busReads() []access {
	var list []access
	for _, s := range [][2]uint32{{6, 0}, {6, 1}, {6, 2}, {6, 3}, {6, 4}, {6, 5}, {6, 9}, {3, 2}, {3, 3}, {3, 4}} {
		for word := range uint32(4) {
			list = append(list, access{busControl, 1<<29 | word<<25 | s[0]<<16 | s[1], 0}, access{busData | 1, 0, 0})
		}
	}
	return list
}

func gprReads() []access {
	var list []access
	for thread := range numThreads {
		for i := range uint32(NumGPRs) {
			list = append(list, access{gprWindow + 4*i | 1, 0, thread + 1})
		}
	}
	for i := range uint32(numSemaphores) {
		list = append(list, access{semWindow + 4*i | 1, 0, 1})
	}
	return list
}

// refusedByUs are refusals that the vendor's simulator doesn't share: it reads beyond its own
// arrays.
var refusedByUs = []string{"UndefinedBehavior PACR: row N of Dst"}

func (r *rig) refusedAlike(o *oracle, a access, why *Refusal) error {
	_, err := o.do(append(slices.Clone(r.pending), a))
	var e *ttsim.Error
	if err == nil && slices.Contains(refusedByUs, kind(why)) {
		return nil
	}
	if err == nil {
		return fmt.Errorf("the vendor's simulator does what we refuse: %v", why)
	}
	if !errors.As(err, &e) {
		return err
	}
	if e.Category != why.Category.String() && e.Category != "AssertionFailure" {
		return fmt.Errorf("refused as %v, want %s: %s", why, e.Category, e.Message)
	}
	return nil
}

func TestRandomProgramsLikeTTSim(t *testing.T) {
	for _, arch := range archs {
		t.Run(arch.String(), func(t *testing.T) {
			t.Parallel()
			differ(t, arch, *differSeed, *differFor)
		})
	}
}

func differ(t *testing.T, arch chip.Arch, seed uint64, d time.Duration) {
	ttsimtest.Path(t, libraries[arch]) // skips before the list of combinations takes its time
	refused := map[string]int{}
	counts := map[string]int{}
	total := 0
	episodes := 0
	todo := slices.DeleteFunc(decided(t, arch), func(p program) bool { return !p.taken })
	all := len(todo)
	rng := rand.New(rand.NewPCG(seed, 1<<32))
	rng.Shuffle(all, func(i, j int) { todo[i], todo[j] = todo[j], todo[i] })
	for deadline := time.Now().Add(d); time.Now().Before(deadline); episodes++ {
		if len(todo) > 0 {
			used, n := directEpisode(t, arch, rng, counts, todo)
			todo, total = todo[used:], total+n
		}
		o := newOracle(t, arch)
		r := newRig(arch, rand.New(rand.NewPCG(seed, uint64(episodes))))
		r.counts, r.o = counts, o
		r.start(o)
		r.fill(o, r.rng.Uint32())
		n, err := r.episode(o, deadline, refused)
		total += n
		o.close()
		if err != nil {
			t.Fatalf("seed %d, episode %d, after %d instructions: %v\nlast: %s", seed, episodes, n, err, r.tail(12))
		}
	}
	t.Logf("%d instructions and stores equal in %d episodes, %d kinds of refusal", total, episodes, len(refused))
	t.Logf("%d of %d combinations by programs of their own", all-len(todo), all)
	if *differLog {
		for _, m := range []map[string]int{counts, refused} {
			for _, k := range slices.Sorted(maps.Keys(m)) {
				t.Logf("%8d %s", m[k], k)
			}
		}
	}
}

func (r *rig) tail(n int) string {
	all := append(slices.Clone(r.history), r.pending...)
	var s []string
	for _, a := range all[max(0, len(all)-n):] {
		if a.addr >= pushAperture && a.addr < semWindow {
			s = append(s, fmt.Sprintf("core %d thread %d %s %#08x", a.core, (a.addr-pushAperture)>>16, mnemonic(a.value), a.value))
		} else {
			s = append(s, fmt.Sprintf("core %d stores %#x to %#x (configuration word %d)", a.core, a.value, a.addr, (a.addr-configWindow)/4))
		}
	}
	return strings.Join(s, "\n      ")
}

const (
	batchSize   = 1000
	episodeSize = 60000
	perKind     = 2 // refusals of a kind that are shown to the vendor's simulator
)

func (r *rig) episode(o *oracle, deadline time.Time, refused map[string]int) (int, error) {
	g := generator{rig: r}
	n := 0
	for n < episodeSize && time.Now().Before(deadline) {
		for len(r.pending) < batchSize {
			a, why := g.step()
			if why == nil {
				continue
			}
			if k := kind(why); refused[k] < perKind {
				refused[k]++
				n += len(r.pending)
				err := r.refusedAlike(o, a, why)
				r.pending = append(r.pending, a)
				return n, err
			}
		}
		n += len(r.pending)
		if err := r.compare(o); err != nil {
			return n, r.locate(err)
		}
		if r.rng.IntN(4) == 0 {
			r.fill(o, r.rng.Uint32())
		}
	}
	return n, nil
}

func (r *rig) locate(err error) error {
	all := slices.Concat(r.history, r.pending)
	low, high := len(r.history), len(all) // equal after low, not after high
	for low+1 < high {
		mid := (low + high) / 2
		if e := replay(r, all[:mid]); e != nil {
			high, err = mid, e
		} else {
			low = mid
		}
	}
	r.history, r.pending = all[:high], nil
	return err
}

func replay(r *rig, list []access) error {
	o := newOracle(r.o.t, r.arch)
	defer o.close()
	again := newRig(r.arch, r.rng)
	again.start(o)
	for _, a := range list {
		if a.addr == fillData {
			if _, err := o.do(again.pending); err != nil {
				return err
			}
			again.pending = nil
			again.fill(o, a.value)
			continue
		}
		if !again.try(a) {
			return fmt.Errorf("replay is refused: %v", again.why)
		}
	}
	return again.compare(o)
}
