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

// The data flow between the operations of level 1.
func ExampleLevelize() {
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
	vertices, err := graph.Levelize(report.Graph, 1)
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, v := range vertices {
		fmt.Println(v.ID, v.Name, "from", v.In, "to", v.Out)
	}
	// Output:
	// 0 tensor[1] from [] to [2]
	// 1 tensor[2] from [] to [2]
	// 2 multiply from [0 1] to [3]
	// 3 relu from [2] to []
}
