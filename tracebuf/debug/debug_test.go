package debug_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/dispatch/cq"
	"github.com/reprise-tt/reprise/tracebuf"
	"github.com/reprise-tt/reprise/tracebuf/debug"
)

// machine is queues without a device: a program adds its number to a byte of its own. In a replay,
// program wrong does something else.
type machine struct {
	t     *testing.T
	parts []debug.Part
	wrong string
	mem   []byte
	ran   []string // since it was last cleared, in order
	sent  []int    // by part: programs sent by Send
	heads int
	free  int // pieces that were placed and not freed
}

// newMachine makes a trace with programs on two queues: the programs of queue 1 wait for the first
// of queue 0.
func newMachine(t *testing.T, first, second int) *machine {
	m := &machine{t: t, mem: make([]byte, first+second), sent: make([]int, 2)}
	n := 0
	record := func(queue, programs int, edges func(*tracebuf.Recording, int)) {
		rec := tracebuf.NewRecording(cq.Layout(chip.Blackhole))
		for i := range programs {
			edges(rec, i)
			number := n
			rec.Add(fmt.Sprint(number), i, func(dst []byte) ([]byte, uint8) { return append(dst, make([]byte, 64)...), 0 })
			n++
		}
		edges(rec, programs)
		im, err := rec.Finish(8)
		if err != nil {
			t.Fatal(err)
		}
		m.parts = append(m.parts, debug.Part{Queue: queue, Image: im, Banks: 8})
	}
	record(0, first, func(rec *tracebuf.Recording, i int) {
		if i == 1 {
			rec.AddEdge("record", tracebuf.Edge{Kind: tracebuf.EdgeRecord, Number: 1}, make([]byte, 64))
		}
	})
	if second > 0 {
		record(1, second, func(rec *tracebuf.Recording, i int) {
			if i == 0 {
				rec.AddEdge("wait", tracebuf.Edge{Kind: tracebuf.EdgeWait, Queue: 0, Number: 1}, make([]byte, 64))
			}
		})
	}
	return m
}

func (m *machine) run(name string, replayed bool) {
	var n int
	_, err := fmt.Sscan(name, &n)
	if err != nil {
		m.t.Fatal(err)
	}
	m.ran = append(m.ran, name)
	m.mem[n] += byte(n + 1)
	if replayed && name == m.wrong {
		m.mem[n] += 100
	}
}

func (m *machine) Name() string        { return "fake" }
func (m *machine) Parts() []debug.Part { return m.parts }
func (m *machine) Exclusive(_ context.Context, _ string, f func(debug.Session) error) error {
	m.sent, m.heads = make([]int, len(m.parts)), 0
	return f(m)
}
func (m *machine) Inside(context.Context, string, func(debug.Memory) error) error { return nil }
func (m *machine) LogControl(int, int) (debug.ControlLog, error)                  { return nil, errors.ErrUnsupported }
func (m *machine) Restarted() error                                               { return nil }
func (m *machine) Commands(part int) []byte                                       { return m.parts[part].Image.Bytes }
func (m *machine) Wait(context.Context, int) error                                { return nil }
func (m *machine) Recover(context.Context) error                                  { return nil }
func (m *machine) Hangs(error) bool                                               { return false }
func (m *machine) Word(context.Context, int, int) (uint32, error)                 { return 0, nil }
func (m *machine) Verify(context.Context, int) error                              { return nil }
func (m *machine) Buffers() []debug.Buffer                                        { return []debug.Buffer{m} }
func (m *machine) Size() int                                                      { return len(m.mem) }
func (m *machine) Read(_ context.Context, dst []byte) error                       { copy(dst, m.mem); return nil }
func (m *machine) Write(_ context.Context, p []byte) error                        { copy(m.mem, p); return nil }

func (m *machine) Head(context.Context, int) error { m.heads++; return nil }

func (m *machine) Replay(context.Context) error {
	for _, p := range debug.New(m).Programs() {
		m.run(p.Name, true)
	}
	return nil
}

func (m *machine) Send(_ context.Context, part int, name string, commands []byte, programs int) error {
	if m.sent[part]++; programs != m.sent[part] || len(commands) == 0 {
		m.t.Errorf("%s is sent as program %d of part %d, after %d", name, programs, part, m.sent[part]-1)
	}
	var step int
	if _, err := fmt.Sscanf(name, "step %d", &step); err != nil {
		m.t.Error(err)
	}
	m.run(debug.New(m).Programs()[step].Name, false)
	return nil
}

func (m *machine) Run(_ context.Context, part, step int) error {
	m.run(m.parts[part].Image.Steps[step].Name, false)
	return nil
}

func (m *machine) Edge(_ int, _ []uint32, e tracebuf.Edge, _ int) ([]byte, error) {
	if e.Kind == tracebuf.EdgeWait && e.Number != 1 {
		m.t.Errorf("a piece waits for recording %d of the piece", e.Number)
	}
	return make([]byte, 64), nil
}

func (m *machine) Stamp(context.Context, int) (func() (uint64, bool), error) {
	at := uint64(len(m.ran))
	return func() (uint64, bool) { return at, true }, nil
}

type placed struct {
	m      *machine
	pieces []debug.Piece
}

func (m *machine) Place(_ context.Context, pieces []debug.Piece) (debug.Placed, error) {
	m.free++
	return &placed{m, pieces}, nil
}

func (p *placed) Release(context.Context) error { p.m.free--; return nil }

