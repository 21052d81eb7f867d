package ops

import "github.com/reprise-tt/reprise/ops/catalog"

// tileElements is the number of elements of a tile.
const tileElements = 32 * 32

// floats reports whether tensors are of floats, which the engines compute with.
func floats(ts ...*Tensor) bool {
	for _, t := range ts {
		if !t.geo.spec.DType.Float() {
			return false
		}
	}
	return true
}

// inRows reports whether a tensor is of floats and not in tiles: its shards are no whole tiles, so they aren't computed in place.
func inRows(t *Tensor) bool { return floats(t) && t.geo.spec.Layout != Tile }

// tilesOfPage returns how many tiles hold the elements of a page.
func (g *geometry) tilesOfPage() int {
	if g.spec.Layout == Tile {
		return 1
	}
	return ceil(g.pageWidth, tileElements)
}

// doubled returns the number of pages of a circular buffer for so many pages at a time: room for twice as many, unless that is much
// of a core's memory.
func doubled(pages, bytes int) int {
	const limit = 64 << 10
	if pages*bytes > limit {
		return pages
	}
	return 2 * pages
}

// each returns the job of a program that computes a tensor of tiles from one of them, element by element, with numbers.
func each(p *catalog.Program, function string, out, a *Tensor, numbers ...uint32) job {
	return job{program: p, function: function, args: []uint32{1}, out: out, in: []*Tensor{a}, numbers: numbers, buffers: tiles(2, 2)}
}

// elements returns the job of a program that computes the elements of tensors in any layout. The kernel is one for tiles: it gets the
// elements in the order in which pages of the result have them.
func elements(p *catalog.Program, out *Tensor, in ...*Tensor) job {
	n := out.geo.tilesOfPage()
	room := doubled(n, tileElements*out.geo.spec.DType.Size())
	j := job{
		program: p, args: []uint32{uint32(len(in))}, out: out, in: in, pieces: out.geo.pages * n, together: n,
		buffers: append(tiles(room, room, 0), ring{in[0].geo.pageBytes, 1}, ring{}),
	}
	if len(in) == 2 {
		j.buffers[2].pages, j.buffers[4] = room, ring{in[1].geo.pageBytes, 1}
	}
	return j
}
