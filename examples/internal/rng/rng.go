// Package rng generates a random sequence that is the same on every machine and never changes.
package rng

// Source is the SplitMix64 generator (Steele, Lea and Flood, "Fast splittable pseudorandom number
// generators", 2014). The standard library doesn't promise its sequences.
type Source uint64

// Uint64 returns the next 64 bits.
func (r *Source) Uint64() uint64 {
	*r += 0x9E3779B97F4A7C15
	z := uint64(*r)
	z = (z ^ z>>30) * 0xBF58476D1CE4E5B9
	z = (z ^ z>>27) * 0x94D049BB133111EB
	return z ^ z>>31
}

// Shuffle permutes s by Fisher and Yates.
func (r *Source) Shuffle(s []int) {
	for i := len(s) - 1; i > 0; i-- {
		j := int(r.Uint64() % uint64(i+1))
		s[i], s[j] = s[j], s[i]
	}
}

// Split divides values into those at chosen indexes and the rest, both in order.
func Split[T any](all []T, chosen []int) (rest, out []T) {
	is := make([]bool, len(all))
	for _, i := range chosen {
		is[i] = true
	}
	for i, v := range all {
		if is[i] {
			out = append(out, v)
		} else {
			rest = append(rest, v)
		}
	}
	return rest, out
}
