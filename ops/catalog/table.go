package catalog

import "github.com/reprise-tt/reprise/kernels"

// Data-movement kernels of several programs.
const (
	tileReader    = "tile_reader"    // reads tiles of operands for the engines
	elementReader = "element_reader" // reads elements of any layout for the engines, in the result's order
	pageWriter    = "page_writer"    // writes results for elementReader
	shardTiles    = "shard_tiles"    // gives the engines shards in L1 in place
	TileWriter    = "tile_writer"    // writes tiles of the result
)

const bf16, fp32, bfp8, int32s = kernels.BF16, kernels.FP32, kernels.BFP8, kernels.Int32

var (
	floats      = []Types{{bf16, bf16, bf16}, {fp32, fp32, fp32}}
	products    = []Types{{bf16, bf16, fp32}, {bf16, bf16, bf16}, {fp32, fp32, bf16}, {fp32, fp32, fp32}}
	weights     = append([]Types{{bf16, bfp8, fp32}, {bf16, bfp8, bf16}, {fp32, bfp8, fp32}, {fp32, bfp8, bf16}}, products...)
	activations = []string{"", "gelu", "relu", "silu"}

	usual = []Content{Result, Left, Left, Left}
)

func usualEngine(name string, exact ...int) *Engine {
	return &Engine{Name: name, Types: floats, Buffers: usual, Exact: exact}
}

// The indices of circular buffers are in ops/kernels/blocks.h, rows.h, transposed.h and
// attention.h.
var (
	binary = usualEngine("binary", 1, 2)
	unary  = &Engine{Name: "unary", Types: floats, Buffers: usual, Exact: []int{1, 2}, Functions: []string{
		"abs", "ceil", "exp", "floor", "frac", "gelu", "log", "negative", "recip", "relu", "round", "rsqrt", "sigmoid", "sign", "silu", "sqrt",
		"square", "tanh", "trunc",
	}}
	matmul = &Engine{Name: "matmul", Types: products, Functions: activations, Buffers: usual, Transposed: &Engine{
		Name: "matmul_transposed", Types: products, Functions: activations, Packs: true,
		Buffers: []Content{Result, Left, Left, Left, None, None, None, Left},
	}}
	matmulBlocks = &Engine{
		Name: "matmul_blocks", Types: weights, Functions: activations, Unpacked: []int{5},
		Buffers: []Content{Result, Left, Right, Left, Left, Wide},
		Transposed: &Engine{
			Name: "matmul_blocks_transposed", Types: weights, Functions: activations, Packs: true, Unpacked: []int{5},
			Buffers: []Content{Result, Left, Right, Left, Left, Wide, None, Left},
		},
	}
)

