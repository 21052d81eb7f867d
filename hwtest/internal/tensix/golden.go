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
	data, err = io.ReadAll(flate.NewReaderDict(bytes.NewReader(e.Data), input))
	if err != nil {
		return nil, "", fmt.Errorf("hwtest: recorded result of run %d: %w", k.Run, err)
	}
	return data, e.By, nil
}
