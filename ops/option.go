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

// WithMemoryConfig sets the memory configuration of the result. The default is that of the first operand; if its shards don't
// fit the result, the result is interleaved in the same memory.
func WithMemoryConfig(m MemoryConfig) OpOption { return func(r *result) { r.memory = &m } }

// WithDataType sets the data type of a matmul's result: another integer type for integers, another float type for floats.
func WithDataType(t DataType) OpOption { return func(r *result) { r.dtype = &t } }

// Into writes the result to an existing tensor of the result's shape and data type, instead of a new one. It can't be an
// operand.
func Into(t *Tensor) OpOption { return func(r *result) { r.into = t } }

// IntoEach is [Into] for an operation with several results.
func IntoEach(ts ...*Tensor) OpOption { return func(r *result) { r.each = ts } }

// WithParam names the position of an operation, or the batch of [Device.FillCache], as a parameter of the trace that is being
// captured. [reprise.Trace.Set] then changes it for replays, in all operations that gave it the same name: all must have the same
// value when they are recorded. Outside of a capture it does nothing. The error wraps [ErrNoParam] for other operations.
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
