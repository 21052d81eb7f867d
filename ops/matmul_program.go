package ops

// MatmulForm is how a product of tiles is spread over the cores. The bits of the result don't depend on it.
type MatmulForm uint8

// The forms.
const (
	// MatmulAuto chooses by the shape.
	MatmulAuto MatmulForm = iota
	// MatmulSimple lets each core read the operands of its tiles by itself: TT-NN's MatmulMultiCoreProgramConfig. A right operand
	// of BFloat8B is multiplied in blocks all the same.
	MatmulSimple
	// MatmulBlocked cuts the result into a block for each core. One core of each row and column of cores reads tiles and sends
	// them to the others: TT-NN's MatmulMultiCoreReuseMultiCastProgramConfig.
	MatmulBlocked
)

// MatmulProgram chooses how a product of tiles is computed. What is 0 is chosen by the shape. The other fields are of
// [MatmulBlocked].
type MatmulProgram struct {
	Form MatmulForm
	// PerCoreM and PerCoreN are the height and the width of a core's block, in tiles. TT-NN: per_core_M, per_core_N.
	PerCoreM, PerCoreN int
	// InnerStep is how many tiles of the inner dimension are sent at once. TT-NN: in0_block_w.
	InnerStep int
	// PassSteps is how many steps are in L1 at once. If there are more, sums of each pass are kept in L1.
	PassSteps int
	// NarrowSums sums in 16 bits: each product of tiles is rounded to bfloat16 as it is added, and Dst has room for eight tiles, not
	// four. Operands and result are BFloat16, the form is MatmulBlocked and no operand is transposed. TT-NN: fp32_dest_acc_en=False.
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

// WithMatmulProgram sets how Matmul and Linear compute. The error of an operation that can't compute so wraps [ErrShape].
func WithMatmulProgram(p MatmulProgram) OpOption { return func(r *result) { r.matmulProgram = p } }
