package tensix

import (
	"bytes"
	"compress/flate"
	_ "embed"
	"encoding/gob"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"

	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/hwtest/target"
)

// key names a result.
type key struct {
	Case string
	Run  int
	Arch chip.Arch
}

// entry is a result in the archive: the output, and the loads of each thread. Equal results of both
// architectures are one entry.
type entry struct {
	Case string
	Run  int
	On   []chip.Arch
	By   string // what the result was recorded from
	Xor  bool   // Data has the exclusive or with the input, in four planes
	Data []byte // deflated; the input is the dictionary
}

//go:embed vectors/golden.bin
var archive []byte

var golden = sync.OnceValues(func() (map[key]*entry, error) {
	m := map[key]*entry{}
	var list []entry
	err := gob.NewDecoder(flate.NewReader(bytes.NewReader(archive))).Decode(&list)
	for i, e := range list {
		for _, a := range e.On {
			m[key{e.Case, e.Run, a}] = &list[i]
		}
	}
	return m, err
})

// recorded returns a result, and what it was recorded from.
func recorded(k key, input []byte) (data []byte, by string, err error) {
	g, err := golden()
	if err != nil {
		return nil, "", fmt.Errorf("hwtest: vectors/golden.bin: %w", err)
	}
	e, ok := g[k]
	if !ok {
		return nil, "", fmt.Errorf("hwtest: run %d of this case has no recorded result on %v: record it by -update", k.Run, k.Arch)
	}
	if data, err = e.unpack(input); err != nil {
		return nil, "", fmt.Errorf("hwtest: recorded result of run %d: %w", k.Run, err)
	}
	return data, e.By, nil
}

func (e *entry) unpack(input []byte) ([]byte, error) {
	if !e.Xor {
		return io.ReadAll(flate.NewReaderDict(bytes.NewReader(e.Data), input))
	}
	p, err := io.ReadAll(flate.NewReader(bytes.NewReader(e.Data)))
	data := make([]byte, len(p))
	for i := range data {
		data[i] = p[i%4*(len(p)/4)+i/4]
	}
	exclusiveOr(data, input)
	return data, err
}

func exclusiveOr(data, input []byte) {
	for i := range min(len(data), len(input)) {
		data[i] ^= input[i]
	}
}

func packEntry(data, input []byte) (*entry, error) {
	x := bytes.Clone(data)
	exclusiveOr(x, input)
	planes := make([]byte, 0, len(x))
	for first := range 4 {
		for i := first; i < len(x); i += 4 {
			planes = append(planes, x[i])
		}
	}
	straight, err := deflate(data, input)
	if err != nil {
		return nil, err
	}
	other, err := deflate(planes, nil)
	if len(other) < len(straight) {
		return &entry{Xor: true, Data: other}, err
	}
	return &entry{Data: straight}, err
}

func deflate(data, dictionary []byte) ([]byte, error) {
	var b bytes.Buffer
	w, err := flate.NewWriterDict(&b, flate.BestCompression, dictionary)
	if err != nil {
		return nil, err
	}
	if _, err = w.Write(data); err == nil {
		err = w.Close()
	}
	return b.Bytes(), err
}

const emulator = "the emulator"

// Recorder collects results for vectors/golden.bin.
type Recorder struct {
	mu    sync.Mutex
	fresh map[key]fresh
}

type fresh struct {
	by            string
	input, result []byte
}

// Record notes a result of a device. An emulator's counts only if no other device has given one.
func (r *Recorder) Record(d *target.Device, a chip.Arch, name string, run int, input, result []byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	k := key{name, run, a}
	by, ok := map[target.Kind]string{target.Simulator: "ttsim", target.Silicon: "a card"}[d.Kind]
	if !ok {
		by = emulator
	}
	if r.fresh == nil {
		r.fresh = map[key]fresh{}
	}
	if _, known := r.fresh[k]; ok || !known {
		r.fresh[k] = fresh{by, input, result}
	}
}

// Write writes the embedded archive to a file, with results of cases that were recorded in place
// of their older ones, and without those of cases that there are no more.
func (r *Recorder) Write(t interface{ Error(...any) }, file string) {
	b, err := r.archive()
	if err == nil {
		err = os.WriteFile(file, b, 0o644)
	}
	if err != nil {
		t.Error(err)
	}
}

func (r *Recorder) archive() ([]byte, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	s, err := load()
	if err != nil {
		return nil, err
	}
	old, err := golden()
	if err != nil && len(archive) > 0 {
		return nil, err
	}
	var list []entry
	for _, v := range s.vectors {
		for run := range maxRuns {
			first := len(list)
			for _, arch := range []chip.Arch{chip.Wormhole, chip.Blackhole} {
				before := old[key{v.name, run, arch}]
				e := before
				if _, again := r.fresh[key{v.name, 0, arch}]; again {
					e = nil
				}
				if f, ok := r.fresh[key{v.name, run, arch}]; ok {
					if e, err = packEntry(f.result, f.input); err != nil {
						return nil, err
					}
					if e.By = f.by; f.by == emulator && before != nil && bytes.Equal(before.Data, e.Data) {
						e = before // ttsim has said the same
					}
				}
				switch n := len(list) - 1; {
				case e == nil:
				case n >= first && e.By == list[n].By && e.Xor == list[n].Xor && bytes.Equal(e.Data, list[n].Data):
					list[n].On = append(list[n].On, arch)
				default:
					list = append(list, entry{v.name, run, []chip.Arch{arch}, e.By, e.Xor, e.Data})
				}
			}
		}
	}
	var b bytes.Buffer
	w, err := flate.NewWriter(&b, flate.BestCompression)
	if err == nil {
		err = errors.Join(gob.NewEncoder(w).Encode(list), w.Close())
	}
	return b.Bytes(), err
}