// Programs of operations.
var (
	Matmul         = &Program{Reader: "matmul_reader", Engine: matmul}
	MatmulRows     = &Program{Title: "matmul", Reader: "matmul_rows_reader", Engine: matmul}
	MatmulRowsOut  = &Program{Title: "matmul", Reader: "matmul_rows_reader", Engine: matmul, Writer: "rows_writer"}
	MatmulBlocks   = &Program{Reader: "matmul_left", Engine: matmulBlocks, Writer: "matmul_right"}
	MatmulIntegers = &Program{Reader: "matmul"}
	MatmulNarrow   = &Program{Reader: "matmul_left", Writer: "matmul_right", Engine: &Engine{
		Name: "matmul_blocks_narrow", Types: floats[:1], Functions: activations, Narrow: true,
		Buffers: []Content{Result, Left, Right, Left, Left, Result},
	}}
	Conv2d    = &Program{Title: "conv2d", Reader: "conv_reader", Engine: matmul, Result: FloatTiles}
	MaxPool2d = &Program{Title: "max_pool2d", Reader: "pool_reader", Result: FloatTiles,
		Engine: usualEngine("pool", 1, 2)}

	BinaryTiles    = &Program{Reader: tileReader, Engine: binary}
	BinaryElements = &Program{Reader: elementReader, Engine: binary, Writer: pageWriter}
	BinaryInShards = &Program{Reader: shardTiles, Engine: binary}
	UnaryTiles     = &Program{Reader: tileReader, Engine: unary, Result: FloatTiles}
	UnaryElements  = &Program{Reader: elementReader, Engine: unary, Writer: pageWriter}
	UnaryInShards  = &Program{Reader: shardTiles, Engine: unary}
	Elementwise    = &Program{Reader: "elementwise"}
	Shards         = &Program{Reader: "shards"}
	Where          = &Program{Reader: tileReader, Result: FloatTiles, Engine: usualEngine("where", 1, 2, 3)}

	Reduce  = &Program{Reader: "reduce_reader", Result: FloatTiles, Engine: usualEngine("reduce")}
	Fold    = &Program{Reader: "fold_reader", Result: FloatTiles, Engine: usualEngine("fold", 1, 2)}
	Softmax = &Program{Reader: "row_reader", Result: FloatTiles, Engine: &Engine{
		Name: "softmax", Types: floats, Unpacked: []int{4, 5, 6}, Exact: []int{1, 2, 3},
		Buffers: []Content{Result, Left, Left, Left, Wide, Wide, Wide},
	}}
	Norm = &Program{Reader: "row_reader", Result: FloatTiles, Engine: &Engine{
		Name: "norm", Types: floats, Buffers: []Content{Result, Left, Left, Left, Wide, Wide}, Unpacked: []int{4, 5}, Exact: []int{1, 2, 3},
	}}

	Attention = &Program{Reader: "attention_reader", Writer: "attention_writer", Result: FloatTiles, Engine: &Engine{
		Name: "attention", Types: floats, Unpacked: []int{6, 9, 10, 11, 12, 13}, Exact: []int{4}, Buffers: []Content{
			Result, Left, Left, Left, Left, Left, Wide, Left, Wide, Wide, Wide, Wide, Wide, Wide, // scores and sums in fp32
		},
	}}
	Rotary      = &Program{Reader: "rotary_reader", Result: FloatTiles, Engine: usualEngine("rotary", 1, 2)}
	UpdateCache = &Program{Reader: "update_cache"}
	FillCache   = &Program{Reader: "fill_cache"}

	Typecast = &Program{Reader: tileReader, Engine: &Engine{Name: "typecast", Converts: true, Buffers: usual, Exact: []int{1, 2},
		Types: []Types{
			{bf16, bf16, fp32}, {bf16, bf16, int32s}, {fp32, fp32, bf16}, {fp32, fp32, int32s}, {int32s, int32s, bf16}, {int32s, int32s, fp32},
		}}}
	Convert  = &Program{Reader: "convert"}
	Quantize = &Program{Reader: tileReader, Result: EngineTiles, Engine: &Engine{
		Name: "quantize", Buffers: usual, Exact: []int{1, 2},
		Types: []Types{{int32s, int32s, int32s}, {bf16, bf16, int32s}, {fp32, fp32, int32s}},
	}}
	Dequantize = &Program{Reader: tileReader, Result: EngineTiles, Engine: &Engine{
		Name: "dequantize", Buffers: usual, Exact: []int{1, 2}, Types: []Types{{int32s, int32s, bf16}, {int32s, int32s, fp32}},
	}}
	Rand = &Program{Reader: "no_reader", Result: FloatTiles, Engine: usualEngine("rand")}

	Embedding = &Program{Reader: "embedding"}
	ArgMax    = &Program{Reader: "argmax"}
	TopK      = &Program{Reader: "top_k"}
	Rearrange = &Program{Reader: "rearrange"} // elements
	Pages     = &Program{Reader: "pages"}     // whole pages
	Concat    = &Program{Reader: "concat"}
)

const (
	engines  = "engines"
	cores    = "RISC-V cores"
	tiles    = "tiles of floats"
	anyTiles = "tiles of any type"
)

var moves = []*Program{Rearrange, Pages, Elementwise}

const (
	usualOptions   = WithMemoryConfig | Into
	productOptions = usualOptions | WithDataType | WithActivation | WithMatmulProgram | WithTransposeA | WithTransposeB
)

// options are those of operations that don't take the usual ones, by their names in TT-NN.
var options = map[string]Options{
	"matmul": productOptions, "linear": productOptions, "conv2d": usualOptions | WithDataType | WithActivation,
	"transformer::scaled_dot_product_attention_decode": usualOptions | WithParam, "experimental::rotary_embedding": usualOptions | WithParam,
	"update_cache": WithParam, "fill_cache": WithParam, "experimental::nlp_create_qkv_heads": WithMemoryConfig | IntoEach,
	"dequantize": usualOptions | WithDataType, "embedding": usualOptions | WithLayout, "argmax": usualOptions | WithDim,
	"topk": WithMemoryConfig | IntoEach | WithDim | WithSmallest, "slice": usualOptions | WithSteps, "to_memory_config": Into, "reshard": Into,
	"all_reduce": IntoMesh, "reduce_scatter": IntoMesh | WithDim, "all_gather": IntoMesh | WithDim,
}