func (p *placed) Run(context.Context) error {
	for _, piece := range p.pieces {
		n := 0
		for _, s := range piece.Image.Steps {
			if s.Program != tracebuf.NoProgram {
				p.m.run(s.Name, true)
				n++
			}
		}
		if piece.After-piece.Before != n {
			p.m.t.Errorf("a piece of %d programs goes from %d to %d", n, piece.Before, piece.After)
		}
	}
	return nil
}

func names(ps []debug.Program) []string {
	var out []string
	for _, p := range ps {
		out = append(out, p.Name)
	}
	return out
}

// However a trace is run, every program runs once: step by step in the order of Programs, and in
// pieces piece after piece.
func TestEveryProgramRunsOnce(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		m := newMachine(t, rapid.IntRange(1, 12).Draw(r, "first"), rapid.IntRange(0, 12).Draw(r, "second"))
		d := debug.New(m)
		want := names(d.Programs())
		if err := d.Step(t.Context(), nil); err != nil {
			r.Fatal(err)
		}
		if diff := cmp.Diff(want, m.ran); diff != "" || m.heads != len(m.parts) {
			r.Fatalf("step by step, after %d heads (-want +got):\n%s", m.heads, diff)
		}
		m.ran = nil
		pieces, next := rapid.IntRange(1, len(want)).Draw(r, "pieces"), 0
		err := d.Split(t.Context(), pieces, func(first, end int) error {
			got := slices.Sorted(slices.Values(m.ran[first:]))
			if all := slices.Sorted(slices.Values(want[first:end])); first != next || !slices.Equal(got, all) {
				r.Errorf("the piece from %d to %d ran %v, want %v", first, end, got, all)
			}
			next = end
			return nil
		})
		if err != nil || next != len(want) || m.free != 0 {
			r.Fatalf("%d pieces up to %d: %v, %d not freed", pieces, next, err, m.free)
		}
	})
}

// The program that goes wrong in a replay is found, whichever it is, and buffers hold afterwards
// what they held before.
func TestWrongProgramIsFound(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		m := newMachine(t, rapid.IntRange(1, 9).Draw(r, "first"), rapid.IntRange(0, 9).Draw(r, "second"))
		for i := range m.mem {
			m.mem[i] = byte(3 * i)
		}
		before := slices.Clone(m.mem)
		d := debug.New(m)
		if err := d.Check(t.Context()); err != nil {
			r.Fatalf("a trace that is right: %v", err)
		}
		programs := d.Programs()
		bad := rapid.IntRange(0, len(programs)-1).Draw(r, "bad")
		m.wrong = programs[bad].Name
		var e *debug.CheckError
		if err := d.Check(t.Context()); !errors.As(err, &e) || e.Step != bad || e.Name != m.wrong || e.Differ != 1 || e.Got-e.Want != 100 {
			r.Fatalf("program %d is wrong: %v", bad, err)
		}
		if !slices.Equal(m.mem, before) || m.free != 0 {
			r.Fatalf("the buffer holds %v, before %v; %d pieces are left", m.mem, before, m.free)
		}
		step, err := d.Bisect(t.Context(), func(int) error { copy(m.mem, before); return nil }, func(n int) (bool, error) {
			return n <= bad, nil
		})
		if err != nil || step != bad || m.free != 0 {
			r.Fatalf("bisect found %d, want %d: %v", step, bad, err)
		}
	})
}

// An error of the caller's function ends the run at that program, by its number and name.
func TestStepErrorNamesTheProgram(t *testing.T) {
	m := newMachine(t, 3, 2)
	d, enough := debug.New(m), errors.New("enough")
	err := d.Step(t.Context(), func(i int) error {
		if i == 3 {
			return enough
		}
		return nil
	})
	var at *debug.StepError
	if !errors.Is(err, enough) || !errors.As(err, &at) || at.First != 3 || at.Last != 3 || at.Name != d.Programs()[3].Name || len(m.ran) != 4 {
		t.Errorf("%v after %v", err, m.ran)
	}
	if err := d.Split(t.Context(), 6, nil); err == nil {
		t.Error("six pieces of five programs")
	}
}

// Times are those between the stamps of a queue.
func TestTimes(t *testing.T) {
	m := newMachine(t, 2, 2)
	got, err := debug.New(m).Times(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for i, p := range debug.New(m).Programs() {
		if got[i].Queue != p.Queue || got[i].Name != p.Name || got[i].End != uint64(i+1) || got[i].Start >= got[i].End {
			t.Errorf("program %d: %+v", i, got[i])
		}
	}
}

// A region that differs is described by its first byte.
func TestCompare(t *testing.T) {
	read := func(data string) func(context.Context, []byte) error {
		return func(_ context.Context, dst []byte) error { copy(dst, data); return nil }
	}
	same := debug.Region{What: "the same", Want: []byte("abc"), Read: read("abc")}
	other := debug.Region{What: "the rest", Offset: 16, Want: []byte("abcd"), Read: read("aXcY")}
	if err := debug.Compare(t.Context(), "t", []debug.Region{same}); err != nil {
		t.Error(err)
	}
	var e *debug.VerifyError
	if err := debug.Compare(t.Context(), "t", []debug.Region{same, other}); !errors.As(err, &e) {
		t.Fatal(err)
	}
	if want := (debug.VerifyError{Trace: "t", What: "the rest", Offset: 17, Differ: 2, Size: 4, Want: 'b', Got: 'X'}); *e != want {
		t.Errorf("%+v, want %+v", *e, want)
	}
}
