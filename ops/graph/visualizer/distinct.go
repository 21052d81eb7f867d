package visualizer

import (
	"maps"
	"math"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/reprise-tt/reprise/ops/graph"
)

// numbers tells the tensors of several reports apart. Reports of one process number them alike: the same number and the same
// tensor is one row of the database. Reports of several processes all begin at 1: what has a number that another report's
// tensor has, and isn't that tensor, gets one that none has.
type numbers struct {
	seen map[int64]string // what the tensor with a number is
	last int64            // where the search for a number that none has begins: the greatest of them
}

// fresh returns a number above 0 that no tensor has, neither of those before nor of own.
func (n *numbers) fresh(own map[int64]string) int64 {
	for {
		if n.last = max(n.last, 0); n.last == math.MaxInt64 {
			n.last = 0
		}
		n.last++
		_, before := n.seen[n.last]
		if _, now := own[n.last]; !before && !now {
			return n.last
		}
	}
}

// distinct renumbers a report's tensors, and says how many.
func (n *numbers) distinct(r *graph.Report) int {
	if n.seen == nil {
		n.seen = map[int64]string{}
	}
	own := map[int64]string{}
	for i := range r.Graph.Nodes {
		q := r.Graph.Nodes[i].Params
		id, ok := q.Int(graph.ParamTensorID)
		if _, again := own[id]; r.Graph.Nodes[i].Type != graph.TensorNode || !ok || again {
			continue
		}
		own[id] = strings.Join([]string{
			q[graph.ParamShape], q[graph.ParamDType], q[graph.ParamLayout], q[graph.ParamMemoryConfig], q[graph.ParamDeviceID], q[graph.ParamAddress],
		}, "\n")
		n.last = max(n.last, id)
	}
	to := map[int64]int64{} // 0 is no new number: those are above it
	for i := range r.Graph.Nodes {
		node := &r.Graph.Nodes[i]
		id, ok := node.Params.Int(graph.ParamTensorID)
		if node.Type != graph.TensorNode || !ok {
			continue
		}
		if what, taken := n.seen[id]; to[id] == 0 && taken && what != own[id] {
			to[id] = n.fresh(own)
		}
		if to[id] != 0 {
			node.Params = maps.Clone(node.Params)
			node.Params[graph.ParamTensorID] = strconv.FormatInt(to[id], 10)
		}
	}
	for id, what := range own {
		if to[id] != 0 {
			id = to[id]
		}
		n.seen[id] = what
	}
	for i := range r.Python {
		for _, ids := range [][]int64{r.Python[i].Inputs, r.Python[i].Outputs} {
			for k, id := range ids {
				if to[id] != 0 {
					ids[k] = to[id]
				}
			}
		}
	}
	return len(to)
}

// apart renumbers a report's tensors and warns of it.
func (w *writer) apart(r *graph.Report, path string) {
	if n := w.numbers.distinct(r); n > 0 {
		w.warn("%s: %d tensors have numbers that other tensors of another report have, and get new ones", filepath.Base(path), n)
	}
}
