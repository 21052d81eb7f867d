package allocator

// inherits reports whether e is an extent of the allocator that a is a copy of, from before the copy.
func (a *Allocator) inherits(e *Extent) bool {
	return a.origin != nil && e.from == a.origin && int(e.slot) < len(a.blocks) && a.blocks[e.slot].flags&blockInherited != 0
}
