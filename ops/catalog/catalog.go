// Package catalog is the table of operations on tensors: operands, where they run, programs,
// kernels and the formats of circular buffers. Package ops runs the programs, internal/fwbuild
// compiles their kernels, and docs/operations.md shows the table.
package catalog

import (
	"slices"
	"strings"

	"github.com/reprise-tt/reprise/kernels"
)

// Operation is a row of the table: operations that are documented together.
type Operation struct {
	Name     string // as in the documentation: methods of ops.Device in backquotes
	TTNN     string // names in TT-NN
	Variants []Variant
	Programs []*Program
}

// Variant says where an operation runs for some operands.
type Variant struct {
	Operands string
	RunsOn   string
	Error    string // upper bound
}

// Program is a program's kernels, in files below ops/kernels.
type Program struct {
	Title  string  // if the program isn't named after the kernel that computes
	Reader string  // on BRISC: reads operands for the engines, or computes the result
	Engine *Engine // computes what Reader reads, or nil
	Writer string  // on NCRISC: writes Engine's results; tile_writer if empty
	Result Tensors // what the result may be
}

// Tensors is a set of tensors.
type Tensors uint8

// The sets.
const (
	Any         Tensors = iota
	FloatTiles          // tiles of BFloat16 or Float32
	EngineTiles         // tiles of BFloat16, Float32 or Int32
	InTiles             // tiles of any type
)

// Options is a set of options of calls: functions of package ops.
type Options uint16

// The options.
const (
	WithMemoryConfig Options = 1 << iota
	Into
	IntoEach
	IntoMesh
	WithDataType
	WithActivation
	WithMatmulProgram
	WithTransposeA
	WithTransposeB
	WithParam
	WithLayout
	WithSteps
	WithDim
	WithSmallest
)

// Names returns the options' names.
func (o Options) Names() (names []string) {
	for i, name := range strings.Fields("WithMemoryConfig Into IntoEach IntoMesh WithDataType WithActivation WithMatmulProgram WithTransposeA " +
		"WithTransposeB WithParam WithLayout WithSteps WithDim WithSmallest") {
		if o>>i&1 != 0 {
			names = append(names, name)
		}
	}
	return names
}

// OptionsOf returns the options that an operation takes, by its name in graphs.
func OptionsOf(name string) Options {
	if o, ok := options[strings.TrimPrefix(name, "ttnn::")]; ok {
		return o
	}
	return usualOptions
}

// Content is what a circular buffer holds; it determines the format.
type Content uint8

// The contents.
const (
	None   Content = iota
	Result         // tiles of the result
	Left           // tiles of the first operand
	Right          // tiles of the second operand
	Wide           // tiles of 32-bit floats
)

// Engine is a kernel of the engines.
type Engine struct {
	Name      string    // of its source in ops/kernels/compute
	Functions []string  // values of FUNCTION, by their names in the compute API; "" is none
	Converts  bool      // FUNCTION converts to the result's format
	Types     []Types   // to compile for; images of several may be combined
	Buffers   []Content // circular buffers by index
	Unpacked  []int     // circular buffers of Wide that copy_tile moves to Dst unrounded
	Exact     []int     // as Unpacked if the first operand is FP32
	Packs     bool      // the pack thread packs operands too
	Narrow    bool      // Dst holds 16 bits
	// Transposed is the kernel for products with transposed operands, or nil.
	Transposed *Engine
}

type Types struct{ Left, Right, Result kernels.Format }

// Format returns the format of a circular buffer's content.
func (t Types) Format(c Content) kernels.Format {
	return [...]kernels.Format{Result: t.Result, Left: t.Left, Right: t.Right, Wide: kernels.FP32}[c]
}

// Source returns the kernel's compile options for some formats, without files and definitions.
func (e *Engine) Source(t Types) kernels.ComputeSource {
	s := kernels.ComputeSource{Formats: map[int]kernels.Format{}, Fidelity: kernels.HiFi4, WideDst: !e.Narrow, UnpackToDst: e.Unpacked}
	for i, c := range e.Buffers {
		if c != None {
			s.Formats[i] = t.Format(c)
		}
	}
	if t.Left == kernels.FP32 {
		s.UnpackToDst = slices.Concat(e.Unpacked, e.Exact)
	}
	return s
}

// FunctionsOf returns the values of FUNCTION for some formats.
func (e *Engine) FunctionsOf(t Types) []string {
	switch {
	case e.Converts:
		return []string{ToFormat(t.Result)}
	case e.Functions == nil:
		return []string{""}
	}
	return e.Functions
}

// ToFormat returns the function that converts to a format.
func ToFormat(f kernels.Format) string { return "to_" + f.String() }

// Images returns the names of the images for TRISC0, TRISC1 and TRISC2, after all that each depends
// on: the operands' formats, the second one only if it differs; the math thread's the function too;
// the pack thread's the result's format, and the operands' if it packs them.
func (e *Engine) Images(function string, t Types) [3]string {
	from, to := "_"+t.Left.String(), "_"+t.Result.String()
	if e.Packs && t.Left != t.Result {
		to = from + to
	}
	if t.Right != t.Left {
		from += "_" + t.Right.String()
	}
	if function != "" {
		function = "_" + function
	}
	return [3]string{e.Name + from + ".unpack", e.Name + function + from + ".math", e.Name + to + ".pack"}
}

func Engines() []*Engine {
	var list []*Engine
	for _, o := range Operations {
		for _, p := range o.Programs {
			for e := p.Engine; e != nil && !slices.Contains(list, e); e = e.Transposed {
				list = append(list, e)
			}
		}
	}
	return list
}
