package ops

// OpOption configures one call of an operation.
type OpOption func(*result)

// result is the options of a call: where its result goes, and how it is computed.
type result struct {
	memory *MemoryConfig
	dtype  *DataType
	into   *Tensor
	each   []*Tensor // of an operation with several results
	param  string

	activation    Activation
	matmulProgram MatmulProgram
	steps         []int
	layout        *Layout
	transposeA    bool
	transposeB    bool
	dim           *int
	smallest      bool
}

func optionsOf(opts []OpOption) (r result) {
	for _, o := range opts {
		o(&r)
	}
	return r
}

// WithMemoryConfig sets the memory configuration of the result. The default is the first operand's;
// if its shards don't fit, the result is interleaved in the same memory.
func WithMemoryConfig(m MemoryConfig) OpOption { return func(r *result) { r.memory = &m } }

// WithDataType sets the data type of a matmul's result: another integer type for integers, another
// float type for floats.
func WithDataType(t DataType) OpOption { return func(r *result) { r.dtype = &t } }

// Into writes the result to an existing tensor of the result's shape and data type. The tensor
// can't be an operand.
func Into(t *Tensor) OpOption { return func(r *result) { r.into = t } }

// IntoEach is [Into] for an operation with several results.
func IntoEach(ts ...*Tensor) OpOption { return func(r *result) { r.each = ts } }

// WithParam names the position of an operation, or the batch of [Device.FillCache], as a parameter
// of the trace under capture. [reprise.Trace.Set] changes the parameter for replays, in all
// operations with that name; all must have the same value when they are recorded. Outside of a
// capture the name has no effect. The error wraps [ErrNoParam] for other operations.
func WithParam(name string) OpOption { return func(r *result) { r.param = name } }

// Activation is a function that [Device.Linear] applies to the elements of its result.
type Activation string

// The activations.
const (
	ReLU Activation = "relu" // the element, or 0 if it is negative
	GELU Activation = "gelu" // the element times the standard normal distribution at it
	SiLU Activation = "silu" // the element times its sigmoid
)

// WithActivation applies a function to the sums of Linear before they are rounded.
func WithActivation(f Activation) OpOption { return func(r *result) { r.activation = f } }

// MatmulForm is how a product of tiles is spread over the cores. It doesn't change the result's
// bits.
type MatmulForm uint8

// The forms.
const (
	// MatmulAuto chooses by the shape.
	MatmulAuto MatmulForm = iota
	// MatmulSimple lets each core read the operands of its own tiles: TT-NN's
	// MatmulMultiCoreProgramConfig. A right operand of BFloat8B is still multiplied in blocks.
	MatmulSimple
	// MatmulBlocked cuts the result into a block for each core. One core of each row and column of
	// cores reads tiles and multicasts them: TT-NN's MatmulMultiCoreReuseMultiCastProgramConfig.
	MatmulBlocked
)

// MatmulProgram chooses how a product of tiles is computed. Zero fields are chosen by the shape.
// All fields but Form apply to [MatmulBlocked].
type MatmulProgram struct {
	Form MatmulForm
	// PerCoreM and PerCoreN are the height and the width of a core's block, in tiles. TT-NN:
	// per_core_M, per_core_N.
	PerCoreM, PerCoreN int
	// InnerStep is the number of inner tiles per multicast. TT-NN: in0_block_w.
	InnerStep int
	// PassSteps is how many steps are in L1 at once. With more steps the sums of each pass are kept
	// in L1.
	PassSteps int
	// NarrowSums sums in 16 bits: each product of tiles is rounded to bfloat16 as it is added, and
	// Dst holds eight tiles instead of four. It needs operands and result of BFloat16, the form
	// MatmulBlocked and no transposed operand. TT-NN: fp32_dest_acc_en=False.
	NarrowSums bool
	// Skip leaves out parts of the work, to measure the others: the result is undefined.
	Skip MatmulParts
}

// MatmulParts are parts of the work of a product in blocks.
type MatmulParts uint8

// The parts.
const (
	MatmulReads    MatmulParts = 1 << iota // reading and multicasting tiles
	MatmulProducts                         // multiplying
	MatmulWrites                           // writing the result
)

// WithMatmulProgram sets how Matmul and Linear compute. The error wraps [ErrShape] if they can't.
func WithMatmulProgram(p MatmulProgram) OpOption { return func(r *result) { r.matmulProgram = p } }

// WithTransposeA makes [Device.Matmul] and [Device.Linear] exchange the last two dimensions of the
// left operand. The result has the same bits as with [Device.Transpose], without a copy in memory.
// The engines turn tiles on each core.
func WithTransposeA() OpOption { return func(r *result) { r.transposeA = true } }

// WithTransposeB is [WithTransposeA] for the right operand, whose tiles the unpackers turn.
func WithTransposeB() OpOption { return func(r *result) { r.transposeB = true } }
