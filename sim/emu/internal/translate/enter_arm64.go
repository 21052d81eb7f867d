//go:build linux && !purego

package translate

// synchronize makes processors execute what was written from start to end, and not what they had in
// caches of instructions.
func synchronize(start, end uintptr)

func makeCode(p *program) ([]byte, []int32) { return newArm(p).emit() }
