package translate

const pageOps = pageBytes / 4

// Marks is a set of instructions of a page.
type Marks [pageOps / 64]uint64

// Has reports whether instruction i of the page is in the set.
func (m *Marks) Has(i int) bool { return m[uint(i)/64%uint(len(m))]>>(uint(i)%64)&1 != 0 }

// Set adds an instruction of the page.
func (m *Marks) Set(i int) { m[uint(i)/64%uint(len(m))] |= 1 << (uint(i) % 64) }

// Clear removes n instructions, all in the same 64.
func (m *Marks) Clear(i, n int) {
	m[uint(i)/64%uint(len(m))] &^= (1<<n - 1) << (uint(i) % 64)
}
