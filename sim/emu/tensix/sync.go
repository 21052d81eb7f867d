package tensix

import "math/bits"

// Objects by which threads wait for each other, after the semaphores.
const (
	objectBanks = 8 + 2*iota // four: of SrcA, of SrcB
	_
	objectMutex
)

// ordered tells the tile that a thread's instruction has used an object.
func (e *Engine) ordered(t *thread, object uint32, learns, tells bool) {
	if e.hazards != nil {
		e.tile.Ordered(int(t.index), object, learns, tells)
	}
}

// Semaphore returns the value of semaphore i.
func (e *Engine) Semaphore(i int) uint32 { return uint32(e.sync.value[i]) }

// PostSemaphore is a core's store that adds one to semaphore i; false if refused.
func (e *Engine) PostSemaphore(i int) bool {
	if e.sync.value[i] == maxSemaphore {
		return e.nonContractual("semaphore %d: post while it is %d", i, maxSemaphore)
	}
	e.sync.value[i]++
	e.sync.changes++
	return true
}

// GetSemaphore is a core's store that takes one from semaphore i; false if refused.
func (e *Engine) GetSemaphore(i int) bool {
	if e.sync.value[i] == 0 {
		return e.nonContractual("semaphore %d: get while it is 0", i)
	}
	e.sync.value[i]--
	e.sync.changes++
	return true
}

func (e *Engine) mutex(t *thread, i uint32) bool {
	n := uint32(5) // Blackhole has fewer
	if e.wormhole {
		n = 8
	}
	switch {
	case i >= n || i == 1:
		return e.undefined("there is no mutex %d", i)
	case i != 0:
		return e.refuse(UntestedFunctionality, "mutex %d: only mutex 0 has been validated", i)
	}
	return true
}

func (e *Engine) atgetm(t *thread, a atgetmArgs) bool {
	if !e.mutex(t, a.mutex) {
		return false
	}
	o := &e.sync.owner[a.mutex]
	if *o == t.index+1 {
		return e.nonContractual("the thread has mutex %d already", a.mutex)
	}
	if *o != 0 {
		return false
	}
	*o = t.index + 1
	e.ordered(t, objectMutex, true, true)
	return true
}

func (e *Engine) atrelm(t *thread, a atgetmArgs) bool {
	if !e.mutex(t, a.mutex) {
		return false
	}
	o := &e.sync.owner[a.mutex]
	if *o != t.index+1 {
		return e.nonContractual("the thread doesn't have mutex %d", a.mutex)
	}
	*o = 0
	e.sync.changes++
	e.ordered(t, objectMutex, true, true)
	return true
}

func (e *Engine) one(mask uint32) (int, bool) {
	if bits.OnesCount32(mask) != 1 {
		return 0, e.unsupported("semaphores %#x: want one", mask)
	}
	return bits.TrailingZeros32(mask), true
}

func (e *Engine) seminit(t *thread, a seminitArgs) bool {
	i, ok := e.one(a.semaphores)
	if !ok {
		return false
	}
	if a.value > a.max {
		return e.nonContractual("semaphore %d: value %d of at most %d", i, a.value, a.max)
	}
	e.sync.value[i], e.sync.max[i] = uint8(a.value), uint8(a.max)
	e.sync.changes++
	e.ordered(t, uint32(i), false, true)
	return true
}

func (e *Engine) sempost(t *thread, a sempostArgs) bool {
	i, ok := e.one(a.semaphores)
	if !ok {
		return false
	}
	if e.sync.value[i] >= e.sync.max[i] {
		return e.nonContractual("semaphore %d: post while it is %d of at most %d", i, e.sync.value[i], e.sync.max[i])
	}
	e.sync.value[i]++
	e.sync.changes++
	e.ordered(t, uint32(i), false, true)
	return true
}

func (e *Engine) semget(t *thread, a sempostArgs) bool {
	i, ok := e.one(a.semaphores)
	if !ok || !e.GetSemaphore(i) {
		return false
	}
	e.ordered(t, uint32(i), false, true)
	return true
}

const (
	whileZero = 1
	whileMax  = 2
)

// All later instructions of the thread wait too, whatever blocks it names.
func (e *Engine) semwait(t *thread, a semwaitArgs) bool {
	i, ok := e.one(a.semaphores)
	switch {
	case !ok:
		return false
	case a.condition == whileMax && e.sync.value[i] >= e.sync.max[i], a.condition == whileZero && e.sync.value[i] == 0:
		return false
	case a.condition == whileMax, a.condition == whileZero:
		e.ordered(t, uint32(i), true, false)
		return true
	case a.condition == 0:
		return e.undefined("no condition to wait for")
	}
	return e.unsupported("conditions %d: want %d (while zero) or %d (while at its maximum)", a.condition,
		whileZero, whileMax)
}

// Conditions of STALLWAIT on banks, the only ones that can hold where instructions complete at
// once.
const (
	// Bits 0 to 7, 13 and 14 wait for units that are never busy here.
	waitWormholeIdle   = 0x60FF
	waitWormholeAFree  = 0x100
	waitWormholeBFree  = 0x200
	waitWormholeAValid = 0x400
	waitWormholeBValid = 0x800
	// Bits 0 to 4, 10 and 11 wait for units that are never busy here.
	waitBlackholeIdle   = 0xC1F
	waitBlackholeAValid = 0x80
	waitBlackholeBValid = 0x100
)

// All later instructions of the thread wait too, whatever blocks it names.
func (e *Engine) stallwait(t *thread, a stallwaitArgs) bool {
	if a.wait == 0 || a.block == 0 {
		return e.unsupported("conditions %#x for blocks %#x: want some of both", a.wait, a.block)
	}
	left := a.wait
	holds := func(bit uint32, condition bool) bool {
		if left&bit == 0 {
			return true
		}
		left &^= bit
		return condition
	}
	if e.wormhole {
		left &^= waitWormholeIdle
		if !holds(waitWormholeAFree, !e.srcA.unpackValid()) || !holds(waitWormholeBFree, !e.srcB.unpackValid()) ||
			!holds(waitWormholeAValid, e.srcA.matrixValid()) || !holds(waitWormholeBValid, e.srcB.matrixValid()) {
			return false
		}
	} else {
		left &^= waitBlackholeIdle
		if !holds(waitBlackholeAValid, e.srcA.matrixValid()) || !holds(waitBlackholeBValid, e.srcB.matrixValid()) {
			return false
		}
	}
	if left != 0 {
		return e.unimplemented("conditions %#x are not emulated", left)
	}
	return true
}
