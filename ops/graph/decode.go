package graph

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"reflect"
	"strconv"
	"time"
)

// Limits bound what [Decode] reads. A zero field stands for its default.
type Limits struct {
	Bytes int64 // of the file; 1 GiB
	Nodes int   // of the graph; 10 million
}

func (l Limits) withDefaults() Limits {
	if l.Bytes <= 0 {
		l.Bytes = 1 << 30
	}
	if l.Nodes <= 0 {
		l.Nodes = 10_000_000
	}
	return l
}

// readReport is a report file of any [Format]. Its fields hide Report's of the same names.
type readReport struct {
	Report
	Version  *int                       `json:"version"`
	Graph    json.RawMessage            `json:"graph"`
	Metadata map[string]json.RawMessage `json:"metadata"`
	Python   json.RawMessage            `json:"python_io"`

	PagesByAddress   map[uint64][]readPages `json:"buffer_pages_by_address"`
	OperationBuffers map[int][]readBuffer   `json:"per_operation_buffers"`
}

// Decode reads a report of any [Format]: a report file, or only the array of nodes. Errors are a
// [*FormatError], or wrap [ErrVersion] or [ErrTooLarge].
func Decode(r io.Reader, lim Limits) (*Report, error) {
	lim = lim.withDefaults()
	b, err := io.ReadAll(io.LimitReader(r, lim.Bytes+1))
	if err != nil {
		return nil, fmt.Errorf("graph: decode: %w", err)
	}
	if int64(len(b)) > lim.Bytes {
		return nil, fmt.Errorf("graph: decode: %w: more than %d B", ErrTooLarge, lim.Bytes)
	}
	report, err := decodeReport(b, lim)
	return report, placed(err, b)
}

func decodeReport(b []byte, lim Limits) (*Report, error) {
	var f readReport
	d := dropped{}
	if text := bytes.TrimLeft(b, " \t\r\n"); len(text) > 0 && text[0] == '[' {
		version := Version
		f.Version, f.Graph = &version, text
	} else if err := json.Unmarshal(b, &f); err != nil {
		return nil, &FormatError{Node: -1, Want: "a report's JSON object", Found: clip(b), Err: err}
	} else {
		d.find("", b, reflect.TypeFor[readReport]())
	}
	switch {
	case f.Version == nil:
		return nil, &FormatError{Node: -1, Field: "version", Want: strconv.Itoa(Version), Found: "none"}
	case *f.Version != Version:
		return nil, fmt.Errorf("graph: decode: %w: %d, this reads %d", ErrVersion, *f.Version, Version)
	}
	out := &f.Report
	out.Version, out.Graph = Version, &Graph{Format: Format2025}
	var err error
	var old []int
	if len(f.Graph) > 0 {
		if out.Graph, old, err = decodeNodes(f.Graph, lim, d); err != nil {
			return nil, err
		}
	}
	if out.Python, err = DecodePython(f.Python); err != nil {
		return nil, err
	}
	d.find("python_io.", f.Python, reflect.TypeFor[[]PythonRecord]())
	out.Metadata = metadata(texts(f.Metadata))
	f.pagesByAddress()
	f.operationBuffers(d)
	if out.renumber(old, d); len(d) > 0 {
		out.Dropped = d
	}
	return out, nil
}

func metadata(fields map[string]string) (m Metadata) {
	for k, s := range fields {
		n, err := strconv.ParseInt(s, 10, 64)
		switch {
		case k == metaCaptured && err == nil:
			m.Captured = time.Unix(0, n).UTC()
		case k == metaTotal && err == nil && n > 0:
			m.Total = time.Duration(n)
		default:
			put(&m.More, k, s)
		}
	}
	return m
}

// DecodePython reads the records of TT-NN's Python layer: a JSON array, as a report has it under
// python_io or in a file beside it (NAME.python_io.json). Empty input gives no records. Errors are
// a [*FormatError].
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
		out[i].Arguments = texts(r.Arguments)
	}
	return out, nil
}
