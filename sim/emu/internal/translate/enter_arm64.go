//go:build linux && !purego

package translate

// synchronize makes instruction caches coherent from start to end.
func synchronize(start, end uintptr)

func makeCode(p *program) ([]byte, []int32) { return newArm(p).emit() }
