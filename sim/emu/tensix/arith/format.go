package arith

// Arch is a chip's variant of the arithmetic.
type Arch uint8

const (
	Wormhole  Arch = iota // Wormhole B0
	Blackhole             // Blackhole
)

// String returns the chip's name in lower case.
func (a Arch) String() string {
	if a == Blackhole {
		return "blackhole"
	}
	return "wormhole"
}

// Format is a number format, numbered as the engine's four-bit format fields are.
type Format uint8

const (
	FP32  Format = 0  // IEEE single precision
	FP16  Format = 1  // 5 exponent bits, no infinities or NaNs
	BFP8A Format = 2  // block of 16: shared exponent of 5 bits, sign and 7 bits each
	BFP4A Format = 3  // block of 16: shared exponent of 5 bits, sign and 3 bits each
	TF32  Format = 4  // 8 exponent bits, 10 mantissa bits, in 32 bits of L1
	BF16  Format = 5  // upper half of an FP32
	BFP8  Format = 6  // block of 16: shared exponent of 8 bits, sign and 7 bits each
	BFP4  Format = 7  // block of 16: shared exponent of 8 bits, sign and 3 bits each
	INT32 Format = 8  // sign and magnitude
	INT16 Format = 9  // 16 bits, opaque to the matrix unit
	LF8   Format = 10 // 5 exponent bits and 2 mantissa bits, or 4 and 3
	BFP2A Format = 11 // block of 16: shared exponent of 5 bits, sign and 1 bit each
	INT8  Format = 14 // sign and magnitude, or unsigned
	BFP2  Format = 15 // block of 16: shared exponent of 8 bits, sign and 1 bit each
)

var formatNames = [16]string{
	FP32: "fp32", FP16: "fp16", BFP8A: "bfp8a", BFP4A: "bfp4a", TF32: "tf32", BF16: "bf16", BFP8: "bfp8", BFP4: "bfp4",
	INT32: "int32", INT16: "int16", LF8: "lf8", BFP2A: "bfp2a", INT8: "int8", BFP2: "bfp2",
}

// String returns the format's name in lower case.
func (f Format) String() string {
	if int(f) < len(formatNames) && formatNames[f] != "" {
		return formatNames[f]
	}
	return "unknown"
}

// Bits returns the size of a datum in L1 without a block's exponent; 0 for an unknown format.
func (f Format) Bits() int {
	switch f {
	case FP32, TF32, INT32:
		return 32
	case FP16, BF16, INT16:
		return 16
	case BFP8A, BFP8, LF8, INT8:
		return 8
	case BFP4A, BFP4:
		return 4
	case BFP2A, BFP2:
		return 2
	}
	return 0
}

// BFP reports whether blocks of 16 data share an exponent.
func (f Format) BFP() bool {
	switch f {
	case BFP8A, BFP4A, BFP2A, BFP8, BFP4, BFP2:
		return true
	}
	return false
}

// half reports whether data have 5-bit exponents in SrcA and SrcB.
func (f Format) half() bool { return f == FP16 || f == LF8 }

// srcMask returns the bits of a datum that the matrix unit reads.
func (f Format) srcMask() uint32 {
	switch {
	case f.half():
		return 0x8FFFE000
	case f == TF32:
		return 0xFFFFFFFF
	}
	return 0xFFFF0000
}

// Row is a row of SrcA or SrcB: 16 data, each in bits 31 to 13.
type Row = [16]uint32
