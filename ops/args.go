package ops

import (
	"fmt"
	"slices"

	"github.com/reprise-tt/reprise/ops/graph"
)

// argList is the arguments of a function for graphs and Observers: tensors, shapes, and any other
// value with a text.
type argList []any

func optional(t *Tensor) any {
	if t == nil {
		return nil
	}
	return t
}

func present(ts ...*Tensor) []*Tensor {
	return slices.DeleteFunc(ts, func(t *Tensor) bool { return t == nil })
}

// tensors yields the tensors among the arguments, also nil ones that aren't optional.
func (l argList) tensors(yield func(*Tensor) bool) {
	for _, v := range l {
		switch v := v.(type) {
		case *Tensor:
			if !yield(v) {
				return
			}
		case []*Tensor:
			for _, t := range v {
				if !yield(t) {
					return
				}
			}
		}
	}
}

func (l argList) graph() []graph.Arg {
	out := make([]graph.Arg, len(l))
	for i, v := range l {
		switch v := v.(type) {
		case nil:
			out[i].Text = "nullptr"
		case *Tensor:
			out[i] = v.arg()
		case []*Tensor:
			out[i].Text = fmt.Sprintf("[%d tensors]", len(v))
			for _, t := range v {
				out[i].Tensors = append(out[i].Tensors, t.graph())
			}
		case *Host:
			out[i].Text = v.text()
		case []int:
			out[i].Text = shapeText(v)
		default:
			out[i].Text = fmt.Sprint(v)
		}
	}
	return out
}

func (l argList) texts() []string {
	out := make([]string, len(l))
	for i, a := range l.graph() {
		out[i] = a.Text
	}
	return out
}

func (h *Host) text() string {
	if h == nil {
		return "nullptr"
	}
	return fmt.Sprintf("HostTensor(%s,%v)", shapeText(h.Shape), h.DType)
}

func specArgs(s Spec, device int) argList {
	return argList{s.Shape, s.DType, s.Layout, device, s.Memory}
}
