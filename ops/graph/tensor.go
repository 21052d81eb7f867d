package graph

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// BufferType is a kind of memory, with TT-NN's numbers.
type BufferType uint8

// The kinds of memory.
const (
	DRAM BufferType = iota
	L1
	SystemMemory
	L1Small
	TraceMemory
	numBufferTypes
)

var bufferTypeNames = [numBufferTypes]string{"DRAM", "L1", "SYSTEM_MEMORY", "L1_SMALL", "TRACE"}

func (t BufferType) String() string {
	if t < numBufferTypes {
		return bufferTypeNames[t]
	}
	return fmt.Sprintf("BufferType(%d)", uint8(t))
}

// short returns DRAM or L1, the type of a buffer in a report.
func (t BufferType) short() string {
	if t == DRAM || t == TraceMemory {
		return "DRAM"
	}
	return "L1"
}

// ParseBufferType reads a kind of memory in any form of reports: a number, or a name with or
// without BufferType::.
func ParseBufferType(s string) (BufferType, bool) {
	s = strings.TrimPrefix(strings.TrimSpace(s), "BufferType::")
	for i, n := range bufferTypeNames {
		if s == n || s == num(i) {
			return BufferType(i), true
		}
	}
	return 0, false
}

// BufferLayout is the distribution of a buffer's pages over banks or cores.
type BufferLayout uint8

// The layouts, with the numbers of tt_metal/api/tt-metalium/buffer_types.hpp, which no longer has
// SingleBank.
const (
	Interleaved   BufferLayout = 0
	SingleBank    BufferLayout = 1
	HeightSharded BufferLayout = 2
	WidthSharded  BufferLayout = 3
	BlockSharded  BufferLayout = 4
	NDSharded     BufferLayout = 5
)

func (l BufferLayout) String() string {
	if l < NDSharded {
		return bufferLayoutNames[l]
	}
	return "UNKNOWN"
}

var bufferLayoutNames = [NDSharded]string{"INTERLEAVED", "SINGLE_BANK", "HEIGHT_SHARDED", "WIDTH_SHARDED", "BLOCK_SHARDED"}

// ParseBufferLayout reads a layout's name.
func ParseBufferLayout(s string) (BufferLayout, bool) {
	i := slices.Index(bufferLayoutNames[:], s)
	return BufferLayout(max(i, 0)), i >= 0
}

// Buffer describes device memory to a [Recorder]. Sizes are in bytes.
type Buffer struct {
	ID         uint64 // unique in a capture; addresses are not
	Device     int
	Type       BufferType
	Layout     BufferLayout
	Size       int64 // over all banks
	PageSize   int64
	Cores      int    // that hold a shard, 0 if it isn't sharded
	Address    uint64 // in each bank
	MaxPerBank int64  // size in the bank with most pages; 0 if unknown
	// Pages returns the places of the pages, for reports with buffer pages; nil if unknown.
	Pages func() []Page
}

// Tensor describes a tensor to a [Recorder].
type Tensor struct {
	ID           uint64
	Shape        []int
	DType        string  // such as DataType::BFLOAT16
	Layout       string  // such as Layout::TILE
	Size         int64   // bytes of the elements, without padding
	MemoryConfig string  // MemoryConfig(...); used if Buffer is set
	Buffer       *Buffer // nil for a tensor that has no device memory
	Devices      []DeviceTensor
}

// DeviceTensor is the part of a tensor on one device.
type DeviceTensor struct {
	Address uint64 `json:"address"`
	Device  int    `json:"device_id"`
	// MeshDevice is the device's number in the mesh. It takes precedence over Device.
	MeshDevice *int `json:"mesh_device_id,omitempty"`
}

// CircularBuffer is a circular buffer of one program on some cores.
type CircularBuffer struct {
	Device            int
	Size              int64  // bytes on each of its cores
	Address           uint64 // on each core
	Cores             []CoreRange
	GloballyAllocated bool // it lies in a buffer and takes no memory of its own
}

// ParseShape reads a shape in the form of any [Format], such as Shape([1, 32]); nil for any other
// string.
func ParseShape(s string) []int {
	_, s, began := strings.Cut(s, "Shape([")
	s, _, ended := strings.Cut(s, "]")
	var out []int
	if !began || !ended || json.Unmarshal([]byte("["+s+"]"), &out) != nil {
		return nil
	}
	return out
}

func num[N ~int | ~int64 | ~uint8 | ~uint64](n N) string {
	if n < 0 {
		return strconv.FormatInt(int64(n), 10)
	}
	return strconv.FormatUint(uint64(n), 10)
}

