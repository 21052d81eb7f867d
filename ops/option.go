package ops

// OpOption configures one call of an operation.
type OpOption func(*result)

// result is where and as what an operation leaves its result.
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

// optionsOf returns what options say.
func optionsOf(opts []OpOption) (r result) {
	for _, o := range opts {
		o(&r)
	}
	return r
}

// WithMemoryConfig sets the memory configuration of the result. The default is that of the first
// operand; if its shards don't fit the result, the result is interleaved in the same memory.
func WithMemoryConfig(m MemoryConfig) OpOption { return func(r *result) { r.memory = &m } }

// WithDataType sets the data type of a matmul's result: another integer type for integers, another
// float type for floats.
func WithDataType(t DataType) OpOption { return func(r *result) { r.dtype = &t } }

// Into writes the result to an existing tensor of the result's shape and data type, instead of a
// new one. It can't be an operand.
func Into(t *Tensor) OpOption { return func(r *result) { r.into = t } }

// IntoEach is [Into] for an operation with several results.
func IntoEach(ts ...*Tensor) OpOption { return func(r *result) { r.each = ts } }

// WithParam names the position of an operation, or the batch of [Device.FillCache], as a parameter
// of the trace that is being captured. [reprise.Trace.Set] then changes it for replays, in all
// operations that gave it the same name: all must have the same value when they are recorded.
// Outside of a capture it does nothing. The error wraps [ErrNoParam] for other operations.
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

// MatmulForm is how a product of tiles is spread over the cores. The bits of the result don't
// depend on it.
type MatmulForm uint8

// The forms.
const (
	// MatmulAuto chooses by the shape.
	MatmulAuto MatmulForm = iota
	// MatmulSimple lets each core read the operands of its tiles by itself: TT-NN's
	// MatmulMultiCoreProgramConfig. A right operand of BFloat8B is multiplied in blocks all the
	// same.
	MatmulSimple
	// MatmulBlocked cuts the result into a block for each core. One core of each row and column of
	// cores reads tiles and sends them to the others: TT-NN's
	// MatmulMultiCoreReuseMultiCastProgramConfig.
	MatmulBlocked
)

// MatmulProgram chooses how a product of tiles is computed. What is 0 is chosen by the shape. The
// other fields are of [MatmulBlocked].
type MatmulProgram struct {
	Form MatmulForm
	// PerCoreM and PerCoreN are the height and the width of a core's block, in tiles. TT-NN:
	// per_core_M, per_core_N.
	PerCoreM, PerCoreN int
	// InnerStep is how many tiles of the inner dimension are sent at once. TT-NN: in0_block_w.
	InnerStep int
	// PassSteps is how many steps are in L1 at once. If there are more, sums of each pass are kept
	// in L1.
	PassSteps int
	// NarrowSums sums in 16 bits: each product of tiles is rounded to bfloat16 as it is added, and
	// Dst has room for eight tiles, not four. Operands and result are BFloat16, the form is
	// MatmulBlocked and no operand is transposed. TT-NN: fp32_dest_acc_en=False.
	NarrowSums bool
	// Skip leaves out parts of the work, to measure what the others take: the result is undefined.
	Skip MatmulParts
}

// MatmulParts are parts of the work of a product in blocks.
type MatmulParts uint8

// The parts.
const (
	MatmulReads    MatmulParts = 1 << iota // reading tiles and sending them to rows and columns of cores
	MatmulProducts                         // multiplying
	MatmulWrites                           // writing the result
)

// WithMatmulProgram sets how Matmul and Linear compute. The error of an operation that can't
// compute so wraps [ErrShape].
func WithMatmulProgram(p MatmulProgram) OpOption { return func(r *result) { r.matmulProgram = p } }

// WithTransposeA makes [Device.Matmul] and [Device.Linear] take the left operand with its last two
// dimensions exchanged: the result has the bits of a product of what [Device.Transpose] returns,
// without a copy in memory. Tiles are turned on a core, by the engines.
func WithTransposeA() OpOption { return func(r *result) { r.transposeA = true } }

// WithTransposeB is [WithTransposeA] for the right operand. The unpackers turn its tiles on their
// way to the matrix unit.
func WithTransposeB() OpOption { return func(r *result) { r.transposeB = true } }
