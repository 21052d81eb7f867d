package recording

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// TensorsSuffix is that of the file with the tensors beside a recording.
const TensorsSuffix = ".tensors"

// Tensor is a tensor in interleaved pages of DRAM that a variable of the program holds.
type Tensor struct {
	Name     string `json:"name"`
	Address  uint64 `json:"address"` // in every bank
	Shape    []int  `json:"shape"`
	DType    string `json:"dtype"`     // such as BFLOAT16
	Layout   string `json:"layout"`    // TILE or ROW_MAJOR
	PageSize int    `json:"page_size"` // bytes, without what aligns a page
	Pages    int    `json:"pages"`
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
