package tensix

import (
	"slices"

	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/hwtest/rig"
	"github.com/reprise-tt/reprise/sim/emu/tensix/isa"
)

const (
	gprResult  = 0
	gprOperand = 8
)

// Factors are odd, so that no product loses earlier results.
func stepOperand(i int) uint32 { return uint32(2*i*i + 3*i + 5 | i&1) }

func stepInstruction(i int) isa.Instruction {
	if i%2 == 0 {
		return isa.ADDDMAREG{Dst: gprResult, A: gprResult, B: gprOperand + uint32(i)}
	}
	return isa.MULDMAREG{Dst: gprResult, A: gprResult, B: gprOperand + uint32(i)}
}

const stepKinds = 8

const noStep = -1

func executed(list []int) uint32 {
	v := uint32(1)
	for _, i := range list {
		switch {
		case i == noStep:
		case i%2 == 0:
			v += stepOperand(i)
		default:
			v = v & 0xFFFF * (stepOperand(i) & 0xFFFF)
		}
	}
	return v
}

func (th *engineThread) beginSteps() {
	th.store(gpr(gprResult), 1)
	for i := range stepKinds {
		th.store(gpr(gprOperand+uint32(i)), stepOperand(i))
	}
	th.load(gpr(gprResult))
}

func (th *engineThread) step(list ...int) {
	for _, i := range list {
		th.do(stepInstruction(i))
	}
}

func (th *engineThread) endSteps() {
	th.sync()
	th.load(gpr(gprResult))
}

func (e *engines) eachThread(f func(thread int, th *engineThread) []int) {
	r := e.newRun()
	var want [3]uint32
	for i, th := range r.threads {
		th.beginSteps()
		want[i] = executed(f(i, th))
		th.endSteps()
	}
	r.run()
	for i, w := range want {
		r.wantLog(i, 1, w)
	}
}

func (th *engineThread) mopStep(i int) uint32 {
	if i == noStep {
		return th.r.word(isa.NOP{})
	}
	return th.r.word(stepInstruction(i))
}

func (th *engineThread) mop(words ...uint32) {
	th.sync()
	for i, w := range words {
		th.store(mopConfig+4*uint32(i), w)
	}
}

type mopLoops struct {
	outer, inner                                   int
	start, body, other, end0, end1, last, veryLast int
}

func (m mopLoops) push(th *engineThread) (list []int) {
	word := th.mopStep
	th.mop(uint32(m.outer), uint32(m.inner), word(m.start), word(m.end0), word(m.end1), word(m.body), word(m.other), word(m.veryLast),
		word(m.last))
	th.do(isa.MOP{Kind: 1})
	body, inner := []int{m.body}, m.inner
	if m.other != noStep {
		body = append(body, m.other)
		inner *= 2
	}
	turn := 0 // the two of the body take turns over all rounds
	for i := range m.outer {
		list = append(list, m.start)
		for j := range inner {
			switch {
			case j < inner-1:
				list = append(list, body[turn%len(body)])
			case i < m.outer-1:
				list = append(list, m.last)
			default:
				list = append(list, m.veryLast)
			}
			turn++
		}
		list = append(list, m.end0)
		if m.end0 != noStep {
			list = append(list, m.end1)
		}
	}
	return list
}

type mopMask struct {
	rounds       int
	mask         uint32
	four, b      bool
	a            [4]int
	bStep        int
	skipA, skipB int
}

func (m mopMask) push(th *engineThread) (list []int) {
	word, flags := th.mopStep, uint32(0)
	if m.b {
		flags |= 1
	}
	if m.four {
		flags |= 2
	}
	th.mop(0, flags, word(m.bStep), word(m.a[0]), word(m.a[1]), word(m.a[2]), word(m.a[3]), word(m.skipA), word(m.skipB))
	th.do(isa.MOPCFG{Mask: m.mask >> 16}, isa.MOP{Count: uint32(m.rounds - 1), Mask: m.mask & 0xFFFF})
	for i := range m.rounds {
		if m.mask>>i&1 != 0 {
			list = append(list, m.skipA)
			if m.b {
				list = append(list, m.skipB)
			}
			continue
		}
		list = append(list, m.a[0])
		if m.four {
			list = append(list, m.a[1:]...)
		}
		if m.b {
			list = append(list, m.bStep)
		}
	}
	return list
}

