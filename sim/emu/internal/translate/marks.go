package translate

// pageOps is how many instructions a page has.
const pageOps = pageBytes / 4

// Marks are some of the instructions of a page, by their index.
type Marks [pageOps / 64]uint64

// Has reports whether an instruction is among them; i is in the page.
func (m *Marks) Has(i int) bool { return m[uint(i)/64%uint(len(m))]>>(uint(i)%64)&1 != 0 }

// Set adds an instruction of the page.
func (m *Marks) Set(i int) { m[uint(i)/64%uint(len(m))] |= 1 << (uint(i) % 64) }

// Clear takes out n instructions from one on. All of them are in the same 64.
func (m *Marks) Clear(i, n int) {
	m[uint(i)/64%uint(len(m))] &^= (1<<n - 1) << (uint(i) % 64)
}
