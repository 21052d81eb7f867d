package graph

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"time"
)

// Version is the version in report files, the same in every [Format].
const Version = 1

// Report is a graph with its devices and memory, as one file holds it.
type Report struct {
	// PagesByAddress are the places of pages after each allocation at an address, in order.
	PagesByAddress    map[uint64][]PageVersion `json:"buffer_pages_by_address,omitempty"`
	BufferPages       []Page                   `json:"buffer_pages,omitempty"`       // of the L1 buffers at the end of the capture
	ClusterDescriptor string                   `json:"cluster_descriptor,omitempty"` // YAML
	Devices           []Device                 `json:"devices"`
	Graph             *Graph                   `json:"graph"`
	MeshMapping       string                   `json:"mesh_coordinate_mapping,omitempty"` // YAML of the chips' places in the mesh
	Metadata          Metadata                 `json:"metadata"`
	// OperationBuffers are the buffers that are allocated after each function of level 1, by the
	// counter of its start.
	OperationBuffers map[int][]OperationBuffer `json:"per_operation_buffers,omitempty"`
	// OperationPages are the places of pages after each such function, of older reports.
	OperationPages map[int][]Page `json:"per_operation_buffer_pages,omitempty"`
	// Dropped counts what the file had and [Decode] doesn't read, by keys such as graph.rank.
	Dropped map[string]int `json:"-"`
	// Programs are the programs that the devices ran, in the order of their starts on each queue.
	// TT-NN's reports have none, and no Zones.
	Programs []ProgramRun   `json:"programs,omitempty"`
	Zones    []Zone         `json:"zones,omitempty"`     // parts of kernels that measured themselves
	Python   []PythonRecord `json:"python_io,omitempty"` // what TT-NN's Python layer recorded about the operations
	Version  int            `json:"version"`
}

// Metadata is the time of a capture.
type Metadata struct {
	Captured time.Time     // start of the capture
	Total    time.Duration // 0 while it goes on
	// More holds what newer writers add, each value as text.
	More map[string]string
}

// Device describes a device. Sizes and addresses are in bytes; see reports.cpp of ttnn/core.
type Device struct {
	ID                  int64  `json:"device_id"`
	GridY               int64  `json:"num_y_cores"`
	GridX               int64  `json:"num_x_cores"`
	ComputeY            int64  `json:"num_y_compute_cores"`
	ComputeX            int64  `json:"num_x_compute_cores"`
	WorkerL1Size        int64  `json:"worker_l1_size"`
	L1Banks             int64  `json:"l1_num_banks"`
	L1BankSize          int64  `json:"l1_bank_size"`
	FirstL1Bank         int64  `json:"address_at_first_l1_bank"`
	FirstCircularBuffer int64  `json:"address_at_first_l1_cb_buffer"`
	BanksPerStorageCore int64  `json:"num_banks_per_storage_core"`
	ComputeCores        int64  `json:"num_compute_cores"`
	StorageCores        int64  `json:"num_storage_cores"`
	TotalL1             int64  `json:"total_l1_memory"`
	TotalL1Tensors      int64  `json:"total_l1_for_tensors"`
	TotalL1Interleaved  int64  `json:"total_l1_for_interleaved_buffers"`
	TotalL1Sharded      int64  `json:"total_l1_for_sharded_buffers"`
	CircularBufferLimit int64  `json:"cb_limit"`
	Arch                string `json:"arch,omitempty"`
	DRAMChannels        int64  `json:"num_dram_channels,omitempty"`
	DRAMSizePerChannel  int64  `json:"dram_size_per_channel,omitempty"`
	// ClockMHz is the clock of programs' times, which TT-NN's reports don't have.
	ClockMHz float64 `json:"clock_mhz,omitempty"`
}

// Derive computes the fields that follow from the grid, the L1 banks and the first circular buffer,
// as reports.cpp does.
func (d *Device) Derive() {
	d.ComputeCores = d.ComputeX * d.ComputeY
	d.BanksPerStorageCore = 0
	if d.L1BankSize > 0 {
		d.BanksPerStorageCore = d.WorkerL1Size / d.L1BankSize
	}
	d.TotalL1 = (d.StorageCores + d.ComputeCores) * d.WorkerL1Size
	d.TotalL1Interleaved = (d.StorageCores + d.ComputeCores + d.BanksPerStorageCore*d.StorageCores) * d.L1BankSize
	d.TotalL1Sharded = d.ComputeCores * d.L1BankSize
	d.CircularBufferLimit = d.WorkerL1Size - d.FirstCircularBuffer
}

// Page is the place of a page of a buffer. Sizes and addresses are in bytes.
type Page struct {
	Device     int64  `json:"device_id"`
	Address    uint64 `json:"address"` // of the buffer
	CoreY      int64  `json:"core_y"`
	CoreX      int64  `json:"core_x"`
	Bank       int64  `json:"bank_id"`
	Index      int64  `json:"page_index"`
	PageAddr   uint64 `json:"page_address"`
	PageSize   int64  `json:"page_size"`
	BufferType int64  `json:"buffer_type"`
}

// PageVersion is the places of the pages of a buffer after its allocation.
type PageVersion struct {
	Allocation int    `json:"alloc_counter"`
	Pages      []Page `json:"pages"`
}

// OperationBuffer is a buffer that is allocated after an operation.
type OperationBuffer struct {
	Device     int    `json:"device_id"`
	Address    uint64 `json:"address"`
	MaxPerBank int64  `json:"max_size_per_bank"`
	Type       int    `json:"buffer_type"`
	Layout     int    `json:"buffer_layout"`
}

// PythonRecord is what TT-NN's Python layer recorded about an operation.
type PythonRecord struct {
	Name       string            `json:"name"`
	Arguments  map[string]string `json:"arguments"`
	Inputs     []int64           `json:"input_tensor_ids"`
	Outputs    []int64           `json:"output_tensor_ids"`
	StackTrace []string          `json:"python_stack_trace"`
}

// MarshalJSON writes all metadata as one object.
func (m Metadata) MarshalJSON() ([]byte, error) {
	out := map[string]any{}
	for k, v := range m.More {
		out[k] = v
	}
	if !m.Captured.IsZero() {
		out[metaCaptured] = m.Captured.UnixNano()
	}
	if m.Total > 0 {
		out[metaTotal] = m.Total.Nanoseconds()
	}
	return encode(out)
}

// encode returns JSON in which texts keep <, > and &.
func encode(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	err := e.Encode(v)
	return b.Bytes(), err
}

// Encode writes the report as JSON, indented by 2 spaces like upstream's files.
func (r *Report) Encode(w io.Writer) error {
	out := *r
	if out.Graph == nil {
		out.Graph = &Graph{Format: Format2026v2}
	}
	out.Devices = list(out.Devices)
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	if err := e.Encode(out); err != nil {
		return fmt.Errorf("graph: encode: %w", err)
	}
	return nil
}

const (
	metaCaptured = "capture_timestamp_ns"
	metaTotal    = "total_duration_ns"
)

// A Zone is a measured section of a kernel on one processor of a core.
type Zone struct {
	Device    int64  `json:"device_id"`
	X         int    `json:"x"` // virtual coordinates of the core, as in the vendor's tools
	Y         int    `json:"y"`
	Processor string `json:"processor"`
	Program   string `json:"program,omitempty"`
	Kernel    string `json:"kernel,omitempty"`
	Name      string `json:"name"`
	File      string `json:"file,omitempty"`
	Line      int    `json:"line,omitempty"`
	Start     uint64 `json:"start_cycle"`
	End       uint64 `json:"end_cycle"`
}
