//go:build !linux

package session

// split makes two memories of one: the host keeps what lies at an address, and the device gets a
// copy. No driver of silicon, which would want certain pages, runs on this system.
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

// whole is memory of the host as it is.
func whole(va, size uint64) *region { return newRegion(memoryAt(va, size), nil) }

// resident isn't known on this system.
func resident([]byte, []byte) bool { return false }

// anonymous is memory of its own, and what ends it.
func anonymous(n int) ([]byte, func() error, error) {
	return make([]byte, n), func() error { return nil }, nil
}
