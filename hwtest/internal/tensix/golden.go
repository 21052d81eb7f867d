package tensix

import (
	"bytes"
	"compress/flate"
	_ "embed"
	"encoding/gob"
	"fmt"
	"io"
	"sync"

	"github.com/reprise-tt/reprise/chip"
)

// Key names a result.
type Key struct {
	Case string
	Run  int
	Arch chip.Arch
}

// Entry is a result in the archive: the output, and the loads of each thread. Equal results of both
// architectures are one entry.
type Entry struct {
	Case string
	Run  int
	On   []chip.Arch
	By   string // what the result was recorded from
	Xor  bool   // Data has the exclusive or with the input, in four planes
	Data []byte // deflated; the input is the dictionary
}

//go:embed vectors/golden.bin
var archive []byte

// Golden reads the archive once.
var Golden = sync.OnceValues(func() (map[Key]*Entry, error) {
	m := map[Key]*Entry{}
	var list []Entry
	err := gob.NewDecoder(flate.NewReader(bytes.NewReader(archive))).Decode(&list)
	for i, e := range list {
		for _, a := range e.On {
			m[Key{e.Case, e.Run, a}] = &list[i]
		}
	}
	return m, err
})

// recorded returns a result, and what it was recorded from.
func recorded(k Key, input []byte) (data []byte, by string, err error) {
	g, err := Golden()
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

func (e *Entry) unpack(input []byte) ([]byte, error) {
	if !e.Xor {
		return io.ReadAll(flate.NewReaderDict(bytes.NewReader(e.Data), input))
	}
	p, err := io.ReadAll(flate.NewReader(bytes.NewReader(e.Data)))
	data := make([]byte, len(p))
	for i := range data {
		data[i] = p[i%4*(len(p)/4)+i/4]
	}
	ExclusiveOr(data, input)
	return data, err
}

// ExclusiveOr is how an Entry has its data with the input.
func ExclusiveOr(data, input []byte) {
	for i := range min(len(data), len(input)) {
		data[i] ^= input[i]
	}
}
