package graph_test

import (
	"fmt"
	"os"
	"time"

	"github.com/reprise-tt/reprise/ops/graph"
)

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