func frontCases() rig.Table {
	var cs rig.Table
	add := adder(&cs)
	const expands, replays = "a MOP executes what its configuration says, in that order, for each thread",
		"REPLAY executes what it has recorded, in that order, for each thread"
	each := func(name, protects string, f func(thread int, th *engineThread) []int) {
		add(name, protects, func(e *engines) { e.eachThread(f) })
	}
	loops := func(name string, list ...mopLoops) {
		each(name, expands, func(thread int, th *engineThread) (all []int) {
			for _, m := range list {
				m.outer += thread
				all = append(all, m.push(th)...)
			}
			return all
		})
	}
	const no = noStep
	loops("MOP of a loop", mopLoops{1, 1, no, 0, no, no, no, 1, 2}, mopLoops{1, 7, no, 1, no, no, no, 3, 4})
	loops("MOP of nested loops", mopLoops{4, 5, no, 0, no, no, no, 1, 3}, mopLoops{30, 2, no, 1, no, no, no, 2, 5})
	loops("MOP with instructions before and after the inner loop", mopLoops{3, 4, 0, 1, no, 2, no, 3, 5},
		mopLoops{3, 4, 0, 1, no, 2, 7, 3, 5}, mopLoops{2, 2, no, 1, no, no, 6, 3, 5})
	loops("MOP of a body of two instructions", mopLoops{3, 4, no, 0, 1, no, no, 2, 3}, mopLoops{2, 1, 4, 0, 1, 5, 6, 7, 3},
		mopLoops{3, 3, 4, 5, 2, no, no, 1, 0})
	loops("MOP of almost 500 instructions", mopLoops{6, 60, 0, 1, no, 2, no, 3, 5}) // ttsim's queue holds 511
	masks := func(name string, list ...mopMask) {
		each(name, expands, func(_ int, th *engineThread) (all []int) {
			for _, m := range list {
				m.a, m.bStep, m.skipA, m.skipB = [4]int{0, 1, 2, 3}, 4, 5, 6
				m.mask = th.r.rnd.Uint32()
				all = append(all, m.push(th)...)
			}
			return all
		})
	}
	masks("MOP of a mask", mopMask{rounds: 1}, mopMask{rounds: 16}, mopMask{rounds: 9})
	masks("MOP of a mask for two unpackers", mopMask{rounds: 3, b: true}, mopMask{rounds: 16, b: true})
	masks("MOP of a mask with four instructions a round", mopMask{rounds: 5, four: true}, mopMask{rounds: 16, four: true},
		mopMask{rounds: 16, four: true, b: true})
	masks("MOP of a mask of 32 bits, whose upper half MOP_CFG sets", mopMask{rounds: 32}, mopMask{rounds: 29, b: true},
		mopMask{rounds: 32, four: true, b: true})

	each("REPLAY records without executing, and executes", replays, func(thread int, th *engineThread) []int {
		sequence := []int{0, 1, 2, 3, 1, 0, 5}
		th.do(isa.REPLAY{Record: 1, Length: 7, Start: uint32(thread)})
		th.step(sequence...)
		th.step(4)
		for range 3 {
			th.do(isa.REPLAY{Length: 7, Start: uint32(thread)})
		}
		return append([]int{4}, slices.Repeat(sequence, 3)...)
	})
	each("REPLAY executes while it records", replays, func(_ int, th *engineThread) []int {
		sequence := []int{7, 1, 2, 3, 6}
		th.do(isa.REPLAY{Record: 1, Run: 1, Length: 5})
		th.step(sequence...)
		th.do(isa.REPLAY{Length: 5})
		return slices.Repeat(sequence, 2)
	})
	each("REPLAY executes part of what was recorded", replays, func(_ int, th *engineThread) []int {
		sequence := make([]int, 32)
		for i := range sequence {
			sequence[i] = i * 5 % stepKinds
		}
		th.do(isa.REPLAY{Record: 1, Length: 32})
		th.step(sequence...)
		th.do(isa.REPLAY{Length: 9, Start: 20}, isa.REPLAY{Length: 1, Start: 31}, isa.REPLAY{Length: 32})
		return slices.Concat(sequence[20:29], sequence[31:], sequence)
	})
	each("REPLAY goes on at the beginning after 32 instructions", replays, func(_ int, th *engineThread) []int {
		sequence := []int{0, 1, 2, 3, 4, 5, 6, 7, 1, 2}
		th.do(isa.REPLAY{Record: 1, Length: 10, Start: 27})
		th.step(sequence...)
		th.do(isa.REPLAY{Length: 10, Start: 27}, isa.REPLAY{Length: 5, Start: 0})
		return append(slices.Clone(sequence), sequence[5:]...)
	})
	each("REPLAY in a MOP", replays, func(thread int, th *engineThread) []int {
		sequence := []int{3, 0, 5}
		th.do(isa.REPLAY{Record: 1, Length: 3, Start: 4})
		th.step(sequence...)
		replay, nop := th.r.word(isa.REPLAY{Length: 3, Start: 4}), th.mopStep(noStep)
		th.mop(2, uint32(3+thread), th.mopStep(2), th.mopStep(1), nop, replay, nop, replay, replay)
		th.do(isa.MOP{Kind: 1})
		round := slices.Concat([]int{2}, slices.Repeat(sequence, 3+thread), []int{1})
		return append(round, round...)
	})
	each("thousands of stores to the queue", "a thread executes instructions in the order of its core's pushes",
		func(_ int, th *engineThread) []int {
			list := make([]int, 3000)
			for i := range list {
				list[i] = th.r.rnd.IntN(stepKinds)
			}
			th.step(list...)
			return list
		})
	cs.Add("instructions in the stream of the core's own, with a full queue", "compiled instructions reach the engines once, with a wait for room", inlined)
	return cs
}

