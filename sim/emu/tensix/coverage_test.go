package tensix

import (
	"fmt"
	"slices"
	"testing"

	"github.com/reprise-tt/reprise/sim/emu/tensix/arith"
	"github.com/reprise-tt/reprise/sim/emu/tensix/isa"
)

// coverage counts which combinations of formats and modes compared programs have used.
type coverage map[string]int

// use names the combination that an instruction of a thread is about to use, if it is one of those
// that are counted.
func (r *rig) use(n int, w uint32) string {
	t, e := &r.e.threads[n], r.e
	switch op := w >> 24; op {
	case opPACR:
		return packUse(e.on(t, isa.PackRead32), e.cfg(t, isa.PackInFormat), e.cfg(t, isa.PackOutFormat), e.cfg(t, isa.Relu),
			e.on(t, isa.PackAccumulate))
	case opUNPACR:
		unit := isa.Config(w >> 23 & 1)
		toDst := unit == 0 && e.on(t, isa.UnpackToDstContext+isa.Config(t.field(isa.ThreadUnpackContext)&1))
		return unpackUse(uint32(unit), toDst, e.cfg(t, isa.UnpackDescriptor+unit)&15, e.cfg(t, isa.UnpackOutFormat+unit),
			e.on(t, isa.UnpackHaloize+unit), e.on(t, isa.UnpackTilize+unit))
	case opMVMUL, opGAPOOL, opELWADD, opELWSUB, opELWMUL, opGMPOOL:
		var o operation
		if e.begin(t, &o, 0) {
			return mathUse(op, o.math)
		}
	}
	return ""
}

func packUse(wide bool, in, out, relu uint32, accumulate bool) string {
	return fmt.Sprintf("PACR %v to %v, 32 bits %v, ReLU %d, accumulate %v", arith.Format(in), arith.Format(out), wide, relu, accumulate)
}

func unpackUse(unit uint32, toDst bool, in, out uint32, haloize, tilize bool) string {
	return fmt.Sprintf("UNPACR %d %v to %v, to Dst %v, transposed %v, tilized %v", unit, arith.Format(in), arith.Format(out), toDst,
		haloize, tilize)
}

func mathUse(op uint32, m arith.Math) string {
	return fmt.Sprintf("%s %v and %v, 32 bits %v, phase %d", encodings[op].name, m.A, m.B, m.Wide, m.Phase)
}

// legalUses lists the combinations that the engine takes.
func (e *Engine) legalUses() []string {
	var list []string
	for in := range uint32(16) {
		for out := range uint32(16) {
			for i := range uint32(2) {
				if e.packable(i == 1, in, out) {
					list = append(list, legalPacks(i == 1, in, out)...)
				}
			}
		}
	}
	return slices.Concat(list, legalUnpacks(), e.legalMath())
}

func legalPacks(wide bool, in, out uint32) []string {
	const relus formats = 1<<arith.FP32 | 1<<arith.FP16 | 1<<arith.BFP8A | 1<<arith.BF16 | 1<<arith.BFP8
	const accumulated formats = 1<<arith.FP32 | 1<<arith.FP16 | 1<<arith.BF16
	last := uint32(0)
	if relus.has(in) {
		last = 3
	} else if in == uint32(arith.INT32) {
		last = 1
	}
	var list []string
	for relu := range last + 1 {
		list = append(list, packUse(wide, in, out, relu, false))
		if accumulated.has(out) {
			list = append(list, packUse(wide, in, out, relu, true))
		}
	}
	return list
}

func legalUnpacks() []string {
	var list []string
	add := func(in, out arith.Format, toDst bool) {
		for i := range 8 {
			unit, haloize, tilize := uint32(i&1), i&2 != 0, i&4 != 0
			if unit == 1 && (toDst || haloize || tilize) || toDst && haloize || tilize && in.Bits() < 8 {
				continue
			}
			list = append(list, unpackUse(unit, toDst, uint32(in), uint32(out), haloize, tilize))
		}
	}
	for f := range uint32(16) {
		if toSources.has(f) {
			add(arith.Format(f), arith.Format(f), false)
		}
		if toSourcesFP32.has(f) {
			add(arith.FP32, arith.Format(f), false)
		}
		if toDstFP32.has(f) {
			add(arith.FP32, arith.Format(f), true)
		}
	}
	add(arith.INT32, arith.INT32, true)
	return list
}

func (e *Engine) legalMath() []string {
	var list []string
	for _, op := range []uint32{opMVMUL, opGAPOOL, opELWADD, opELWSUB, opELWMUL, opGMPOOL} {
		a, b, phases := productA, productB, uint8(4)
		switch op {
		case opELWADD, opELWSUB:
			a, b, phases = elementwiseA, elementwiseB, 1
		case opELWMUL:
			a, b = elementwiseA, elementwiseB
		case opGMPOOL:
			b = productA
		}
		for i := range uint32(256) {
			x, y := i&15, i>>4
			short := formats(shortExponents).has(x) && x == y && op != opGMPOOL
			if !short && (!a.has(x) || !b.has(y)) {
				continue
			}
			for phase := range phases {
				for wide := range 2 {
					list = append(list, mathUse(op, arith.Math{A: arith.Format(x), B: arith.Format(y), Wide: wide == 1, Phase: phase}))
				}
			}
		}
	}
	return list
}

// report logs how many of the legal combinations were used, and those that were not.
func (c coverage) report(t *testing.T, e *Engine, all bool) {
	legal := e.legalUses()
	var missing []string
	for _, u := range legal {
		if c[u] == 0 {
			missing = append(missing, u)
		}
	}
	t.Logf("%d of %d combinations of formats and modes", len(legal)-len(missing), len(legal))
	if all {
		for _, u := range missing {
			t.Logf("not used: %s", u)
		}
	}
}
