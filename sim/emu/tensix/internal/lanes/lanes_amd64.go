//go:build !purego

package lanes

import "golang.org/x/sys/cpu"

func haveAVX2() bool { return cpu.X86.HasAVX2 }

//go:noescape
func bitsAVX2(d, c *Register, keep, own, flip, enabled uint32)

//go:noescape
func andAVX2(d, b, c *Register, enabled uint32)

//go:noescape
func orAVX2(d, b, c *Register, enabled uint32)

//go:noescape
func xorAVX2(d, b, c *Register, enabled uint32)

//go:noescape
func exponentsAVX2(d, c *Register, bias, enabled uint32) (negative uint32)

//go:noescape
func shiftAVX2(d, c, by *Register, arithmetic bool, enabled uint32)

//go:noescape
func addAVX2(d, a, b *Register, minus bool, enabled uint32) (negative uint32)

//go:noescape
func sortAVX2(greater, less, x, y *Register, enabled uint32)

//go:noescape
func roundBF16AVX2(d, c *Register, enabled uint32)

//go:noescape
func randomAVX2(d *Register, enabled uint32)

//go:noescape
func testAVX2(c *Register) (negative, zero uint32)

//go:noescape
func loadBF16AVX2(d *Register, from *Block, column, enabled uint32)

//go:noescape
func load32AVX2(d *Register, high, low *Block, column, enabled uint32)

//go:noescape
func storeBF16AVX2(to *Block, c *Register, column, enabled uint32)

//go:noescape
func store32AVX2(high, low *Block, c *Register, flushed bool, column, enabled uint32)

//go:noescape
func encodeRowAVX2(to *[2 * RowLanes]uint16, from *[2 * RowLanes]uint32, flushed bool)
