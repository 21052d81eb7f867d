package usage

// store writes a word of a record. This processor's stores become visible in order.
func store(p *uint64, v uint64) { *p = v }
