//go:build !linux

package session

// split gives the device a copy: silicon's driver doesn't run on this system.
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

func whole(va, size uint64) *region { return newRegion(memoryAt(va, size), nil) }

func resident([]byte, []byte) bool { return false }
