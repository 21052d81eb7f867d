package recording

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/reprise-tt/reprise/allocator"
	"github.com/reprise-tt/reprise/chip"
)

// TensorsSuffix is that of the file with the tensors beside a recording.
const TensorsSuffix = ".tensors"

// Tensor is a tensor in DRAM or L1 that a variable of the program holds.
type Tensor struct {
	Name     string `json:"name"`
	Address  uint64 `json:"address"` // in every bank
	Shape    []int  `json:"shape"`
	DType    string `json:"dtype"`     // such as BFLOAT16
	Layout   string `json:"layout"`    // TILE or ROW_MAJOR
	PageSize int    `json:"page_size"` // bytes, without what aligns a page
	Pages    int    `json:"pages"`
	Memory   string `json:"memory"` // DRAM, L1 or L1_SMALL
	Shards   *struct {
		Layout      string   `json:"layout"` // such as HEIGHT_SHARDED
		Shape       [2]int   `json:"shape"`  // elements
		Orientation string   `json:"orientation"`
		Cores       [][4]int `json:"cores"` // of rectangles, the first and the last x and y
	} `json:"shards"` // nil if interleaved
}

func (n *Tensor) tiles() bool { return n.Layout == "TILE" }

// tensor returns where a tensor's pages lie.
func (r *reader) tensor(n *Tensor) (x extent, err error) {
	x = extent{kind: r.dram, base: n.Address, pages: n.Pages, tensor: n}
	if n.Memory != "" && n.Memory != "DRAM" {
		if x.kind = r.l1; r.l1 == nil {
			return x, errors.New("there is no table of L1 banks")
		}
	}
	x.page = (n.PageSize + x.align - 1) / x.align * x.align
	if s := n.Shards; s != nil {
		layouts := []string{"HEIGHT_SHARDED", "WIDTH_SHARDED", "BLOCK_SHARDED"}
		i := slices.Index(layouts, s.Layout)
		page := [2]int{1, s.Shape[1]} // elements
		if n.tiles() {
			page = [2]int{32, 32}
		}
		if i < 0 || len(n.Shape) == 0 || page[1] < 1 {
			return x, fmt.Errorf("tensor of shape %v in shards of %v, %s", n.Shape, s.Shape, s.Layout)
		}
		width := max(1, (n.Shape[len(n.Shape)-1]+page[1]-1)/page[1])
		spec := &allocator.ShardSpec{Layout: allocator.HeightSharded + allocator.Layout(i), Tensor: []int{n.Pages / width, width},
			Shard: []int{(s.Shape[0] + page[0] - 1) / page[0], (s.Shape[1] + page[1] - 1) / page[1]}}
		if s.Orientation == "COL_MAJOR" {
			spec.Orientation = allocator.ColMajor
		}
		for _, c := range s.Cores {
			spec.Cores = append(spec.Cores, chip.Range{Start: chip.Core{X: c[0], Y: c[1]}, End: chip.Core{X: c[2], Y: c[3]}})
		}
		if err := x.shard(spec); err != nil || x.dist.Pages() != n.Pages {
			return x, fmt.Errorf("%d pages in shards: %w", n.Pages, err)
		}
	}
	if x.end() > x.kind.size {
		return x, fmt.Errorf("%d pages at %#x go beyond a bank", n.Pages, n.Address)
	}
	return x, nil
}

// note is a line that observer/sitecustomize.py writes.
type note struct {
	Replay  int      `json:"replay"`
	Tensors []Tensor `json:"tensors"`
}

func readNotes(from io.Reader) (out []note, err error) {
	d := json.NewDecoder(bufio.NewReader(from))
	for {
		var n note
		err := d.Decode(&n)
		if errors.Is(err, io.EOF) {
			return out, nil
		}
		for _, t := range n.Tensors {
			if t.PageSize < 1 || t.Pages < 1 || t.PageSize > 1<<30 || t.Pages > 1<<30 || t.Address > 1<<40 {
				err = errors.Join(err, fmt.Errorf("%d pages of %d B at %#x", t.Pages, t.PageSize, t.Address))
			}
		}
		if err != nil {
			return nil, fmt.Errorf("%w: tensors of the program: %w", ErrOther, err)
		}
		out = append(out, n)
	}
}

// notedAt returns the tensors at a replay, or at the last one before that has some.
func notedAt(notes []note, replay int) (out []Tensor) {
	for _, n := range notes {
		if n.Replay <= replay {
			out = n.Tensors
		}
	}
	return out
}
