package tensix

import "github.com/reprise-tt/reprise/sim/emu/tensix/isa"

// Counters: RWC of the matrix unit, ADC of unpackers and packers (tt-isa-documentation
// WormholeB0/TensixTile/TensixCoprocessor/{RWCs,ADCs}.md).

// mode decodes an address mode once after each change.
func (t *thread) mode(i uint32) *addressMode {
	m := &t.modes[i]
	if t.modesKnown>>i&1 != 0 {
		return m
	}
	at := isa.Thread(i)
	*m = addressMode{
		a:             t.step(at, isa.ThreadModeSrcAIncrement, isa.ThreadModeSrcAClear, isa.ThreadModeSrcACarry),
		b:             t.step(at, isa.ThreadModeSrcBIncrement, isa.ThreadModeSrcBClear, isa.ThreadModeSrcBCarry),
		d:             t.step(at, isa.ThreadModeDstIncrement, isa.ThreadModeDstClear, isa.ThreadModeDstCarry),
		fidelity:      t.field(isa.ThreadModeFidelityIncrement + at),
		clearFidelity: t.field(isa.ThreadModeFidelityClear+at) != 0,
		bias:          t.field(isa.ThreadModeBiasIncrement + at),
		clearBias:     t.field(isa.ThreadModeBiasClear+at) != 0,
	}
	m.d.toCarry = t.field(isa.ThreadModeDstToCarry+at) != 0
	t.modesKnown |= 1 << i
	return m
}

// step reads the step of address mode i.
func (t *thread) step(i, by, clear, carry isa.Thread) step {
	return step{by: t.field(by + i), clear: t.field(clear+i) != 0, carry: t.field(carry+i) != 0}
}

func (e *Engine) advance(t *thread, i uint32, fidelity bool) bool {
	if e.wormhole {
		if t.bias != 0 || t.field(isa.ThreadModeBias) != 0 {
			i += 4
		}
	} else if t.bias != 0 {
		return e.unsupported("address modes with a bias of %d", t.bias)
	}
	m := t.mode(i)
	if m.d.toCarry && (m.d.clear || m.d.carry) {
		return e.unsupported("address mode %d saves the Dst counter and clears or restores it", i)
	}
	t.a.advance(&m.a, srcRows)
	t.b.advance(&m.b, srcRows)
	t.d.advance(&m.d, dstRows)
	if fidelity {
		t.fidelity = (t.fidelity + m.fidelity) & 3
		if m.clearFidelity {
			t.fidelity = 0
		}
	}
	switch {
	case m.clearBias:
		return e.unimplemented("address mode %d clears the bias", i)
	case m.bias > 1:
		return e.unsupported("address mode %d adds %d to the bias: want 0 or 1", i, m.bias)
	}
	t.bias ^= m.bias
	return true
}

func (t *thread) dstRow(dst uint32) uint32 {
	return (t.d.value + dst + t.field(isa.ThreadDstOffset)) & (dstRows - 1)
}

func (e *Engine) setrwc(t *thread, a setrwcArgs) bool {
	const srcA, srcB, dst, fidelity = 1, 2, 4, 8
	if a.cr > srcA|srcB|dst {
		return e.unsupported("carriage return mask %#x: want at most 7", a.cr)
	}
	if alone := a.cr &^ a.mask & (srcA | srcB); alone != 0 {
		return e.unsupported("carriage return of counters %#x that are not set", alone)
	}
	set := func(c *counter, bit, v, rows uint32) {
		if a.mask&bit == 0 {
			return
		}
		if a.cr&bit != 0 {
			v = (c.carry + v) & (rows - 1)
		}
		*c = counter{v, v}
	}
	set(&t.a, srcA, a.a, srcRows)
	set(&t.b, srcB, a.b, srcRows)
	set(&t.d, dst, a.d, dstRows)
	if a.mask&fidelity != 0 {
		t.fidelity = 0
	}
	return e.clearValid(t, a.clear)
}

func (e *Engine) incrwc(t *thread, a incrwcArgs) bool {
	const dst = 4
	if a.cr&^dst != 0 {
		return e.unsupported("carriage return mask %#x: want 0, or %d for Dst", a.cr, dst)
	}
	t.a.advance(&step{by: a.a}, srcRows)
	t.b.advance(&step{by: a.b}, srcRows)
	t.d.advance(&step{by: a.d, carry: a.cr != 0}, dstRows)
	return true
}

func (e *Engine) adcs(t *thread, mask uint32, f func(*adc)) bool {
	if mask == 0 {
		return e.unsupported("no set of address counters")
	}
	for i := range t.adc {
		if mask>>i&1 != 0 {
			f(&t.adc[i])
		}
	}
	return true
}

func (e *Engine) setadc(t *thread, a setadcArgs) bool {
	if a.value > 0xFFFF {
		return e.unsupported("value %#x: the counters of other threads can't be set", a.value)
	}
	return e.adcs(t, a.units, func(s *adc) {
		c, size := s.channel[a.channel].dimension(a.dimension)
		v := a.value & (size - 1)
		*c = counter{v, v}
	})
}

func (e *Engine) setadcxx(t *thread, a setadcxxArgs) bool {
	return e.adcs(t, a.units, func(s *adc) {
		s.channel[0].x = counter{a.start, a.start}
		s.channel[1].x = counter{a.end, a.end}
	})
}

const (
	dimensionX = 0
	dimensionZ = 2
)

func (e *Engine) pairs(t *thread, first uint32, a setadcxyArgs, f func(c *counter, v, size uint32)) bool {
	return e.adcs(t, a.units, func(s *adc) {
		for i, v := range [...]uint32{a.x0, a.y0, a.x1, a.y1} {
			if a.mask>>i&1 != 0 {
				c, size := s.channel[i/2].dimension(first + uint32(i)%2)
				f(c, v, size)
			}
		}
	})
}

func (e *Engine) someCounters(mask uint32) bool {
	return mask != 0 || e.unsupported("no counters")
}

func (e *Engine) setPairs(t *thread, a setadcxyArgs, first uint32) bool {
	return e.someCounters(a.mask) && e.pairs(t, first, a, func(c *counter, v, _ uint32) { *c = counter{v, v} })
}

func (e *Engine) addPairs(t *thread, a incadcxyArgs, first uint32) bool {
	all := setadcxyArgs{mask: 15, x0: a.x0, y0: a.y0, x1: a.x1, y1: a.y1, units: a.units}
	return e.pairs(t, first, all, func(c *counter, v, size uint32) { c.value = (c.value + v) & (size - 1) })
}

func (e *Engine) returnPairs(t *thread, a setadcxyArgs, first uint32) bool {
	return e.someCounters(a.mask) &&
		e.pairs(t, first, a, func(c *counter, v, size uint32) { c.advance(&step{by: v, carry: true}, size) })
}
