package graph

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
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
	Outputs    []int64           `json:"output_tensor_ids,omitzero"` // nil if the operation failed
	StackTrace []string          `json:"python_stack_trace,omitzero"`
	Names      []string          `json:"-"`                        // of the arguments, in order
	Error      *PythonError      `json:"error,omitempty"`          // that ended the operation
	Graph      *Graph            `json:"captured_graph,omitempty"` // of the operation alone, of captures in slow mode
}

// PythonError is an exception.
type PythonError struct {
	Type    string `json:"type"`
	Message string `json:"message"`
}

// MarshalJSON writes all metadata as one object.
func (m Metadata) MarshalJSON() ([]byte, error) {
	out := map[string]any{}
	for k, v := range m.More {
		out[k] = v
		if slices.Contains([]string{"rank", "world_size", "dirty"}, k) && json.Valid([]byte(v)) { // no texts
			out[k] = json.RawMessage(v)
		}
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
	out.Graph = cmp.Or(out.Graph, &Graph{Format: Format2026v2})
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

// ErrArch is in errors about an architecture without standard devices.
var ErrArch = errors.New("unknown architecture")

// standard are devices as TT-NN describes them, by architecture: a Wormhole with 8 by 8 compute
// cores (test_graph_report.py), and a Blackhole p150b (captures under graph_l1_traces).
var standard = map[string]Device{
	"wormhole": {GridX: 8, GridY: 8, ComputeX: 8, ComputeY: 8, WorkerL1Size: 1499136, L1Banks: 64, L1BankSize: 1395424,
		FirstCircularBuffer: 103712,
		DRAMChannels:        12, DRAMSizePerChannel: 1 << 30, Arch: "wormhole_b0"},
	"blackhole": {GridX: 11, GridY: 10, ComputeX: 11, ComputeY: 10, WorkerL1Size: 1572864, L1Banks: 110, L1BankSize: 1461248,
		FirstCircularBuffer: 111616,
		DRAMChannels:        8, DRAMSizePerChannel: 0xFF000000, Arch: "blackhole"},
}

// CheckArch returns an error with [ErrArch] unless [Report.Describe] takes an architecture.
func CheckArch(arch string) error {
	if _, ok := standard[arch]; arch != "" && !ok {
		return fmt.Errorf("graph: %w %q: want one of %v", ErrArch, arch, slices.Sorted(maps.Keys(standard)))
	}
	return nil
}

// Describe adds the devices that the nodes name, of an architecture (wormhole, blackhole, or empty
// for none), to a report without devices, such as a list of nodes alone. Errors wrap [ErrArch].
func (r *Report) Describe(arch string) error {
	if err := CheckArch(arch); err != nil {
		return err
	}
	if arch == "" || len(r.Devices) > 0 {
		return nil
	}
	d := standard[arch]
	d.FirstL1Bank = d.FirstCircularBuffer
	d.Derive()
	ids, _ := r.Graph.DeviceIDs()
	if len(ids) == 0 { // nodes of 2025 name none: their buffers are of device 0
		ids = []int64{0}
	}
	for _, id := range ids {
		d.ID = id
		r.Devices = append(r.Devices, d)
	}
	return nil
}

// defaultCores is a Wormhole's number of cores, TT-NN's default as well.
const defaultCores = 64

// Cores returns how many cores interleaved buffers are spread over: those of the devices' grid, or
// 64 without devices.
func (r *Report) Cores() int {
	var most int64
	for _, d := range r.Devices {
		if d.GridX > 0 && d.GridY > 0 && d.GridX <= maxSide && d.GridY <= maxSide {
			most = max(most, d.GridX*d.GridY)
		}
	}
	return cmp.Or(int(most), defaultCores)
}

// maxSide limits the sides of a grid of cores; chips have smaller ones.
const maxSide = 64

// DeviceIDs returns the numbers of the devices that nodes name, in order. TT-NN's captures of what
// ran have buffers under the number of a mesh and programs under its chip's. So the only device
// with buffers alone and the only one with programs alone are taken as one, as in [PerCore]: second
// maps the first number to the other, and ids leaves the first out.
func (g *Graph) DeviceIDs() (ids []int64, second map[int64]int64) {
	all, programs, buffers := map[int64]bool{}, map[int64]bool{}, map[int64]bool{}
	for _, n := range g.All() {
		id, ok := n.Params.Int(ParamDeviceID)
		if !ok {
			continue
		}
		all[id] = true
		switch n.Type {
		case CircularAllocate, DataflowAllocate, ScratchpadAllocate:
			programs[id] = true
		case BufferAllocate:
			buffers[id] = true
		}
	}
	second = map[int64]int64{}
	if len(programs) == 1 && len(buffers) == 1 {
		chip, mesh := slices.Collect(maps.Keys(programs))[0], slices.Collect(maps.Keys(buffers))[0]
		if mesh != chip {
			second[mesh] = chip
			delete(all, mesh)
		}
	}
	return slices.Sorted(maps.Keys(all)), second
}

// ProgramRun is a program that a device ran, with times from the device.
type ProgramRun struct {
	Function int    `json:"function"` // start of the innermost function that ran it, or that recorded it into the trace; -1 if unknown
	Name     string `json:"program"`  // empty if it isn't known which program of the trace it was
	Device   int64  `json:"device_id"`
	Queue    int    `json:"queue"`
	Cores    int    `json:"num_cores,omitempty"` // that it ran on, if known
	// Trace is the name of the replayed trace, and Replay the number of its replay in this capture,
	// from 1 on; zero outside of replays.
	Trace  string `json:"trace,omitempty"`
	Replay int    `json:"replay,omitempty"`
	// Start and End are cycles of the device's clock: from the end of earlier programs to the end
	// of its kernels. Those of a queue don't overlap.
	Start uint64 `json:"start_cycle"`
	End   uint64 `json:"end_cycle"`
	// HostStart and HostEnd delimit the host's call, since the start of the capture.
	HostStart time.Duration `json:"host_start_ns"`
	HostEnd   time.Duration `json:"host_end_ns"`
}

// Cycles returns how long the program ran.
func (p *ProgramRun) Cycles() uint64 { return p.End - min(p.Start, p.End) }

// ClockMHz returns the frequency of a device's clock; 1,000 if unknown.
func (r *Report) ClockMHz(device int64) float64 {
	if d := r.device(device); d != nil && d.ClockMHz > 0 {
		return d.ClockMHz
	}
	return 1000
}

// DeviceTime is how long a function's programs ran.
type DeviceTime struct {
	Programs int
	Cycles   uint64
	Time     time.Duration // by the clocks of the devices
}

func (t *DeviceTime) add(o DeviceTime) {
	t.Programs += o.Programs
	t.Cycles += o.Cycles
	t.Time += o.Time
}

func (r *Report) timeOf(device int64, cycles uint64) time.Duration {
	return time.Duration(float64(cycles) * 1000 / r.ClockMHz(device))
}

// DeviceTimes returns how long the programs of each function with programs ran, also in functions
// inside, by the counter of the function's start.
func (r *Report) DeviceTimes() map[int]DeviceTime {
	if len(r.Programs) == 0 || r.Graph == nil {
		return nil
	}
	own := map[int]DeviceTime{}
	for _, p := range r.Programs {
		t := own[p.Function]
		t.add(DeviceTime{1, p.Cycles(), r.timeOf(p.Device, p.Cycles())})
		own[p.Function] = t
	}
	calls := r.Graph.Calls()
	sums := make([]DeviceTime, len(calls))
	out := map[int]DeviceTime{}
	for i := len(calls) - 1; i >= 0; i-- {
		c := &calls[i]
		sums[i].add(own[c.Start])
		if sums[i].Programs == 0 {
			continue
		}
		out[c.Start] = sums[i]
		if c.Parent >= 0 {
			sums[c.Parent].add(sums[i])
		}
	}
	return out
}

// Function returns the counter of the start of the innermost open function, or -1 if none is open.
func (r *Recorder) Function() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.open) < 2 {
		return -1
	}
	return r.top().counter
}

// Started returns when the capture began.
func (r *Recorder) Started() time.Time { return r.started }

// SetPrograms sets the programs of the report, in the order of their starts on each queue.
func (r *Recorder) SetPrograms(runs []ProgramRun) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.programs = runs
}

func (r *Report) device(id int64) *Device {
	for i := range r.Devices {
		if r.Devices[i].ID == id {
			return &r.Devices[i]
		}
	}
	return nil
}
