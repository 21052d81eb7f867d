package graph

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"time"
)

// Version is the version of the report format. It is 1 in all eras.
const Version = 1

// Report is a graph with what belongs to it, as one file holds it.
type Report struct {
	Version           int
	Graph             *Graph
	Devices           []Device
	Metadata          Metadata
	ClusterDescriptor string // YAML, or empty
	MeshMapping       string // YAML of which chip is where in the mesh, or empty
	BufferPages       []Page // of the L1 buffers at the end of the capture
	// OperationBuffers are the buffers that live after each function of level 1, by the counter of its start.
	OperationBuffers map[int][]OperationBuffer
	// PagesByAddress are where pages were after each allocation at an address.
	PagesByAddress map[uint64][]PageVersion
	// Python is what TT-NN's Python layer knows about the operations.
	Python []PythonRecord
}

// Metadata says when a capture was.
type Metadata struct {
	Captured time.Time     // its start
	Total    time.Duration // 0 while it goes on
	// More is what newer writers add (rank, revision of the sources), each value as text.
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
}

// Derive fills in the sums that follow from a device's grid, L1 banks and first circular buffer, as reports.cpp does.
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

// Page is where a page of a buffer is. Sizes and addresses are in bytes.
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

// PageVersion is where the pages of the buffer were that an allocation made.
type PageVersion struct {
	Allocation int    `json:"alloc_counter"` // the allocation's node
	Pages      []Page `json:"pages"`
}

// OperationBuffer is a buffer that lives after an operation.
type OperationBuffer struct {
	Device     int    `json:"device_id"`
	Address    uint64 `json:"address"`
	MaxPerBank int64  `json:"max_size_per_bank"`
	Type       int    `json:"buffer_type"`
	Layout     int    `json:"buffer_layout"`
}

// PythonRecord is what TT-NN's Python layer knows about an operation.
type PythonRecord struct {
	Name       string            `json:"name"`
	Arguments  map[string]string `json:"arguments"`
	Inputs     []int64           `json:"input_tensor_ids"`
	Outputs    []int64           `json:"output_tensor_ids"`
	StackTrace []string          `json:"python_stack_trace"`
}

// Limits bound what [Decode] takes in. A zero field stands for its default.
type Limits struct {
	Bytes int64 // of the file; 1 GiB
	Nodes int   // of the graph; 10 million
}

func (l Limits) or() Limits {
	if l.Bytes <= 0 {
		l.Bytes = 1 << 30
	}
	if l.Nodes <= 0 {
		l.Nodes = 10_000_000
	}
	return l
}

// wireReport is a report in a file, its graph aside.
type wireReport struct {
	PagesByAddress    map[string][]PageVersion     `json:"buffer_pages_by_address,omitempty"`
	BufferPages       []Page                       `json:"buffer_pages,omitempty"`
	ClusterDescriptor string                       `json:"cluster_descriptor,omitempty"`
	Devices           []Device                     `json:"devices"`
	Graph             *Graph                       `json:"graph"`
	MeshMapping       string                       `json:"mesh_coordinate_mapping,omitempty"`
	Metadata          map[string]any               `json:"metadata"`
	OperationBuffers  map[string][]OperationBuffer `json:"per_operation_buffers,omitempty"`
	Python            []PythonRecord               `json:"python_io,omitempty"`
	Version           int                          `json:"version"`
}

// Encode writes the report as JSON with an indent of 2, as upstream's files have.
func (r *Report) Encode(w io.Writer) error {
	g := r.Graph
	if g == nil {
		g = &Graph{Era: EraC}
	}
	out := wireReport{BufferPages: r.BufferPages, ClusterDescriptor: r.ClusterDescriptor, Devices: list(r.Devices), Graph: g, MeshMapping: r.MeshMapping,
		Metadata: map[string]any{}, Python: r.Python, Version: r.Version}
	for k, v := range r.Metadata.More {
		out.Metadata[k] = v
	}
	if !r.Metadata.Captured.IsZero() {
		out.Metadata[metaCaptured] = r.Metadata.Captured.UnixNano()
	}
	if r.Metadata.Total > 0 {
		out.Metadata[metaTotal] = r.Metadata.Total.Nanoseconds()
	}
	if r.OperationBuffers != nil {
		out.OperationBuffers = map[string][]OperationBuffer{}
		for c, b := range r.OperationBuffers {
			out.OperationBuffers[strconv.Itoa(c)] = list(b)
		}
	}
	if r.PagesByAddress != nil {
		out.PagesByAddress = map[string][]PageVersion{}
		for a, v := range r.PagesByAddress {
			out.PagesByAddress[strconv.FormatUint(a, 10)] = v
		}
	}
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	if err := e.Encode(out); err != nil {
		return fmt.Errorf("graph: encode: %w", err)
	}
	return nil
}

// Keys of the metadata.
const (
	metaCaptured = "capture_timestamp_ns"
	metaTotal    = "total_duration_ns"
)

