package kernels

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/reprise-tt/reprise/chip"
)

// A Format is how tiles of 32 by 32, a circular buffer's pages, are stored in L1, numbered as in
// tt-metal's DataFormat.
type Format uint8

// Formats of the engines. Data of block formats share an exponent of 8 bits among 16.
const (
	FP32   Format = 0
	FP16   Format = 1
	BF16   Format = 5
	BFP8   Format = 6
	BFP4   Format = 7
	Int32  Format = 8 // sign and magnitude
	Uint16 Format = 9
	Int8   Format = 14 // sign and magnitude
	BFP2   Format = 15
)

var formats = map[Format]struct {
	name  string
	bytes int
}{
	FP32: {"fp32", 4096}, FP16: {"fp16", 2048}, BF16: {"bf16", 2048}, BFP8: {"bfp8", 1088}, BFP4: {"bfp4", 576},
	Int32: {"int32", 4096}, Uint16: {"uint16", 2048}, Int8: {"int8", 1024}, BFP2: {"bfp2", 320},
}

// TileBytes returns the bytes of a tile; 0 for an unknown format.
func (f Format) TileBytes() int { return formats[f].bytes }

func (f Format) String() string {
	if known, ok := formats[f]; ok {
		return known.name
	}
	return fmt.Sprintf("format %d", uint8(f))
}

// ParseFormat returns the format of a name.
func ParseFormat(name string) (Format, error) {
	for f, known := range formats {
		if known.name == name {
			return f, nil
		}
	}
	return 0, fmt.Errorf("kernels: no format %q: want fp32, fp16, bf16, bfp8, bfp4, bfp2, int32, uint16 or int8", name)
}

// Fidelity is the number of phases of a product. Each phase takes as long, and adds bits of the
// operands.
type Fidelity uint8

// Fidelities.
const (
	HiFi4 Fidelity = iota // all bits
	HiFi3
	HiFi2
	LoFi
)

// A ComputeSource is a kernel for the Tensix engines: one C++ file that includes headers of
// api/compute and defines kernel_main (or MAIN in a namespace NAMESPACE, as earlier examples of
// tt-metal).
type ComputeSource struct {
	// Source's Processors are not used.
	Source
	// Formats are those of circular buffers; the default is [BF16].
	Formats map[int]Format
	// Fidelity is that of products.
	Fidelity Fidelity
	// WideDst makes Dst hold data of 32 bits: 4 tiles between acquire and commit instead of 8.
	WideDst bool
	// UnpackToDst are circular buffers of [FP32] that copy_tile moves to a wide Dst with all bits,
	// instead of the 19 of SrcA.
	UnpackToDst []int
}

// A Compute is a kernel for the Tensix engines, in three images.
type Compute struct {
	Unpack *Image // for TRISC0
	Math   *Image // for TRISC1
	Pack   *Image // for TRISC2
}

// Images returns the images of TRISC0, TRISC1 and TRISC2.
func (c *Compute) Images() [3]*Image { return [3]*Image{c.Unpack, c.Math, c.Pack} }

// computeThreads choose a thread, in the order of TRISC0 to TRISC2.
var computeThreads = [3]string{"TRISC_UNPACK", "TRISC_MATH", "TRISC_PACK"}

// CompileCompute is [Compile] for the engines: it compiles the source three times.
func CompileCompute(ctx context.Context, src ComputeSource) (*Compute, error) {
	_, c, err := compileCompute(ctx, src)
	return c, err
}

// CompileComputeELF returns the files of which [Load] makes the images of TRISC0, TRISC1 and
// TRISC2.
func CompileComputeELF(ctx context.Context, src ComputeSource) (files [3][]byte, err error) {
	files, _, err = compileCompute(ctx, src)
	return files, err
}

func compileCompute(ctx context.Context, src ComputeSource) (files [3][]byte, c *Compute, err error) {
	defines, err := src.defines()
	if err != nil {
		return files, nil, err
	}
	var images [3]*Image
	err = src.build(func(b *build) error {
		if err := b.library(ctx); err != nil {
			return err
		}
		for i, thread := range computeThreads {
			if files[i], err = b.link(ctx, strings.ToLower(thread), append(defines, thread)); err != nil {
				return err
			}
			if images[i], err = b.load(files[i], []chip.Processor{chip.TRISC0 + chip.Processor(i)}); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return files, nil, err
	}
	return files, &Compute{Unpack: images[0], Math: images[1], Pack: images[2]}, nil
}

func (s *ComputeSource) defines() ([]string, error) {
	const buffers = 32
	var list [buffers]string
	for i := range list {
		list[i] = strconv.Itoa(int(BF16))
	}
	for cb, f := range s.Formats {
		if cb < 0 || cb >= buffers {
			return nil, s.errorf("the format of circular buffer %d: want 0 to %d", cb, buffers-1)
		}
		if f.TileBytes() == 0 {
			return nil, s.errorf("circular buffer %d: no such format: %v", cb, f)
		}
		list[cb] = strconv.Itoa(int(f))
	}
	var direct uint32
	for _, cb := range s.UnpackToDst {
		if f, ok := s.Formats[cb]; !ok || f != FP32 || !s.WideDst {
			return nil, s.errorf("circular buffer %d can't be unpacked to Dst: want fp32 and a wide Dst", cb)
		}
		direct |= 1 << cb
	}
	fidelity, ok := map[Fidelity]int{HiFi4: 4, HiFi3: 3, HiFi2: 2, LoFi: 0}[s.Fidelity]
	if !ok {
		return nil, s.errorf("fidelity %d: want HiFi4, HiFi3, HiFi2 or LoFi", s.Fidelity)
	}
	wide := "0"
	if s.WideDst {
		wide = "1"
	}
	return []string{
		"CB_FORMATS=" + strings.Join(list[:], ","),
		fmt.Sprintf("CB_UNPACK_TO_DST=%#xu", direct),
		"MATH_FIDELITY=" + strconv.Itoa(fidelity),
		"DST_ACCUM_MODE=" + wide,
	}, nil
}
