//go:build linux && !purego

package translate

// synchronize does nothing: amd64 keeps its caches of instructions as memory is.
func synchronize(_, _ uintptr) {}

func makeCode(p *program) ([]byte, []int32) { return newX86(p).emit() }
