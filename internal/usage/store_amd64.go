package usage

// store writes a word between the two stores of a record's sequence. This processor's stores become
// visible in order, so that a plain one is enough; the compiler keeps it between the two, which are
// atomic.
func store(p *uint64, v uint64) { *p = v }
