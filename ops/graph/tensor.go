package graph

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
)

// BufferType is a kind of memory, with the numbers that reports have.
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

// String returns the kind's name as TT-NN spells it.
func (t BufferType) String() string {
	if t < numBufferTypes {
		return bufferTypeNames[t]
	}
	return fmt.Sprintf("BufferType(%d)", uint8(t))
}

// short is DRAM or L1: reports know no other in the type of a buffer. What lies in DRAM is DRAM, anything else is L1.
func (t BufferType) short() string {
	if t == DRAM || t == TraceMemory {
		return "DRAM"
	}
	return "L1"
}

// ParseBufferType reads a kind of memory in any form that reports have: its number, its name, or its name behind
// BufferType::. It is false if there is none of that name.
func ParseBufferType(s string) (BufferType, bool) {
	s = strings.TrimPrefix(strings.TrimSpace(s), "BufferType::")
	for i, n := range bufferTypeNames {
		if s == n || s == strconv.Itoa(i) {
			return BufferType(i), true
		}
	}
	return 0, false
}

// BufferLayout says how a buffer's pages are spread.
type BufferLayout uint8

// The layouts, with the numbers of tt_metal/api/tt-metalium/buffer_types.hpp. 1 was a buffer in one bank.
const (
	Interleaved   BufferLayout = 0
	SingleBank    BufferLayout = 1
	HeightSharded BufferLayout = 2
	WidthSharded  BufferLayout = 3
	BlockSharded  BufferLayout = 4
	NDSharded     BufferLayout = 5
)

// String returns the layout's name as TT-NN spells it.
func (l BufferLayout) String() string {
	switch l {
	case Interleaved:
		return "INTERLEAVED"
	case SingleBank:
		return "SINGLE_BANK"
	case HeightSharded:
		return "HEIGHT_SHARDED"
	case WidthSharded:
		return "WIDTH_SHARDED"
	case BlockSharded:
		return "BLOCK_SHARDED"
	}
	return "UNKNOWN"
}

// ParseBufferLayout reads a layout's name. It is false if there is none of that name.
func ParseBufferLayout(s string) (BufferLayout, bool) {
	for l := Interleaved; l < NDSharded; l++ {
		if l.String() == s {
			return l, true
		}
	}
	return 0, false
}

// Buffer is device memory, as a [Recorder] is told of it. Sizes are in bytes.
type Buffer struct {
	ID         uint64 // tells buffers apart for a whole capture; addresses come again
	Device     int
	Type       BufferType
	Layout     BufferLayout
	Size       int64 // over all banks
	PageSize   int64
	Cores      int    // that hold a shard, 0 if it isn't sharded
	Address    uint64 // in each bank
	MaxPerBank int64  // what it takes of the bank with most pages; 0 if unknown
	// Pages says where the pages are, for reports with buffer pages. Nil if that isn't known.
	Pages func() []Page
}

// Tensor is a tensor, as a [Recorder] is told of it.
type Tensor struct {
	ID           uint64
	Shape        []int
	DType        string // DataType::BFLOAT16
	Layout       string // Layout::TILE
	Size         int64  // elements times their size, in bytes
	MemoryConfig string // MemoryConfig(...), for a tensor on a device
	Buffer       *Buffer
	// Devices are the addresses of its parts, for a tensor on several devices.
	Devices []DeviceTensor
}

// DeviceTensor is a tensor's part on a device.
type DeviceTensor struct {
	Address uint64 `json:"address"`
	Device  int    `json:"device_id"`
	// MeshDevice is the device's number in the mesh; it counts when both are there.
	MeshDevice *int `json:"mesh_device_id,omitempty"`
}

// CircularBuffer is L1 memory for one program's tiles on some cores.
type CircularBuffer struct {
	Device            int
	Size              int64  // bytes on each of its cores
	Address           uint64 // on each core
	Cores             []CoreRange
	GloballyAllocated bool // it lies in a buffer, and takes no memory of its own
}

// CoreRange is a rectangle of cores, both corners included.
type CoreRange struct{ X0, Y0, X1, Y1 int }

// shapeText spells a shape as an era does.
func shapeText(era Era, shape []int) string {
	s := make([]string, len(shape))
	for i, n := range shape {
		s[i] = strconv.Itoa(n)
	}
	t := "Shape([" + strings.Join(s, ", ") + "])"
	if era == EraA {
		return "ttnn." + t
	}
	return t
}

// coresText spells rectangles of cores as an era does.
func coresText(era Era, cores []CoreRange) string {
	s := make([]string, len(cores))
	for i, c := range cores {
		if era == EraA {
			s[i] = fmt.Sprintf("[(x=%d,y=%d) - (x=%d,y=%d)]", c.X0, c.Y0, c.X1, c.Y1)
		} else {
			s[i] = fmt.Sprintf("[%d-%d - %d-%d]", c.X0, c.Y0, c.X1, c.Y1)
		}
	}
	return "{" + strings.Join(s, ", ") + "}"
}

// FormatCores spells a set of cores as {[0-0 - 7-7]}, the form of [EraB] and [EraC]. [ParseCores] reads it.
func FormatCores(cores []CoreRange) string { return coresText(EraC, cores) }

func boolText(era Era, b bool) string {
	switch {
	case era == EraA:
		return strconv.FormatBool(b)
	case b:
		return "1"
	}
	return "0"
}

// params are those of the tensor's node.
func (t *Tensor) params(era Era) Params {
	p := Params{ParamShape: shapeText(era, t.Shape)}
	if era == EraA {
		return p
	}
	p[ParamTensorID] = strconv.FormatUint(t.ID, 10)
	p[ParamDType], p[ParamLayout] = t.DType, t.Layout
	if era >= EraC {
		p[ParamSize] = strconv.FormatInt(t.Size, 10)
	}
	if b := t.Buffer; b != nil {
		p[ParamMemoryConfig] = t.MemoryConfig
		p[ParamDeviceID] = strconv.Itoa(b.Device)
		p[ParamAddress] = strconv.FormatUint(b.Address, 10)
		p[ParamBufferType] = "BufferType::" + b.Type.String()
		if era >= EraC {
			p[ParamBufferTypeValue] = strconv.Itoa(int(b.Type))
		}
	}
	if len(t.Devices) > 0 {
		d, err := json.Marshal(t.Devices)
		if err == nil { // numbers always encode
			p[ParamDeviceTensors] = string(d)
		}
	}
	return p
}

// params are those of the buffer's node and of the events about it.
func (b *Buffer) params(era Era, t NodeType) Params {
	p := Params{ParamSize: strconv.FormatInt(b.Size, 10), ParamType: b.Type.short(), ParamLayout: b.Layout.String()}
	switch {
	case t == BufferAllocate || era >= EraC && t == BufferDeallocate:
		p[ParamAddress] = strconv.FormatUint(b.Address, 10)
	case era == EraA && t == BufferDeallocate:
		p[ParamSize] = "0"
	}
	if era == EraA {
		return p
	}
	p[ParamDeviceID] = strconv.Itoa(b.Device)
	if t != BufferNode {
		p[ParamPageSize], p[ParamNumCores] = strconv.FormatInt(b.PageSize, 10), strconv.Itoa(b.Cores)
	}
	if era >= EraC {
		p[ParamExactBufferType], p[ParamBufferTypeValue] = b.Type.String(), strconv.Itoa(int(b.Type))
		if t == BufferAllocate && b.MaxPerBank > 0 {
			p[ParamMaxPerBank] = strconv.FormatInt(b.MaxPerBank, 10)
		}
	}
	return p
}
