package translate

// Run executes instructions of m from index next, in the range, until code is left. The budget
// end-next is checked when an instruction jumps, so that end moves with the target. Run returns the
// index of the next instruction and the new end.
func (c *Code) Run(m *Machine, next, end int) (int, int, Exit) {
	n, e, why := enter(c.start, c.start+uintptr(c.bodies[next-c.First]), m, int32(end))
	return int(n), int(e), why
}
