//go:build !linux

package session

// split gives the device a copy. Silicon's driver, which would need the original pages, doesn't run
// on this system.
func split(va, size uint64) (*region, error) {
	r := newRegion(memoryAt(va, size), make([]byte, size))
	copy(r.device, r.host)
	r.end = func(restore bool) error {
		if restore {
			store(r.host, r.device)
		}
		return nil
	}
	return r, nil
}

// whole returns host memory as a region.
func whole(va, size uint64) *region { return newRegion(memoryAt(va, size), nil) }

// resident is unknown on this system.
func resident([]byte, []byte) bool { return false }

// anonymous returns new memory, and a function that frees it.
func anonymous(n int) ([]byte, func() error, error) {
	return make([]byte, n), func() error { return nil }, nil
}
