//go:build linux && !purego

package translate

// synchronize does nothing: amd64's instruction caches are coherent.
func synchronize(_, _ uintptr) {}

func makeCode(p *program) ([]byte, []int32) { return newX86(p).emit() }
