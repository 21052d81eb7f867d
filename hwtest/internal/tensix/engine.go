// Package tensix has the conformance cases of a tile's Tensix engines.
package tensix

import (
	"bytes"
	"math/rand/v2"
	"slices"

	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/hwtest/rig"
	"github.com/reprise-tt/reprise/sim/emu/tensix/arith"
	"github.com/reprise-tt/reprise/sim/emu/tensix/isa"
)

// Cases returns the cases, instruction by instruction.
func Cases() rig.Table {
	return slices.Concat(frontCases(), syncCases(), unpackCases(), moveCases(),
		matrixCases(), laneCases(), packCases())
}

// A case is a script of instruction words for each T core, which kernels/engine.c runs. It must
// free the sources' banks.

// Sizes in bytes of a run's buffers in L1.
const (
	scriptBytes = 0x4000 // of each thread
	logBytes    = 0x400  // of each thread
	engineBytes = 0x10000
)

const engineQueue = 128 // instructions pushed before a wait for the engines: ttsim stops at 512

const unwritten = 0xA5

const (
	threadUnpack = iota
	threadMath
	threadPack
)

// Semaphores; 1 and 2 are for scripts.
const (
	semPack    = 1 // posted when Dst holds what is to be packed
	semUnpack  = 2 // posted when Dst holds what was unpacked
	semFree    = 3 // for cases
	semCleared = 5 // posted when the math thread has cleared its state
	semMath    = 6 // posted when the configuration is there
	semPacking = 7 // the same for the pack thread
)

type engines struct {
	*rig.T
	arch             chip.Arch
	model            arith.Arch
	rnd              *rand.Rand
	scripts, in, out *reprise.Buffer
	program          *reprise.Executable
}

func adder(cs *rig.Table) func(name, protects string, fn func(*engines)) {
	return func(name, protects string, fn func(*engines)) {
		cs.Add(name, protects, func(t *rig.T) { fn(newEngines(t, name)) })
	}
}

func newEngines(t *rig.T, name string) *engines {
	e := &engines{T: t, rnd: rig.Random(name), arch: t.Dev.Arch(), model: arith.Wormhole}
	if e.blackhole() {
		e.model = arith.Blackhole
	}
	one := func(n int) *reprise.Buffer { return t.L1Buffer(n, n) }
	e.scripts, e.in, e.out = one(3*(scriptBytes+logBytes)), one(engineBytes), one(engineBytes)
	p := &reprise.Program{Name: "engines", Buffers: []*reprise.Buffer{e.scripts, e.in, e.out}}
	for i, core := range rig.Processors()[chip.TRISC0:] {
		script := e.scripts.Addr() + uint32(i*(scriptBytes+logBytes))
		p.Kernels = append(p.Kernels, reprise.Kernel{
			Name: "engine", Image: t.Own("engine"), Processor: core, Cores: []chip.Range{{}},
			Args: rig.Args(script, script+scriptBytes, engineQueue),
		})
	}
	e.program = t.Load(p)
	return e
}

func (e *engines) blackhole() bool { return e.arch == chip.Blackhole }

func by[T any](e *engines, wormhole, blackhole T) T {
	if e.blackhole() {
		return blackhole
	}
	return wormhole
}

// by is for the numbers of the two chips' instructions.
func (e *engines) by(wormhole, blackhole uint32) uint32 { return by(e, wormhole, blackhole) }

func (e *engines) packers() isa.Config { return by[isa.Config](e, 4, 1) }

type engineRun struct {
	*engines
	config  map[uint32]uint32
	threads [3]*engineThread
	input   []byte
	outSize int
	before  map[int][]byte // of the output, where it matters
	log     [3][]uint32
	packed  []byte // the output after the run
}

func (e *engines) newRun() *engineRun {
	r := &engineRun{engines: e, config: map[uint32]uint32{}, before: map[int][]byte{}}
	for i := range r.threads {
		r.threads[i] = &engineThread{r: r}
	}
	for c := range isa.Configs(e.arch) {
		r.set(c, 0)
	}
	r.set(isa.EdgeMask, 0xFFFF)
	for i := range e.packers() {
		r.set(isa.PackRows+i, 16)
	}
	return r
}

