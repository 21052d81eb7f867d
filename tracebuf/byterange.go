package tracebuf

import "slices"

// ByteRange excludes End.
type ByteRange struct{ Start, End int }

// JoinRanges sorts ranges by Start, in place, and joins those that touch or overlap.
func JoinRanges(rs []ByteRange) []ByteRange {
	slices.SortFunc(rs, func(a, b ByteRange) int { return a.Start - b.Start })
	out := rs[:0]
	for _, r := range rs {
		if n := len(out); n > 0 && r.Start <= out[n-1].End {
			out[n-1].End = max(out[n-1].End, r.End)
		} else {
			out = append(out, r)
		}
	}
	return out
}

// SubtractRanges returns the bytes of rs that aren't in minus. All are as [JoinRanges] returns
// them.
func SubtractRanges(rs, minus []ByteRange) []ByteRange {
	var out []ByteRange
	for _, r := range rs {
		for _, m := range minus {
			if m.End <= r.Start || m.Start >= r.End {
				continue
			}
			if m.Start > r.Start {
				out = append(out, ByteRange{r.Start, m.Start})
			}
			r.Start = min(m.End, r.End)
		}
		if r.Start < r.End {
			out = append(out, r)
		}
	}
	return out
}
