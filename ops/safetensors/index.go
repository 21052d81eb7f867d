package safetensors

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"path/filepath"
	"slices"
)

// magics are the first bytes of files that are taken for safetensors files.
var magics = []struct{ start, what string }{
	{"PK\x03\x04", "a ZIP file, as PyTorch's .bin, .pt and .pth: convert it to safetensors"},
	{"\x80", "a pickle, as PyTorch's .bin, .pt and .pth: convert it to safetensors"},
	{"version https://git-lfs", "a Git LFS pointer instead of the file: run git lfs pull"},
	{"<", "an HTML or XML page: the download got a page instead of the file"},
	{"GGUF", "a GGUF file: get the model in safetensors"},
	{"{", "JSON: an index of shards has a weight_map and is for Open, which finds the shards beside it"},
}

// describe says what a file is instead, or nothing.
func describe(start []byte) string {
	for _, m := range magics {
		if bytes.HasPrefix(bytes.TrimLeft(start, "\xEF\xBB\xBF \t\r\n"), []byte(m.start)) {
			return "it is " + m.what + "; "
		}
	}
	return ""
}

// readIndex reads the index of a sharded model, or returns nil for any other file.
func readIndex(r io.ReaderAt, size int64) (shards map[string]string, metadata map[string]string) {
	start := make([]byte, 8)
	if n, _ := r.ReadAt(start, 0); n < len(start) || start[7] == 0 || size > maxHeader {
		return nil, nil
	}
	text := make([]byte, size)
	var index struct {
		Metadata map[string]any    `json:"metadata"`
		Shards   map[string]string `json:"weight_map"`
	}
	if n, _ := r.ReadAt(text, 0); n < len(text) || json.Unmarshal(text, &index) != nil {
		return nil, nil
	}
	metadata = map[string]string{}
	for k, v := range index.Metadata {
		metadata[k] = fmt.Sprint(v)
	}
	return index.Shards, metadata
}

// openShards opens the files of an index in a folder.
func openShards(folder string, shards, metadata map[string]string) (out *File, err error) {
	files := map[string]*File{}
	closeAll := func() (err error) {
		for _, f := range files {
			err = errors.Join(err, f.close())
		}
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, closeAll())
		}
	}()
	out = &File{shards: map[string]*File{}, metadata: metadata, close: closeAll}
	for _, tensor := range slices.Sorted(maps.Keys(shards)) {
		name := shards[tensor]
		f, ok := files[name]
		switch {
		case !filepath.IsLocal(name):
			return nil, invalid(tensor, "the index has it in %q: want a file beside the index", name)
		case !ok:
			if f, err = openOne(filepath.Join(folder, name)); err != nil {
				return nil, fmt.Errorf("shard with tensor %q: %w", tensor, err)
			}
			files[name] = f
		}
		i, ok := f.byName[tensor]
		if !ok {
			return nil, invalid(tensor, "the index has it in %q, which doesn't have it", name)
		}
		out.shards[tensor] = f
		out.tensors = append(out.tensors, f.tensors[i])
	}
	return out, nil
}