func (r *engineRun) unpack() *engineThread { return r.threads[threadUnpack] }
func (r *engineRun) math() *engineThread   { return r.threads[threadMath] }
func (r *engineRun) pack() *engineThread   { return r.threads[threadPack] }

func (r *engineRun) set(c isa.Config, v uint32) {
	word, value, err := c.Place(r.arch, v)
	r.OK(err)
	r.config[word] = r.config[word]&^c.Mask(r.arch) | value
}

func (r *engineRun) setBits(c isa.Config, bits uint32) {
	word, _, err := c.Place(r.arch, 0)
	r.OK(err)
	r.config[word] |= bits
}

func (r *engineRun) place(data []byte) (addr uint32) {
	at := len(r.input)
	r.input = append(r.input, data...)
	r.input = append(r.input, make([]byte, -len(r.input)&15)...)
	if len(r.input) > engineBytes {
		r.Fatalf("%d bytes of input: there is room for %d", len(r.input), engineBytes)
	}
	return r.in.Addr() + uint32(at)
}

func (r *engineRun) reserve(n int) (at int, addr uint32) {
	at = r.outSize
	r.outSize += (n + 15) &^ 15
	if r.outSize > engineBytes {
		r.Fatalf("%d bytes of output: there is room for %d", r.outSize, engineBytes)
	}
	return at, r.out.Addr() + uint32(at)
}

type engineThread struct {
	r     *engineRun
	words []uint32
	want  []uint32
}

const (
	commandSync  = 0xC0 << 24
	commandStore = 0xC1 << 24
	commandLoad  = 0xC2 << 24
	commandPoll  = 0xC3 << 24
)

// Registers of a T core.
const (
	mopConfig      = 0xFFB80000
	engineGPRs     = 0xFFE00000
	configAperture = 0xFFEF0000
	coreSemaphores = 0xFFE80020
)

func (th *engineThread) do(list ...isa.Instruction) {
	for _, in := range list {
		th.words = append(th.words, th.r.word(in))
	}
}

func (e *engines) word(in isa.Instruction) uint32 {
	w, err := isa.Encode(e.arch, in)
	e.OK(err)
	return w
}

func (th *engineThread) sync()                  { th.words = append(th.words, commandSync) }
func (th *engineThread) store(addr, v uint32)   { th.words = append(th.words, commandStore, addr, v) }
func (th *engineThread) load(addr uint32)       { th.words = append(th.words, commandLoad, addr) }
func (th *engineThread) poll(addr, want uint32) { th.words = append(th.words, commandPoll, addr, want) }

type value struct {
	field isa.Thread
	v     uint32
}

// own sets a word of the thread's configuration; fields that are not given become 0.
func (th *engineThread) own(values ...value) {
	var word, all uint32
	for _, v := range values {
		w, bits, err := v.field.Place(th.r.arch, v.v)
		th.r.OK(err)
		word, all = w, all|bits
	}
	th.do(isa.SETC16{Reg: word, Value: all})
}

// set is own for a word of one field.
func (th *engineThread) set(f isa.Thread, v uint32) {
	th.own(value{f, v})
}

// A store of 0 posts a semaphore, one of 1 gets it.
func coreSemaphore(i uint32) uint32 { return coreSemaphores + 4*i }

func (th *engineThread) post(i uint32) { th.store(coreSemaphore(i), 0) }
func (th *engineThread) get(i uint32)  { th.store(coreSemaphore(i), 1) }

func (th *engineThread) look(addr, want uint32) {
	th.load(addr)
	th.want = append(th.want, want)
}

func (th *engineThread) take(i uint32) {
	th.poll(coreSemaphore(i), 1)
	th.get(i)
}

