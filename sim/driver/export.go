package driver

import "slices"

// export is a window that is a dma-buf somewhere: a descriptor that other drivers can import. It
// keeps the window out of the pool until the last duplicate of it is closed.
type export struct {
	window uint32
	keep   int // tells when the dma-buf is closed
}

// exports are those of a device.
type exports []export

// live forgets dma-bufs that were closed and returns the others.
func (l *exports) live() exports {
	*l = slices.DeleteFunc(*l, func(e export) bool {
		if !closedBy(e.keep) {
			return false
		}
		closeDescriptor(e.keep)
		return true
	})
	return *l
}

// has reports whether a window is a dma-buf somewhere.
func (l *exports) has(id uint32) bool {
	return slices.ContainsFunc(l.live(), func(e export) bool { return e.window == id })
}

// revoke ends all dma-bufs of a device that goes.
func (l *exports) revoke() {
	for _, e := range *l {
		closeDescriptor(e.keep)
	}
	*l = nil
}
