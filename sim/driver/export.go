package driver

import "slices"

// export is a window's dma-buf; the window stays out of the pool until its last duplicate is
// closed.
type export struct {
	window uint32
	keep   int // see newWatched
}

type exports []export

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

func (l *exports) has(id uint32) bool {
	return slices.ContainsFunc(l.live(), func(e export) bool { return e.window == id })
}

func (l *exports) revoke() {
	for _, e := range *l {
		closeDescriptor(e.keep)
	}
	*l = nil
}