// prologues bring each thread to the same state.
func (r *engineRun) prologues() [3]engineThread {
	var p [3]engineThread
	for i := range p {
		p[i].r = r
	}
	u, m, k := &p[threadUnpack], &p[threadMath], &p[threadPack]
	for i := range uint32(8) {
		most := uint32(1)
		if i == semFree {
			most = 15
		}
		if i > 0 {
			u.do(isa.SEMINIT{Semaphores: 1 << i, Max: most})
		}
	}
	u.sync()
	for word := range uint32(256) {
		if v, ok := r.config[word]; ok {
			u.store(config(word), v)
		}
	}
	u.load(config(1))
	for i := range p {
		p[i].do(isa.MOPCFG{})
		p[i].set(isa.ThreadStateID, 0)
	}
	u.post(semMath)
	u.post(semPacking)
	u.set(isa.ThreadUnpackContext, 0)
	u.do(isa.SETADCXY{Units: 3, Mask: 15}, isa.SETADCZW{Units: 3, Mask: 15})
	u.take(semCleared)

	m.take(semMath)
	m.set(isa.ThreadDstOffset, 0)
	m.set(isa.ThreadKeepSrcValid, 0)
	if r.blackhole() {
		m.set(isa.ThreadExplicitSrcA, 0)
		m.set(isa.ThreadExplicitSrcB, 0)
	} else {
		m.set(isa.ThreadModeBias, 0)
		m.set(isa.ThreadFidelityBase, 0)
	}
	for i := range isa.Thread(8) {
		m.set(isa.ThreadModeSrcAIncrement+i, 0)
		m.set(isa.ThreadModeDstIncrement+i, 0)
		m.set(isa.ThreadModeBiasIncrement+i, 0)
	}
	m.do(isa.SETRWC{Mask: 15}, isa.ZEROACC{Clear: 3})
	m.do(isa.SFPENCC{Mod: 10, Imm: 3}, isa.SFPLOADI{Lreg: 0, Mod: 2}, isa.SFPCONFIG{Dst: 15})
	m.sync()
	m.post(semCleared)

	k.take(semPacking)
	for i := range isa.Thread(4) {
		k.set(isa.ThreadPackModeYSrcIncrement+i, 0)
	}
	k.do(isa.SETADCXY{Units: 4, Mask: 15}, isa.SETADCZW{Units: 4, Mask: 15})
	return p
}

func (r *engineRun) run() {
	memory := make([]byte, r.scripts.Size())
	for i, prologue := range r.prologues() {
		words := append(prologue.words, r.threads[i].words...)
		if 4*len(words)+4 > scriptBytes {
			r.Fatalf("script of %d words: there is room for %d", len(words), scriptBytes/4-1)
		}
		at := memory[i*(scriptBytes+logBytes):]
		rig.PutWord(at, uint32(len(words)))
		for j, w := range words {
			rig.PutWord(at[4+4*j:], w)
		}
	}
	r.Write(r.scripts, memory)
	if len(r.input) > 0 {
		r.Write(r.in, r.input)
	}
	r.packed = bytes.Repeat([]byte{unwritten}, r.outSize)
	for at, data := range r.before {
		copy(r.packed[at:], data)
	}
	if r.outSize > 0 {
		r.Write(r.out, r.packed)
	}
	r.Start(r.program)
	r.OK(r.Queue.Read(r.Ctx, r.scripts, 0, memory))
	if r.outSize > 0 {
		r.OK(r.Queue.Read(r.Ctx, r.out, 0, r.packed))
	}
	for i := range r.log {
		at := memory[i*(scriptBytes+logBytes)+scriptBytes:][:logBytes]
		r.log[i] = make([]uint32, logBytes/4)
		for j := range r.log[i] {
			r.log[i][j] = rig.Word(at[4*j:])
		}
	}
	r.log[threadUnpack] = r.log[threadUnpack][1:]
}

func (r *engineRun) wantLog(thread int, want ...uint32) {
	for i, w := range want {
		rig.Equal(r, r.log[thread][i], w, "load %d of thread %d", i, thread)
	}
}

// finish packs a tile, runs, and compares; the expected bytes must differ.
func (r *engineRun) finish(at int, want []byte, what string, args ...any) {
	if bytes.Count(want, want[:1]) == len(want) {
		r.Fatalf("%s: every byte would be %#x, which says nothing", what, want[0])
	}
	r.packTile()
	r.output(at, want, what, args...)
}

// output runs and compares what was packed.
func (r *engineRun) output(at int, want []byte, what string, args ...any) {
	r.run()
	r.Same(want, r.packed[at:][:len(want)], what, args...)
}

func (e *engines) anyBytes(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(e.rnd.Uint32())
	}
	return b
}