// Operations is the table.
var Operations = []Operation{
	{"`Matmul`, `Linear`", "`matmul`, `linear` with bias, transposed operands and fused relu, gelu, silu", []Variant{
		{"floats, of `Linear` tiles; a right operand of `BFloat8B`", "engines of all cores, with multicasts",
			"2⁻¹¹ of the sum of absolute products"},
		{"integers", cores, "exact, modulo 2³²"},
	}, []*Program{Matmul, MatmulRows, MatmulRowsOut, MatmulBlocks, MatmulNarrow, MatmulIntegers}},
	{"`Conv2d`, `MaxPool2d`", "`conv2d`, `max_pool2d`",
		[]Variant{{"floats, rows or tiles", engines, "2⁻¹¹ of the sum of absolute products; exact"}}, []*Program{Conv2d, MaxPool2d}},
	{"`Add`, `Subtract`, `Multiply`, `Divide` with broadcasts", "`add`, `subtract`, `multiply`, `divide`", []Variant{
		{"floats", engines, "rounded once; `Divide` 2⁻²²"},
		{"integers, but for `Divide`", cores, "exact"},
	}, []*Program{BinaryTiles, BinaryElements, BinaryInShards, Elementwise, Shards}},
	{"`Relu`, `Gelu`, `Silu`, `Sigmoid`, `Tanh`, `Exp`, `Log`, `Sqrt`, `Rsqrt`, `Reciprocal`, `Square`, `Abs`, `Sign`, `Neg`, `Floor`, " +
		"`Ceil`, `Round`, `Trunc`, `Frac`", "the same",
		[]Variant{{"tiles of floats; `Relu` also others", engines, "about 0.5 units in the last place of bfloat16 ([table](kernels.md))"}},
		[]*Program{UnaryTiles, UnaryElements, UnaryInShards, Elementwise, Shards}},
	{"`Where`", "`where`", []Variant{{tiles, engines, "exact"}}, []*Program{Where}},
	{"`Sum`, `Mean`, `Max` over any dimension", "`sum`, `mean`, `max`",
		[]Variant{{tiles, engines, "2⁻¹² of the sum of absolute elements; exact"}}, []*Program{Reduce, Fold}},
	{"`Softmax` over any dimension, `ScaleMaskSoftmax`", "`softmax`, `scale_mask_softmax`", []Variant{{tiles, engines, "2⁻¹⁸"}},
		[]*Program{Softmax, Rearrange, Pages}},
	{"`LayerNorm`, `RMSNorm`", "`layer_norm`, `rms_norm`", []Variant{{tiles, engines, "2⁻¹⁸"}}, []*Program{Norm}},
	{"`ScaledDotProductAttention`, `ScaledDotProductAttentionDecode`", "`transformer.scaled_dot_product_attention`, `…_decode`",
		[]Variant{{tiles, "engines, one program, 256 keys at a time",
			"2⁻⁷ of values with a standard deviation of 1; probabilities are rounded to the data type"}}, []*Program{Attention}},
	{"`RotaryEmbedding`", "`experimental.rotary_embedding`", []Variant{{tiles, engines, "rounded once"}}, []*Program{Rotary}},
	{"`UpdateCache`, `FillCache`", "`update_cache`, `fill_cache`", []Variant{{anyTiles, cores, "exact"}}, []*Program{UpdateCache, FillCache}},
	{"`SplitHeads`, `ConcatHeads`", "`experimental.nlp_create_qkv_heads`, `…nlp_concat_heads`", []Variant{{anyTiles, cores, "exact"}},
		[]*Program{Pages}},
	{"`Typecast`, `Quantize`, `Requantize`, `Dequantize`", "`typecast`, `quantize`, `requantize`, `dequantize`",
		[]Variant{{"see `go doc`", "engines, or RISC-V cores for narrow integers and rows", "rounded once"}},
		[]*Program{Typecast, Convert, Quantize, Dequantize}},
	{"`Rand`", "`rand`", []Variant{{"", engines, ""}}, []*Program{Rand}},
	{"`Embedding`", "`embedding`", []Variant{{"rows, unsigned indices", cores, "exact"}}, []*Program{Embedding}},
	{"`ArgMax`, `TopK` over any dimension, the largest or the smallest", "`argmax`, `topk`", []Variant{{"any", cores, "exact"}},
		[]*Program{ArgMax, TopK, Rearrange, Pages}},
	{"`Transpose`, `Permute`, `Reshape`, `Pad`, `Slice` with steps, `Concat`, `Repeat`",
		"`transpose`, `permute`, `reshape`, `pad`, `slice`, `concat`, `repeat`", []Variant{{"any type, layout and memory",
			"RISC-V cores and the NoC; whole pages where they stay whole", "exact"}}, append([]*Program{Concat}, moves...)},
	{"`ToLayout`, `Tilize`, `Untilize`, `ToMemoryConfig`, `Reshard`", "`to_layout`, `tilize`, `untilize`, `to_memory_config`, `reshard`",
		[]Variant{{"any type", "RISC-V cores and the NoC", "exact"}}, moves},
	{"`Mesh.AllGather`, `Mesh.ReduceScatter` along any dimension, `Mesh.AllReduce`", "`all_gather`, `reduce_scatter`, `all_reduce`", []Variant{
		{"floats, of rows up to 1,024 in a page", "Ethernet links, sums on the engines", "rounded after each addition"},
		{"integers, modulo 2⁸ to 2³²; longer rows", "Ethernet links and RISC-V cores", "exact; rounded after each addition"},
	}, moves},
}
