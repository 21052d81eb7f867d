package graph_test

import (
	"fmt"
	"os"

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

// Which functions ran, in the order in which they began.
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

// The most L1 that was in use: buffers, those of the arguments too, and a core's circular buffers.
func ExamplePeakL1() {
	fmt.Println(graph.PeakL1(sample()), "B")
	// Output: 96256 B
}

// The most that was allocated during the capture, as the document counts it.
func ExamplePeakAllocated() {
	fmt.Println(graph.PeakAllocated(sample()), "B")
	// Output: 49152 B
}

// The most circular buffers that a core had at a time.
func ExampleCircularPeak() {
	fmt.Println(graph.CircularPeak(sample()), "B on a core")
	// Output: 16384 B on a core
}

// How many tensors were made on the way, and how many came out.
func ExampleCountTensors() {
	intermediate, output, err := graph.CountTensors(sample())
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(intermediate, "in between,", output, "out")
	// Output: 1 in between, 1 out
}

// The tensors that came out, by their nodes, and what they are.
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
