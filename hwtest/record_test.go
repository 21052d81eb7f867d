package hwtest

import (
	"bytes"
	"compress/flate"
	"encoding/gob"
	"errors"
	"os"
	"sync"
	"testing"

	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/hwtest/internal/tensix"
	"github.com/reprise-tt/reprise/hwtest/target"
)

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

// recorder collects results for vectors/golden.bin.
type recorder struct {
	mu    sync.Mutex
	fresh map[tensix.Key]fresh
}

type fresh struct {
	by            string
	input, result []byte
}

// record notes a result of a device. An emulator's counts only if no other device has given one.
func (r *recorder) record(d *target.Device, a chip.Arch, name string, run int, input, result []byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	k := tensix.Key{Case: name, Run: run, Arch: a}
	by, ok := map[target.Kind]string{target.Simulator: "ttsim", target.Silicon: "a card"}[d.Kind]
	if !ok {
		by = emulator
	}
	if r.fresh == nil {
		r.fresh = map[tensix.Key]fresh{}
	}
	if _, known := r.fresh[k]; ok || !known {
		r.fresh[k] = fresh{by, input, result}
	}
}

// write writes the embedded archive to a file, with results of cases that were recorded in place
// of their older ones, and without those of cases that there are no more.
func (r *recorder) write(t *testing.T, file string) {
	b, err := r.archive(file)
	if err == nil {
		err = os.WriteFile(file, b, 0o644)
	}
	if err != nil {
		t.Error(err)
	}
}

func (r *recorder) archive(file string) ([]byte, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	old, err := tensix.Golden()
	if info, e := os.Stat(file); err != nil && (e != nil || info.Size() > 0) {
		return nil, err
	}
	var list []tensix.Entry
	for _, c := range tensix.Cases() {
		name := c.Name
		for run := range tensix.MaxRuns {
			first := len(list)
			for _, arch := range []chip.Arch{chip.Wormhole, chip.Blackhole} {
				before := old[tensix.Key{Case: name, Run: run, Arch: arch}]
				e := before
				if _, again := r.fresh[tensix.Key{Case: name, Arch: arch}]; again {
					e = nil
				}
				if f, ok := r.fresh[tensix.Key{Case: name, Run: run, Arch: arch}]; ok {
					e = &tensix.Entry{By: f.by}
					if e.Data, err = deflate(f.result, f.input); err != nil {
						return nil, err
					}
					if f.by == emulator && before != nil && bytes.Equal(before.Data, e.Data) {
						e = before // ttsim has said the same
					}
				}
				switch n := len(list) - 1; {
				case e == nil:
				case n >= first && e.By == list[n].By && bytes.Equal(e.Data, list[n].Data):
					list[n].On = append(list[n].On, arch)
				default:
					list = append(list, tensix.Entry{Case: name, Run: run, On: []chip.Arch{arch}, By: e.By, Data: e.Data})
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
