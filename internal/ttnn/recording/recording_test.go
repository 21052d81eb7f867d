package recording_test

import (
	"bytes"
	"encoding/gob"
	"errors"
	"testing"

	"github.com/reprise-tt/reprise/dispatch/cq"
	"github.com/reprise-tt/reprise/internal/devtest"
	"github.com/reprise-tt/reprise/internal/sparse"
	"github.com/reprise-tt/reprise/internal/ttnn/recording"
	"github.com/reprise-tt/reprise/sim/emu"
	"github.com/reprise-tt/reprise/sim/libttsim"
)

func written(t testing.TB, machine string, steps ...libttsim.Step) []byte {
	var b bytes.Buffer
	b.WriteString(libttsim.RecordMagic)
	e := gob.NewEncoder(&b)
	devtest.Must(t, e.Encode(machine))
	for _, s := range steps {
		devtest.Must(t, e.Encode(s))
	}
	return b.Bytes()
}

func step(t testing.TB, commands func(b *cq.Builder)) libttsim.Step {
	b := cq.NewBuilder(cq.Wormhole, nil)
	commands(&b)
	out, err := b.Finish()
	devtest.Must(t, err)
	return libttsim.Step{Fetched: []libttsim.Fetch{{Bus: 0x80, Bytes: out}},
		Track: emu.Track{Read: sparse.Memory{}, Written: sparse.Memory{}}}
}

func write(base uint32, inDRAM bool) func(b *cq.Builder) {
	return func(b *cq.Builder) {
		b.WritePaged(cq.WritePaged{DRAM: inDRAM, Base: base, PageSize: 64, Pages: 2, Data: make([]byte, 128)})
	}
}

func replay(b *cq.Builder) { b.ExecBuf(cq.ExecBuf{Base: 0x100000, LogPageSize: 10, Pages: 1}) }

func TestRefusals(t *testing.T) {
	good := written(t, "n150", step(t, write(0x20000, true)))
	for _, c := range []struct {
		name string
		file []byte
		want error
	}{
		{"another file", []byte("RPRTRACE and so on"), recording.ErrOther},
		{"cut off", good[:len(good)-9], recording.ErrOther},
		{"another machine", written(t, "n151"), libttsim.ErrSettings},
		{"no trace", good, recording.ErrNoTrace},
		{"L1", written(t, "n150", step(t, write(0x20000, false))), recording.ErrIncomplete},
		{"no commands", written(t, "n150", libttsim.Step{Fetched: []libttsim.Fetch{{Bytes: make([]byte, 16)}}}), cq.ErrRevision},
		{"no trace there", written(t, "n150", step(t, replay)), cq.ErrRevision},
	} {
		if _, err := recording.Read(bytes.NewReader(c.file), nil); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", c.name, err, c.want)
		}
	}
}

func FuzzRead(f *testing.F) {
	f.Add(written(f, "n150", step(f, write(0x20000, true)), step(f, replay)))
	f.Add(written(f, "p150", step(f, replay)))
	f.Fuzz(func(_ *testing.T, file []byte) { _, _ = recording.Read(bytes.NewReader(file), nil) })
}