// Decode reads a report of any era: a report file, or the array of nodes alone. Errors are [*FormatError], or wrap
// [ErrVersion] or [ErrTooLarge].
func Decode(r io.Reader, lim Limits) (*Report, error) {
	lim = lim.or()
	b, err := io.ReadAll(io.LimitReader(r, lim.Bytes+1))
	if err != nil {
		return nil, fmt.Errorf("graph: decode: %w", err)
	}
	if int64(len(b)) > lim.Bytes {
		return nil, fmt.Errorf("graph: decode: %w: more than %d B", ErrTooLarge, lim.Bytes)
	}
	b = bytes.TrimLeft(b, " \t\r\n")
	if len(b) > 0 && b[0] == '[' {
		d := json.NewDecoder(bytes.NewReader(b))
		g, err := decodeNodes(d, lim)
		if err != nil {
			return nil, err
		}
		if _, err := d.Token(); !errors.Is(err, io.EOF) {
			return nil, &FormatError{Node: -1, Field: "graph", Want: "nothing behind the array", Err: err}
		}
		return &Report{Version: Version, Graph: g}, nil
	}
	var f struct {
		Version           *int                         `json:"version"`
		Graph             json.RawMessage              `json:"graph"`
		Devices           []Device                     `json:"devices"`
		Metadata          map[string]json.RawMessage   `json:"metadata"`
		ClusterDescriptor string                       `json:"cluster_descriptor"`
		MeshMapping       string                       `json:"mesh_coordinate_mapping"`
		BufferPages       []Page                       `json:"buffer_pages"`
		OperationBuffers  map[string][]OperationBuffer `json:"per_operation_buffers"`
		PagesByAddress    map[string][]PageVersion     `json:"buffer_pages_by_address"`
		Python            json.RawMessage              `json:"python_io"`
	}
	if err := json.Unmarshal(b, &f); err != nil {
		return nil, &FormatError{Node: -1, Want: "a report's JSON object", Found: clip(b), Err: err}
	}
	switch {
	case f.Version == nil:
		return nil, &FormatError{Node: -1, Field: "version", Want: strconv.Itoa(Version), Found: "none"}
	case *f.Version != Version:
		return nil, fmt.Errorf("graph: decode: %w: %d, this reads %d", ErrVersion, *f.Version, Version)
	}
	out := &Report{Version: *f.Version, Graph: &Graph{Era: EraA}, Devices: f.Devices, ClusterDescriptor: f.ClusterDescriptor, MeshMapping: f.MeshMapping,
		BufferPages: f.BufferPages}
	if len(f.Graph) > 0 {
		if out.Graph, err = decodeNodes(json.NewDecoder(bytes.NewReader(f.Graph)), lim); err != nil {
			return nil, err
		}
	}
	if out.Python, err = DecodePython(f.Python); err != nil {
		return nil, err
	}
	for k, v := range f.Metadata {
		s, err := text(v)
		if err != nil {
			return nil, &FormatError{Node: -1, Field: "metadata." + k, Want: "a value", Found: clip(v), Err: err}
		}
		n, bad := strconv.ParseInt(s, 10, 64)
		switch {
		case k == metaCaptured && bad == nil:
			out.Metadata.Captured = time.Unix(0, n).UTC()
		case k == metaTotal && bad == nil && n > 0:
			out.Metadata.Total = time.Duration(n)
		default:
			if out.Metadata.More == nil {
				out.Metadata.More = map[string]string{}
			}
			out.Metadata.More[k] = s
		}
	}
	for k, v := range f.OperationBuffers {
		n, err := strconv.Atoi(k)
		if err != nil {
			return nil, &FormatError{Node: -1, Field: "per_operation_buffers", Want: "counters as keys", Found: clip([]byte(k)), Err: err}
		}
		if out.OperationBuffers == nil {
			out.OperationBuffers = map[int][]OperationBuffer{}
		}
		out.OperationBuffers[n] = v
	}
	for k, v := range f.PagesByAddress {
		n, err := strconv.ParseUint(k, 10, 64)
		if err != nil {
			return nil, &FormatError{Node: -1, Field: "buffer_pages_by_address", Want: "addresses as keys", Found: clip([]byte(k)), Err: err}
		}
		if out.PagesByAddress == nil {
			out.PagesByAddress = map[uint64][]PageVersion{}
		}
		slices.SortStableFunc(v, func(a, b PageVersion) int { return cmp.Compare(a.Allocation, b.Allocation) })
		out.PagesByAddress[n] = v
	}
	return out, nil
}

// DecodePython reads the records of TT-NN's Python layer: a JSON array, as a report has it under python_io or in a file of
// its own beside it (NAME.python_io.json). Empty text is no records.
func DecodePython(b []byte) ([]PythonRecord, error) {
	if len(bytes.TrimSpace(b)) == 0 {
		return nil, nil
	}
	var raw []struct {
		PythonRecord
		Arguments map[string]json.RawMessage `json:"arguments"`
	}
	if err := json.Unmarshal(b, &raw); err != nil {
		return nil, &FormatError{Node: -1, Field: "python_io", Want: "an array of records", Found: clip(b), Err: err}
	}
	out := make([]PythonRecord, len(raw))
	for i, r := range raw {
		out[i] = r.PythonRecord
		out[i].Arguments = make(map[string]string, len(r.Arguments))
		for k, v := range r.Arguments {
			s, err := text(v)
			if err != nil {
				return nil, &FormatError{Node: -1, Field: "python_io", Want: "a value for argument " + k, Found: clip(v), Err: err}
			}
			out[i].Arguments[k] = s
		}
	}
	return out, nil
}
