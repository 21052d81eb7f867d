package usage

// store writes a word between the two atomic stores of a record's sequence. This processor's stores
// become visible in order, so a plain store is enough.
func store(p *uint64, v uint64) { *p = v }
