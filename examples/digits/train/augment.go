package main

import (
	"math"

	"github.com/reprise-tt/reprise/examples/digits"
	"github.com/reprise-tt/reprise/examples/internal/rng"
)

// warp writes an image to dst, its ink scaled to 0..1, under a random affine map near the identity:
// shifted, scaled, slanted or turned, with interpolated pixels.
func warp(dst []float64, m *digits.Image, shift, bend float64, src *rng.Source) {
	around := func(limit float64) float64 { return float64((float64(2*src.Float64()) - 1) * limit) }
	dx, dy := around(shift), around(shift)
	xx, xy := 1+around(bend), around(bend)
	yx, yy := around(bend), 1+around(bend)
	const mid = (digits.Width - 1) / 2.0
	for r := range digits.Height {
		for c := range digits.Width {
			u, v := float64(c)-mid, float64(r)-mid
			x := float64(xx*u) + float64(xy*v) + mid + dx
			y := float64(yx*u) + float64(yy*v) + mid + dy
			dst[r*digits.Width+c] = sample(m, x, y) / digits.MaxPixel
		}
	}
}

// sample returns the ink at a point between pixels; outside of the image it is 0.
func sample(m *digits.Image, x, y float64) float64 {
	x0, y0 := math.Floor(x), math.Floor(y)
	fx, fy := x-x0, y-y0
	at := func(c, r int) float64 {
		if c < 0 || c >= digits.Width || r < 0 || r >= digits.Height {
			return 0
		}
		return float64(m.Pixels[r*digits.Width+c])
	}
	c, r := int(x0), int(y0)
	upper := float64((1-fx)*at(c, r)) + float64(fx*at(c+1, r))
	lower := float64((1-fx)*at(c, r+1)) + float64(fx*at(c+1, r+1))
	return float64((1-fy)*upper) + float64(fy*lower)
}
