//go:build !amd64 || purego

package lanes

func haveAVX2() bool { return false }

func bitsAVX2(d, c *Register, keep, own, flip, enabled uint32) {}

func andAVX2(d, b, c *Register, enabled uint32) {}

func orAVX2(d, b, c *Register, enabled uint32) {}

func xorAVX2(d, b, c *Register, enabled uint32) {}

func exponentsAVX2(d, c *Register, bias, enabled uint32) (negative uint32) { return 0 }

func shiftAVX2(d, c, by *Register, arithmetic bool, enabled uint32) {}

func addAVX2(d, a, b *Register, minus bool, enabled uint32) (negative uint32) { return 0 }

func sortAVX2(greater, less, x, y *Register, enabled uint32) {}

func roundBF16AVX2(d, c *Register, enabled uint32) {}

func randomAVX2(d *Register, enabled uint32) {}

func testAVX2(c *Register) (negative, zero uint32) { return 0, 0 }

func loadBF16AVX2(d *Register, from *Block, column, enabled uint32) {}

func load32AVX2(d *Register, high, low *Block, column, enabled uint32) {}

func storeBF16AVX2(to *Block, c *Register, column, enabled uint32) {}

func store32AVX2(high, low *Block, c *Register, flushed bool, column, enabled uint32) {}

func encodeRowAVX2(to *[2 * RowLanes]uint16, from *[2 * RowLanes]uint32, flushed bool) {}
