package ops

import "github.com/reprise-tt/reprise/ops/catalog"

// OpOption configures one call of an operation. All operations take [WithMemoryConfig] and [Into]
// unless their documentation says otherwise. An [*OptionError] lists what an operation takes.
type OpOption func(*result)

type result struct {
	memory *MemoryConfig
	dtype  *DataType
	into   *Tensor
	each   []*Tensor
	mesh   *MeshTensor
	param  string

	activation    Activation
	matmulProgram MatmulProgram
	steps         []int
	layout        *Layout
	transposeA    bool
	transposeB    bool
	dim           *int
	smallest      bool

	given catalog.Options
}

func optionsOf(opts []OpOption) (r result) {
	for _, o := range opts {
		o(&r)
	}
	return r
}

// checkOptions refuses options that an operation doesn't take.
func (r *result) checkOptions(operation string) error {
	takes := catalog.OptionsOf(operation)
	if wrong := r.given &^ takes; wrong != 0 {
		return &OptionError{operation, wrong.Names(), takes.Names()}
	}
	return nil
}

// WithMemoryConfig sets the memory configuration of the result. The default is the first operand's,
// or interleaved in the same memory if its shards don't fit.
func WithMemoryConfig(m MemoryConfig) OpOption {
	return func(r *result) { r.memory = &m; r.given |= catalog.WithMemoryConfig }
}

// WithDataType sets the data type of a result, integers for integers and floats for floats.
func WithDataType(t DataType) OpOption {
	return func(r *result) { r.dtype = &t; r.given |= catalog.WithDataType }
}

// Into writes the result to an existing tensor of its shape and data type. It must not share memory
// with an operand: the error is an [*OverlapError].
func Into(t *Tensor) OpOption {
	return func(r *result) { r.into = t; r.given |= catalog.Into }
}

// IntoEach is [Into] for an operation with several results.
func IntoEach(ts ...*Tensor) OpOption {
	return func(r *result) { r.each = ts; r.given |= catalog.IntoEach }
}

// IntoMesh is [Into] for a collective, which inside of a capture needs it.
func IntoMesh(t *MeshTensor) OpOption {
	return func(r *result) { r.mesh = t; r.given |= catalog.IntoMesh }
}

// WithParam names the position of an operation, or the batch of [Device.FillCache], as a parameter
// of the trace under capture, for [reprise.Trace.Set]. All operations with that name must have the
// same value when they are recorded. Outside of a capture the name has no effect.
func WithParam(name string) OpOption {
	return func(r *result) { r.param = name; r.given |= catalog.WithParam }
}

// Activation is a function that [Device.Linear] applies to the elements of its result.
type Activation string

const (
	ReLU Activation = "relu" // the element, or 0 if it is negative
	GELU Activation = "gelu" // the element times the standard normal distribution at it
	SiLU Activation = "silu" // the element times its sigmoid
)

// WithActivation applies a function to the sums of Linear before they are rounded.
func WithActivation(f Activation) OpOption {
	return func(r *result) { r.activation = f; r.given |= catalog.WithActivation }
}

// MatmulForm is how a product of tiles is spread over the cores; all give the same bits.
type MatmulForm uint8

const (
	// MatmulAuto chooses by the shape.
	MatmulAuto MatmulForm = iota
	// MatmulSimple lets each core read the operands of its own tiles, unless the right one is
	// BFloat8B: TT-NN's MatmulMultiCoreProgramConfig.
	MatmulSimple
	// MatmulBlocked computes a block on each core; one core of each row and column of cores
	// multicasts tiles: TT-NN's MatmulMultiCoreReuseMultiCastProgramConfig.
	MatmulBlocked
)

// MatmulProgram chooses how a product of tiles is computed. Zero fields are chosen by the shape;
// all but Form apply to [MatmulBlocked], and with [MatmulSimple] they are an [*OptionError].
type MatmulProgram struct {
	Form MatmulForm
	// PerCoreM and PerCoreN are a block's height and width in tiles. TT-NN: per_core_M, per_core_N.
	PerCoreM, PerCoreN int
	// InnerStep is the number of inner tiles per multicast. TT-NN: in0_block_w.
	InnerStep int
	// PassSteps is how many steps are in L1 at once; sums of passes are kept in L1.
	PassSteps int
	// NarrowSums sums in 16 bits: each product of tiles is rounded to bfloat16 as it is added. It
	// needs operands and result of BFloat16, the form MatmulBlocked and no transposed operand.
	// TT-NN: fp32_dest_acc_en=False.
	NarrowSums bool
	// Skip leaves out parts of the work, to measure the others: the result is undefined.
	Skip MatmulParts
}

// MatmulParts are parts of the work of a product in blocks.
type MatmulParts uint8

const (
	MatmulReads    MatmulParts = 1 << iota // reading and multicasting tiles
	MatmulProducts                         // multiplying
	MatmulWrites                           // writing the result
)

// WithMatmulProgram sets how Matmul and Linear compute. The error wraps [ErrShape] if they can't,
// or is an [*OptionError] about a field that the form doesn't take.
func WithMatmulProgram(p MatmulProgram) OpOption {
	return func(r *result) { r.matmulProgram = p; r.given |= catalog.WithMatmulProgram }
}

// WithTransposeA makes [Device.Matmul] and [Device.Linear] exchange the last two dimensions of the
// left operand, with the same bits as [Device.Transpose] but without a copy in memory.
func WithTransposeA() OpOption {
	return func(r *result) { r.transposeA = true; r.given |= catalog.WithTransposeA }
}

// WithTransposeB is [WithTransposeA] for the right operand.
func WithTransposeB() OpOption {
	return func(r *result) { r.transposeB = true; r.given |= catalog.WithTransposeB }
}