func boolText(format Format, b bool) string {
	switch {
	case format == Format2025:
		return strconv.FormatBool(b)
	case b:
		return "1"
	}
	return "0"
}

func (t *Tensor) params(format Format) Params {
	shape := "Shape([" + joined(t.Shape, ", ") + "])"
	if format == Format2025 {
		return Params{ParamShape: "ttnn." + shape}
	}
	p := Params{ParamShape: shape}
	p[ParamTensorID] = num(t.ID)
	p[ParamDType], p[ParamLayout] = t.DType, t.Layout
	if format >= Format2026v2 {
		p[ParamSize] = num(t.Size)
	}
	if b := t.Buffer; b != nil {
		p[ParamMemoryConfig] = t.MemoryConfig
		p[ParamDeviceID] = num(b.Device)
		p[ParamAddress] = num(b.Address)
		p[ParamBufferType] = "BufferType::" + b.Type.String()
		if format >= Format2026v2 {
			p[ParamBufferTypeValue] = num(b.Type)
		}
	}
	if len(t.Devices) > 0 {
		d, _ := json.Marshal(t.Devices) // numbers always encode
		p[ParamDeviceTensors] = string(d)
	}
	return p
}

func (b *Buffer) params(format Format, t NodeType) Params {
	p := Params{ParamSize: num(b.Size), ParamType: b.Type.short(), ParamLayout: b.Layout.String()}
	switch {
	case t == BufferAllocate || format >= Format2026v2 && t == BufferDeallocate:
		p[ParamAddress] = num(b.Address)
	case format == Format2025 && t == BufferDeallocate:
		p[ParamSize] = "0"
	}
	if format == Format2025 {
		return p
	}
	p[ParamDeviceID] = num(b.Device)
	if t != BufferNode {
		p[ParamPageSize], p[ParamNumCores] = num(b.PageSize), num(b.Cores)
	}
	if format >= Format2026v2 {
		p[ParamExactBufferType], p[ParamBufferTypeValue] = b.Type.String(), num(b.Type)
		if t == BufferAllocate && b.MaxPerBank > 0 {
			p[ParamMaxPerBank] = num(b.MaxPerBank)
		}
	}
	return p
}

// CoreRange is a rectangle of cores, both corners included.
type CoreRange struct{ X0, Y0, X1, Y1 int }

func coresText(f Format, cores []CoreRange) string {
	s := make([]string, len(cores))
	form := "[%d-%d - %d-%d]"
	if f == Format2025 {
		form = "[(x=%d,y=%d) - (x=%d,y=%d)]"
	}
	for i, c := range cores {
		s[i] = fmt.Sprintf(form, c.X0, c.Y0, c.X1, c.Y1)
	}
	return "{" + strings.Join(s, ", ") + "}"
}

// FormatCores returns a set of cores in the form of [Format2026v1] and [Format2026v2], such as
// {[0-0 - 7-7]}. [ParseCores] reads it.
func FormatCores(cores []CoreRange) string { return coresText(Format2026v2, cores) }

const maxRanges = 1024

var coreRange = regexp.MustCompile(`\[\(?(?:x=)?(\d+)(?:,y=|-)(\d+)\)? - \(?(?:x=)?(\d+)(?:,y=|-)(\d+)\)?\]`)

// ParseCores reads a set of cores in the form of any [Format]: {[(x=0,y=0) - (x=0,y=7)]}, {[0-0 -
// 7-7]} or a JSON array of rectangles with start and end; nil for invalid text.
func ParseCores(s string) []CoreRange {
	var out []CoreRange
	if strings.HasPrefix(s, "[") {
		var rects []struct{ Start, End struct{ X, Y int } }
		if json.Unmarshal([]byte(s), &rects) != nil {
			return nil
		}
		for _, r := range rects[:min(len(rects), maxRanges)] {
			out = append(out, CoreRange{r.Start.X, r.Start.Y, r.End.X, r.End.Y})
		}
		return out
	}
	for _, m := range coreRange.FindAllStringSubmatch(s, maxRanges) {
		var r CoreRange
		for i, to := range []*int{&r.X0, &r.Y0, &r.X1, &r.Y1} {
			var err error
			if *to, err = strconv.Atoi(m[i+1]); err != nil {
				return nil
			}
		}
		out = append(out, r)
	}
	return out
}

func joined(numbers []int, separator string) string {
	return strings.ReplaceAll(strings.Trim(fmt.Sprint(numbers), "[]"), " ", separator)
}
