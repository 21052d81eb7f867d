package graph_test

import (
	"fmt"
	"os"

	"github.com/reprise-tt/reprise/ops/graph"
)

// A capture of an operation, and figures of its graph.
func Example() {
	buffer := func(id uint64) *graph.Buffer {
		return &graph.Buffer{ID: id, Type: graph.L1, Size: 2048, PageSize: 2048, Address: 1024 * id}
	}
	a := &graph.Tensor{ID: 1, Shape: []int{32, 32}, Buffer: buffer(1)}
	b := &graph.Tensor{ID: 2, Shape: []int{32, 32}, Buffer: buffer(2)}

	r := graph.NewRecorder(graph.Config{Format: graph.Format2026v1})
	r.Begin("relu", graph.Arg{Text: "a", Tensors: []*graph.Tensor{a}})
	r.Allocate(b.Buffer)
	r.AllocateCircular(graph.CircularBuffer{Size: 4096, Cores: []graph.CoreRange{{X1: 7, Y1: 7}}})
	r.End(b)
	report, err := r.Finish()
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("calls:", graph.CallTrace(report.Graph))
	fmt.Println("peak of L1:", graph.PeakL1(report.Graph), "B")
	fmt.Printf("per core: %+v\n", graph.PerCore(report.Graph, 64))
	if err := report.Graph.Print(os.Stdout); err != nil {
		fmt.Println(err)
	}
	// Output:
	// calls: [relu]
	// peak of L1: 8192 B
	// per core: {Circular:4096 Dataflow:0 Scratchpad:0 L1:2048 Total:6144}
	// Capture Start
	// Begin: relu
	//     Add Tensor: 1
	//     Add Device Buffer (x2)
	//     Allocate Device Buffer
	//     Allocate Circular Buffer
	// End: relu
	// Add Tensor: 2
	// Capture End
}

// The data flow between operations.
func ExampleGraph_Operands() {
	tensor := func(id uint64) *graph.Tensor { return &graph.Tensor{ID: id, Shape: []int{32, 32}} }
	a, b, c := tensor(1), tensor(2), tensor(3)
	r := graph.NewRecorder(graph.Config{Format: graph.Format2026v1})
	r.Begin("multiply", graph.Arg{Tensors: []*graph.Tensor{a}}, graph.Arg{Tensors: []*graph.Tensor{b}})
	r.Begin("device operation")
	r.End(c)
	r.End(c)
	r.Begin("relu", graph.Arg{Tensors: []*graph.Tensor{c}})
	r.End()
	report, err := r.Finish()
	if err != nil {
		fmt.Println(err)
		return
	}
	g := report.Graph
	calls := g.Calls()
	for i, o := range g.Operands(calls) {
		if calls[i].Depth == 0 {
			ids := func(nodes []int) (out []string) {
				for _, n := range nodes {
					out = append(out, g.Nodes[n].Params[graph.ParamTensorID])
				}
				return out
			}
			fmt.Println(calls[i].Name, "takes", ids(o.In), "returns", ids(o.Out))
		}
	}
	// Output:
	// multiply takes [1 2] returns [3]
	// relu takes [3] returns []
}
