package allocator

// Usage is how much of one kind's memory is in use. Sizes are bytes over all banks.
type Usage struct {
	Allocated uint64 // what extents take
	Peak      uint64 // the most that was ever allocated at once
	// Capacity is what the kind could have if nothing else were allocated. Where traces have no
	// region of their own, DRAM and Trace have the same capacity and share it.
	Capacity uint64
	Extents  int // live extents
}

// Gauge is told of every change of a kind's memory, and of each kind once when an allocator is
// made. Set is called with the allocator's lock held, so it must be quick and not call the
// allocator.
type Gauge interface {
	Set(k Kind, u Usage)
}

// notifyLocked tells the gauge about a kind. The gauge isn't nil.
func (a *Allocator) notifyLocked(k Kind) {
	r := a.region[k]
	n := uint64(r.banks)
	a.cfg.Gauge.Set(k, Usage{Allocated: r.allocated * n, Peak: r.peak * n, Capacity: (r.high - r.low) * n, Extents: r.extents})
}
