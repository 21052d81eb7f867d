package visualizer

import (
	"maps"
	"math"
	"strconv"
	"strings"

	"github.com/reprise-tt/reprise/ops/graph"
)

// tensorIDs makes the tensor ids of several reports unique. Reports of one process share ids: equal
// tensors of an equal id are one row of the database. Reports of other processes start at 1 too:
// another tensor of a known id gets a new one.
type tensorIDs struct {
	seen map[int64]string // descriptions of tensors by id
	last int64            // the search for a new one starts after it
}

// unused returns a new id above 0 that neither earlier reports nor own have.
func (n *tensorIDs) unused(own map[int64]string) int64 {
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

func (n *tensorIDs) distinct(r *graph.Report) int {
	if n.seen == nil {
		n.seen = map[int64]string{}
	}
	own := map[int64]string{}
	for _, node := range r.Graph.All(graph.TensorNode) {
		q := node.Params
		id, ok := q.Int(graph.ParamTensorID)
		if _, again := own[id]; !ok || again {
			continue
		}
		own[id] = strings.Join([]string{
			q[graph.ParamShape], q[graph.ParamDType], q[graph.ParamLayout], q[graph.ParamMemoryConfig], q[graph.ParamDeviceID],
			q[graph.ParamAddress],
		}, "\n")
		n.last = max(n.last, id)
	}
	to := map[int64]int64{} // new ids, all above 0
	for _, node := range r.Graph.All(graph.TensorNode) {
		id, ok := node.Params.Int(graph.ParamTensorID)
		if !ok {
			continue
		}
		if other, taken := n.seen[id]; to[id] == 0 && taken && other != own[id] {
			to[id] = n.unused(own)
		}
		if to[id] != 0 {
			node.Params = maps.Clone(node.Params)
			node.Params[graph.ParamTensorID] = strconv.FormatInt(to[id], 10)
		}
	}
	for id, tensor := range own {
		if to[id] != 0 {
			id = to[id]
		}
		n.seen[id] = tensor
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
