package tensix

import (
	"github.com/reprise-tt/reprise/sim/emu/tensix/internal/tables"
	"github.com/reprise-tt/reprise/sim/emu/tensix/isa"
)

func (e *Engine) cfg(t *thread, f isa.Config) uint32 {
	p := &e.places[f]
	return t.bank[p.Word] >> p.Shift & p.Mask
}

func (e *Engine) on(t *thread, f isa.Config) bool { return e.cfg(t, f) != 0 }

func (t *thread) field(f isa.Thread) uint32 {
	p := &t.places[f]
	return t.config[p.Word] >> p.Shift & p.Mask
}

// ActsOnProcessors reports whether a word of the configuration acts on the tile's processors; the
// Tile keeps it.
func (e *Engine) ActsOnProcessors(word uint32) bool {
	return word < numConfigWords && e.words[word].Kind == tables.Tile
}

// LoadConfig returns a word as processors see it, bank 1 after bank 0, and false if the engine
// refuses.
func (e *Engine) LoadConfig(word uint32) (uint32, bool) { return e.loadConfig(e.bankOf(word)) }

// StoreConfig sets a word as LoadConfig returns it. It returns false if the engine refuses.
func (e *Engine) StoreConfig(word, v uint32) bool {
	bank, word := e.bankOf(word)
	return e.storeConfig(bank, word, v)
}

func (e *Engine) bankOf(word uint32) (bank, in uint32) {
	if n := e.bankWords(); word >= n && word < 2*n {
		return 1, word - n
	}
	return 0, word
}

// bankWords is CFG_STATE_SIZE, in words.
func (e *Engine) bankWords() uint32 {
	if e.wormhole {
		return 4 * 47
	}
	return 4 * 56
}

func (e *Engine) loadConfig(bank, word uint32) (uint32, bool) {
	if word >= numConfigWords || !e.words[word].Load {
		return 0, e.unimplemented("load of configuration word %d, which is not emulated", word)
	}
	return e.config[bank][word], true
}

func (e *Engine) storeConfig(bank, word, v uint32) bool {
	if word >= numConfigWords {
		return e.unimplemented("there is no configuration word %d", word)
	}
	e.version++
	switch w := &e.words[word]; {
	case w.Refuse:
		return e.unsupported("store of %#x to configuration word %d, which is not supported", v, word)
	case !w.Store:
		return e.unimplemented("store of %#x to configuration word %d, which is not emulated", v, word)
	case w.Kind == tables.Banked:
		e.config[bank][word] = v & w.Mask
		return e.checkConfig(bank, word)
	case w.Kind == tables.Shared:
		e.config[0][word], e.config[1][word] = v&w.Mask, v&w.Mask
	case w.Kind == tables.Seed:
		e.sfpu.seed(v)
	case w.Kind == tables.Tile:
		return e.tile.StoreConfig(word, v)
	}
	return true
}

// ttsim leaves out stochastic rounding, whose random numbers are not specified.
var mustBeZero = []isa.Config{
	isa.SrcBForced, isa.DstForced, isa.RoundFPU, isa.RoundGasket, isa.RoundPacker, isa.RoundPadding, isa.RoundGSLF, isa.RoundBFP8,
}

var secondPacker = []isa.Config{isa.PackDownMask, isa.PackDownRate, isa.PackAccumulate, isa.PackThreshold,
	isa.PackFP8E4, isa.PackThresholdValue}

func (e *Engine) checkConfig(bank, word uint32) bool {
	check := func(f isa.Config) bool {
		p := &e.places[f]
		if uint32(p.Word) != word || e.config[bank][word]>>p.Shift&p.Mask == 0 {
			return true
		}
		return e.unsupported("bits %#x of configuration word %d are not supported", p.Mask<<p.Shift, word)
	}
	if word <= 1 {
		for _, f := range mustBeZero {
			if !check(f) {
				return false
			}
		}
	}
	if !e.wormhole {
		for _, f := range secondPacker {
			if !check(f + 2) { // section 1, register 1
				return false
			}
		}
	}
	return true
}

func (e *Engine) wrcfg(t *thread, a wrcfgArgs) bool {
	if !e.configInRange(a.word) {
		return false
	}
	bank := t.field(isa.ThreadStateID)
	if a.wide == 0 {
		return e.storeConfig(bank, a.word, t.gpr[a.gpr])
	}
	if a.word%4 != 0 || a.gpr%4 != 0 {
		return e.nonContractual("128 bits from GPR %d to word %d: want multiples of 4", a.gpr, a.word)
	}
	for i := range uint32(4) {
		if !e.storeConfig(bank, a.word+i, t.gpr[a.gpr+i]) {
			return false
		}
	}
	return true
}

func (e *Engine) rdcfg(t *thread, a rdcfgArgs) bool {
	if !e.configInRange(a.word) {
		return false
	}
	v, ok := e.loadConfig(t.field(isa.ThreadStateID), a.word)
	if ok {
		t.gpr[a.gpr] = v
	}
	return ok
}

func (e *Engine) configInRange(word uint32) bool {
	if n := e.bankWords(); word >= n {
		return e.undefined("configuration word %d: there are %d", word, n)
	}
	return true
}

// rmwcib changes bits of a byte of a word.
func (e *Engine) rmwcib(t *thread, a rmwcib0Args, i int) bool {
	bank, data, mask := t.field(isa.ThreadStateID), a.data<<(8*i), a.mask<<(8*i)
	v, ok := e.loadConfig(bank, a.word)
	return ok && e.storeConfig(bank, a.word, v&^mask|data&mask)
}

// cfgshiftmask adds a scratch word to a word, the only specified operation.
func (e *Engine) cfgshiftmask(t *thread, a cfgshiftmaskArgs) bool {
	const add, wholeWord = 3, 31
	if a.rotate != 0 || a.width != wholeWord || a.operation != add || a.keep != 1 {
		return e.unsupported("rotate by %d, width %d, operation %d, mask of the old value %d: want 0, %d, %d (add), 1",
			a.rotate, a.width, a.operation, a.keep, wholeWord, add)
	}
	scratch := a.scratch
	if scratch == 3 {
		scratch = uint32(t.index)
	}
	bank := t.field(isa.ThreadStateID)
	v, ok := e.loadConfig(bank, a.word)
	return ok && e.storeConfig(bank, a.word, v+e.cfg(t, isa.Scratch+isa.Config(scratch)))
}

func (e *Engine) setc16(t *thread, a setc16Args) bool {
	if n := uint32(len(e.threadWords)); a.reg >= n {
		return e.undefined("word %d of the thread's configuration: there are %d", a.reg, n)
	}
	switch e.threadWords[a.reg] {
	case tables.Stored:
	case tables.Refused:
		return e.unsupported("word %d of the thread's configuration is not supported", a.reg)
	default:
		return e.unimplemented("word %d of the thread's configuration is not emulated", a.reg)
	}
	t.config[a.reg] = a.value
	t.bank = &e.config[t.field(isa.ThreadStateID)]
	t.modesKnown, t.packModesKnown = 0, 0
	return true
}
