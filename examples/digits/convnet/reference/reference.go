// Package reference computes on the host, bit for bit, what the engines of a chip answer for the
// network of package convnet.
package reference

import (
	"slices"

	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/examples/digits"
	"github.com/reprise-tt/reprise/examples/digits/convnet"
	"github.com/reprise-tt/reprise/examples/internal/bf16"
	"github.com/reprise-tt/reprise/examples/internal/engine"
)

type matrix struct {
	rows, columns int
	v             []bf16.Number
}

// Scores returns the scores of images, as a chip of an architecture computes them.
func Scores(a chip.Arch, n *convnet.Network, images []digits.Image) []convnet.Scores {
	l := &n.Layers[0]
	x := matrix{len(images) * l.Height * l.Width, l.In, nil}
	for _, m := range images {
		p := convnet.Pixels(m)
		x.v = append(x.v, p[:]...)
	}
	for i := range n.Layers {
		x = layer(engine.New(a), &n.Layers[i], x)
	}
	out := make([]convnet.Scores, len(images))
	for i := range out {
		copy(out[i][:], x.v[i*digits.Classes:])
	}
	return out
}

func layer(e engine.Engine, l *convnet.Layer, x matrix) matrix {
	if l.Kind == convnet.Pool {
		return largest(l, x)
	}
	at := func(row, column int) int { return row*l.Out + column } // of a weight
	if l.Kind == convnet.Conv {
		x = under(l, x)
		at = func(row, o int) int { return (o*l.In+row%l.In)*l.Kernel*l.Kernel + row/l.In }
	}
	tiles := func(n int) int { return (n + engine.Side - 1) / engine.Side }
	w := e.Weights(tiles(x.columns), tiles(l.Out), func(row, column int) bf16.Number {
		if row >= x.columns || column >= l.Out {
			return 0
		}
		return l.Weights[at(row, column)]
	})
	out, bias := matrix{x.rows, l.Out, nil}, e.Addend(engine.RowOf(l.Bias))
	for v := range slices.Chunk(x.v, x.columns) {
		y := e.Linear(engine.RowOf(v), w, l.ReLU, bias)
		for i := range l.Out {
			out.v = append(out.v, y[i/engine.Side][i%engine.Side])
		}
	}
	return out
}

// under returns a matrix with a row for each position of a layer's window: the elements under it,
// channel by channel of each.
func under(l *convnet.Layer, x matrix) matrix {
	high, wide := l.OutHeight(), l.OutWidth()
	images := x.rows / (l.Height * l.Width)
	out := matrix{images * high * wide, l.Kernel * l.Kernel * l.In, nil}
	for position := range out.rows {
		image, y, x0 := position/(high*wide), position/wide%high, position%wide
		for element := range l.Kernel * l.Kernel {
			i, k := y*l.Stride-l.Padding+element/l.Kernel, x0*l.Stride-l.Padding+element%l.Kernel
			if i < 0 || i >= l.Height || k < 0 || k >= l.Width {
				out.v = append(out.v, make([]bf16.Number, l.In)...)
				continue
			}
			row := (image*l.Height+i)*l.Width + k
			out.v = append(out.v, x.v[row*x.columns:][:l.In]...)
		}
	}
	return out
}

// largest returns the largest element of each channel under the window of a layer without padding.
// Subnormal numbers, which no sum of a layer before is, would be zero.
func largest(l *convnet.Layer, x matrix) matrix {
	all := under(l, x)
	out := matrix{all.rows, l.In, nil}
	for row := range out.rows {
		v := all.v[row*all.columns:][:all.columns]
		for c := range l.In {
			most := v[c]
			for k := c; k < len(v); k += l.In {
				if v[k].Float() > most.Float() {
					most = v[k]
				}
			}
			out.v = append(out.v, most)
		}
	}
	return out
}
