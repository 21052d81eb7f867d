package convnet

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
)

// ErrFormat is in errors about bytes that are not a safetensors file of bfloat16 tensors.
var ErrFormat = errors.New("not a safetensors file of BF16 tensors")

// entry describes a tensor in the header of a safetensors file.
type entry struct {
	DType   string `json:"dtype"`
	Shape   []int  `json:"shape"`
	Offsets [2]int `json:"data_offsets"` // in the bytes after the header
}

// headerAlign is the multiple that headers are padded to, with spaces.
const headerAlign = 8

// encodeTensors returns a safetensors file: the size of the header in 8 bytes, the header in JSON, the elements.
func encodeTensors(parts []part) []byte {
	header, data := map[string]entry{}, []byte{}
	for _, p := range parts {
		at := len(data)
		for _, v := range *p.data {
			data = binary.LittleEndian.AppendUint16(data, uint16(v))
		}
		header[p.name] = entry{DType: "BF16", Shape: p.shape, Offsets: [2]int{at, len(data)}}
	}
	text, err := json.Marshal(header) // by name
	if err != nil {
		panic(err) // strings and integers have no errors
	}
	text = append(text, bytes.Repeat([]byte(" "), (headerAlign-len(text)%headerAlign)%headerAlign)...)
	return append(append(binary.LittleEndian.AppendUint64(nil, uint64(len(text))), text...), data...)
}

// decodeTensors returns the tensors of a safetensors file by name.
func decodeTensors(file []byte) (map[string][]BFloat16, error) {
	if len(file) < 8 {
		return nil, fmt.Errorf("%w: %d B", ErrFormat, len(file))
	}
	n, file := binary.LittleEndian.Uint64(file), file[8:]
	if n > uint64(len(file)) {
		return nil, fmt.Errorf("%w: a header of %d B in a file of %d", ErrFormat, n, len(file)+8)
	}
	var header map[string]json.RawMessage
	if err := json.Unmarshal(file[:n], &header); err != nil {
		return nil, fmt.Errorf("%w: header: %w", ErrFormat, err)
	}
	data, out := file[n:], map[string][]BFloat16{}
	for name, text := range header {
		if name == "__metadata__" {
			continue
		}
		var e entry
		if err := json.Unmarshal(text, &e); err != nil {
			return nil, fmt.Errorf("%w: tensor %q: %w", ErrFormat, name, err)
		}
		from, to := e.Offsets[0], e.Offsets[1]
		if e.DType != "BF16" || from < 0 || from > to || to > len(data) || (to-from)%2 != 0 {
			return nil, fmt.Errorf("%w: tensor %q of %s at %d to %d of %d B", ErrFormat, name, e.DType, from, to, len(data))
		}
		for b := data[from:to]; len(b) > 0; b = b[2:] {
			out[name] = append(out[name], BFloat16(binary.LittleEndian.Uint16(b)))
		}
	}
	return out, nil
}