func inlined(t *rig.T) {
	const counts = 3000
	b := t.L1Buffer(3*32, 3*32)
	p := &reprise.Program{Name: "inline", Buffers: []*reprise.Buffer{b}}
	for i, core := range rig.Processors()[chip.TRISC0:] {
		p.Kernels = append(p.Kernels, reprise.Kernel{
			Name: "inline", Image: t.Own("inline"), Processor: core, Cores: []chip.Range{{}},
			Args: rig.Args(b.Addr()+uint32(32*i), counts),
		})
	}
	t.RunAndWait(t.Load(p))
	got := t.ReadAll(b)
	stride := uint32(96 << 16)
	if t.Dev.Arch() == chip.Wormhole {
		stride = 96 << 12
	}
	const expanded = 3*(1+5+1) + 4 + 3
	for _, want := range []struct {
		thread, word int
		what         string
		v            uint32
	}{
		{0, 0, "count", counts}, {0, 1, "register", 0x89ABCDEF}, {0, 3, "semaphore before", 0}, {0, 4, "semaphore after", 2}, {0, 5, "count of MOP and REPLAY", expanded},
		{1, 0, "count", counts}, {1, 1, "register", 0x89ABCDEF}, {1, 2, "configuration", 0x12345678}, {1, 5, "count of MOP and REPLAY", expanded},
		{2, 0, "count", counts}, {2, 1, "register", 0x89ABCDEF}, {2, 2, "configuration", stride}, {2, 5, "count of MOP and REPLAY", expanded},
	} {
		rig.Equal(t, rig.Word(got[32*want.thread+4*want.word:]), want.v, "thread %d: %s", want.thread, want.what)
	}
}
