package graph_test

import (
	"fmt"
	"os"
	"time"

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

// sample is the trace of TT-NN's document: an add that repeats one of its operands.
func sample() *graph.Graph {
	f, err := os.Open("testdata/sample.json")
	if err != nil {
		panic(err)
	}
	defer f.Close()
	r, err := graph.Decode(f, graph.Limits{})
	if err != nil {
		panic(err)
	}
	return r.Graph
}

// The functions that ran, in the order of their starts.
func ExampleCallTrace() {
	for _, name := range graph.CallTrace(sample()) {
		fmt.Println(name)
	}
	// Output:
	// ttnn::add
	// ttnn::repeat
	// ttnn::prim::repeat
	// Device Operation
	// create_device_tensor
	// ttnn::prim::binary
	// Device Operation
	// create_device_tensor
}

// The peak of L1: buffers, those of arguments included, and the circular buffers of a core.
func ExamplePeakL1() {
	fmt.Println(graph.PeakL1(sample()), "B")
	// Output: 96256 B
}

// The peak of memory allocated during the capture, as TT-NN's document counts it.
func ExamplePeakAllocated() {
	fmt.Println(graph.PeakAllocated(sample()), "B")
	// Output: 49152 B
}

// The peak of circular buffers on a core.
func ExampleCircularPeak() {
	fmt.Println(graph.CircularPeak(sample()), "B on a core")
	// Output: 16384 B on a core
}

// The numbers of intermediate and output tensors.
func ExampleCountTensors() {
	intermediate, output, err := graph.CountTensors(sample())
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(intermediate, "in between,", output, "out")
	// Output: 1 in between, 1 out
}

// The output tensors, by their nodes, and their shapes.
func ExampleOutputTensors() {
	g := sample()
	nodes, err := graph.OutputTensors(g)
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, n := range nodes {
		fmt.Println(n, g.Nodes[n].Params[graph.ParamShape])
	}
	// Output: 24 ttnn.Shape([4, 3, 32, 32])
}

// Memory after each event.
func ExampleTable() {
	rows := graph.Table(sample())
	for _, r := range rows[len(rows)-5:] {
		fmt.Printf("%-20s%-22s%7d%7d\n", r.Op, r.Event, r.Circular, r.Buffers)
	}
	// Output:
	// Device Operation    end_op                  16384  79872
	// ttnn::prim::binary  end_op                  16384  79872
	// ttnn::add           buffer_deallocate       16384  55296
	// ttnn::add           end_op                  16384  55296
	//                     buffer_deallocate       16384  30720
}

// The data flow between operations: level 1 are those that the program called.
func ExampleLevelized() {
	for _, v := range graph.Levelized(sample(), 2) {
		fmt.Println(v.Counter, v.Level, v.Name, v.OutputShapes, "from", v.In, "internals", v.Internals)
	}
	// Output:
	// 0 1 tensor [ttnn.Shape([4, 3, 32, 32])] from [] internals []
	// 1 1 tensor [ttnn.Shape([1, 3, 32, 32])] from [] internals []
	// 2 1 ttnn::add [ttnn.Shape([4, 3, 32, 32])] from [0 1] internals [3 4]
	// 3 2 ttnn::repeat [ttnn.Shape([4, 3, 32, 32])] from [1] internals []
	// 4 2 ttnn::prim::binary [ttnn.Shape([4, 3, 32, 32])] from [0 3] internals []
}

// How long functions took by the host's clock.
func ExampleDurations() {
	now := time.Unix(0, 0)
	r := graph.NewRecorder(graph.Config{Now: func() time.Time { now = now.Add(time.Millisecond); return now }})
	r.Begin("ttnn::add")
	r.Begin("ttnn::prim::binary")
	r.End()
	r.End()
	report, err := r.Finish()
	if err != nil {
		panic(err)
	}
	for name, took := range graph.Durations(report.Graph) {
		fmt.Println(name, took)
	}
	// Unordered output:
	// ttnn::add 3ms
	// ttnn::prim::binary 1ms
}
