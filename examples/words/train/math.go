package main

import "math"

// Every product in a sum below is written float32(a*b): the conversion rounds, so that no compiler
// may fuse the product with the addition ("Floating-point operators" in the Go specification).
// Fusing would change the weights.

// multiply sets c to a (m by k) times the transpose of b (n by k), or adds the product to c. n is a
// multiple of 4. Each sum is in the order of k.
func multiply(c, a, b []float32, m, n, k int, add bool) {
	for i := 0; i < m; i += 2 {
		a0 := a[i*k:][:k]
		if i+1 == m {
			for j := range n {
				s, b0 := float32(0), b[j*k:][:len(a0)]
				for p, x := range a0 {
					s += float32(x * b0[p])
				}
				if add {
					s += c[i*n+j]
				}
				c[i*n+j] = s
			}
			continue
		}
		a1 := a[(i+1)*k:][:len(a0)]
		c0, c1 := c[i*n:][:n], c[(i+1)*n:][:n]
		for j := 0; j+3 < n; j += 4 {
			b0, b1, b2, b3 := b[j*k:][:len(a0)], b[(j+1)*k:][:len(a0)], b[(j+2)*k:][:len(a0)], b[(j+3)*k:][:len(a0)]
			var s00, s01, s02, s03, s10, s11, s12, s13 float32
			for p, x := range a0 {
				y, w := a1[p], b0[p]
				s00 += float32(x * w)
				s10 += float32(y * w)
				w = b1[p]
				s01 += float32(x * w)
				s11 += float32(y * w)
				w = b2[p]
				s02 += float32(x * w)
				s12 += float32(y * w)
				w = b3[p]
				s03 += float32(x * w)
				s13 += float32(y * w)
			}
			d0, d1 := c0[j:j+4:j+4], c1[j:j+4:j+4]
			if add {
				s00, s01, s02, s03 = s00+d0[0], s01+d0[1], s02+d0[2], s03+d0[3]
				s10, s11, s12, s13 = s10+d1[0], s11+d1[1], s12+d1[2], s13+d1[3]
			}
			d0[0], d0[1], d0[2], d0[3] = s00, s01, s02, s03
			d1[0], d1[1], d1[2], d1[3] = s10, s11, s12, s13
		}
	}
}

// transpose sets dst to the transpose of src, rows by columns.
func transpose(dst, src []float32, rows, columns int) {
	for i := range rows {
		for k, v := range src[i*columns:][:columns] {
			dst[k*rows+i] = v
		}
	}
}

// exp is e to the power of x for x <= 0, within a few units in the last place of a float32. The
// standard library's differs between architectures.
func exp(x float32) float32 {
	v := float64(x)
	if v < -80 {
		return 0
	}
	k := math.Floor(float64(v*math.Log2E) + 0.5)
	r := v - float64(k*math.Ln2)
	sum := 1. / 40320
	for _, c := range [...]float64{1. / 5040, 1. / 720, 1. / 120, 1. / 24, 1. / 6, 1. / 2, 1,
		1} { // Horner's scheme of the power series; |r| < 0.35
		sum = c + float64(sum*r)
	}
	return float32(math.Ldexp(sum, int(k)))
}

// softmax replaces scores by their probabilities.
func softmax(v []float32) {
	top := v[0]
	for _, s := range v {
		top = max(top, s)
	}
	sum := float32(0)
	for i, s := range v {
		v[i] = exp(s - top)
		sum += v[i]
	}
	for i := range v {
		v[i] /= sum
	}
}
