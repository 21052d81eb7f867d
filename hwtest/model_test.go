package hwtest

import (
	"bytes"
	"flag"
	"fmt"
	"strconv"

	"pgregory.net/rapid"

	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/chip"
)

func modelCases() []testCase {
	return []testCase{
		{name: "buffers against a model", protects: "any series of writes, reads, allocations and releases leaves what a plain model says", fn: buffersModel},
		{name: "everything against a model", protects: "runs, replays, captures, releases, writes and reads in any order do what a plain list of them says", fn: everythingModel},
	}
}

// checks runs a property so many times.
func (t *T) checks(n int, prop func(*rapid.T)) {
	t.Helper()
	f := flag.Lookup("rapid.checks")
	old := f.Value.String()
	t.ok(f.Value.Set(strconv.Itoa(n)))
	defer func() { t.ok(f.Value.Set(old)) }()
	rapid.Check(t.T, prop)
}

// steps is how many times a property is tried.
func (t *T) steps() int { return t.size(t.more(12, 1000), t.more(2, 20)) }

// must ends a property on an error.
func must(r *rapid.T, err error) {
	if err != nil {
		r.Fatal(err)
	}
}

// fresh opens a device of its own for one try of a property, since a try that fails may leave it hanging.
func (t *T) fresh(r *rapid.T) (*T, func()) {
	d, err := reprise.Open(t.ctx, t.device.open(), reprise.WithHangTimeout(t.patience()))
	must(r, err)
	u := *t
	u.useDevice(d)
	return &u, func() { must(r, d.Close()) }
}

// modelBuffer is a buffer and what it holds.
type modelBuffer struct {
	b    *reprise.Buffer
	data []byte
}

func drawBuffer(r *rapid.T, t *T) *modelBuffer {
	size := rapid.SampledFrom([]int{1, 16, 32, 48, 64, 100, 1000, 2048, 4096, 5000, 65536}).Draw(r, "page")
	n := rapid.IntRange(1, max(1, min(300, 400_000/size))).Draw(r, "pages")
	kind := rapid.SampledFrom([]reprise.Kind{reprise.DRAM, reprise.L1}).Draw(r, "kind")
	b, err := t.dev.NewBuffer(reprise.BufferConfig{Kind: kind, Size: size * n, PageSize: size, Name: "model"})
	must(r, err)
	m := &modelBuffer{b: b, data: make([]byte, size*n)}
	must(r, t.rq.Write(t.ctx, b, 0, m.data))
	return m
}

// part draws a range of pages, in bytes.
func (m *modelBuffer) part(r *rapid.T) (off, n int) {
	pages := m.b.Size() / m.b.PageSize()
	first := rapid.IntRange(0, pages-1).Draw(r, "first page")
	count := rapid.IntRange(1, pages-first).Draw(r, "pages")
	return first * m.b.PageSize(), count * m.b.PageSize()
}

func (m *modelBuffer) write(r *rapid.T, t *T) {
	off, n := m.part(r)
	data := pattern(rapid.Uint32().Draw(r, "data"), n)
	must(r, t.rq.Write(t.ctx, m.b, off, data))
	copy(m.data[off:], data)
}

func (m *modelBuffer) read(r *rapid.T, t *T) {
	off, n := m.part(r)
	got := make([]byte, n)
	must(r, t.rq.Read(t.ctx, m.b, off, got))
	if d := difference(m.data[off:off+n], got); d != "" {
		r.Fatalf("%d B at %d of a buffer with pages of %d: %s", n, off, m.b.PageSize(), d)
	}
}

func buffersModel(t *T) {
	t.checks(t.steps(), func(r *rapid.T) {
		t, done := t.fresh(r)
		defer done()
		var live []*modelBuffer
		pick := func() *modelBuffer { return live[rapid.IntRange(0, len(live)-1).Draw(r, "buffer")] }
		r.Repeat(map[string]func(*rapid.T){
			"new": func(r *rapid.T) {
				if len(live) < 12 {
					live = append(live, drawBuffer(r, t))
				}
			},
			"free": func(r *rapid.T) {
				if len(live) > 0 {
					i := rapid.IntRange(0, len(live)-1).Draw(r, "buffer")
					must(r, live[i].b.Free())
					live = append(live[:i], live[i+1:]...)
				}
			},
			"write": func(r *rapid.T) {
				if len(live) > 0 {
					pick().write(r, t)
				}
			},
			"read": func(r *rapid.T) {
				if len(live) > 0 {
					pick().read(r, t)
				}
			},
		})
	})
}

func everythingModel(t *T) {
	t.checks(t.steps(), func(r *rapid.T) {
		t, done := t.fresh(r)
		defer done()
		// Words of every worker that programs mix their numbers into.
		words, err := t.dev.NewBuffer(reprise.BufferConfig{Kind: reprise.L1, Size: 16 * t.grid().Size(), PageSize: 16, Name: "words"})
		must(r, err)
		must(r, t.rq.Write(t.ctx, words, 0, make([]byte, words.Size())))
		want := make([]uint32, t.grid().Size())
		side := drawBuffer(r, t)

		type program struct {
			x      *reprise.Executable
			number uint32
			on     reprise.Range
		}
		var programs []program
		mix := func(p program) {
			for c := range p.on.Cores() {
				i := t.workerIndex(c)
				want[i] = mixed(want[i], p.number, i)
			}
		}
		g := t.grid()
		for i := range 4 {
			at := chip.Core{X: rapid.IntRange(0, g.End.X).Draw(r, "x"), Y: rapid.IntRange(0, g.End.Y).Draw(r, "y")}
			on := reprise.Range{Start: at, End: chip.Core{X: rapid.IntRange(at.X, g.End.X).Draw(r, "to x"), Y: rapid.IntRange(at.Y, g.End.Y).Draw(r, "to y")}}
			size := rapid.SampledFrom([]int{0, 4096, 20_000, 60_000}).Draw(r, "text") &^ 15
			x, err := t.dev.Load(t.ctx, t.mixProgram(fmt.Sprint(i), on, words, uint32(i+1), size))
			must(r, err)
			programs = append(programs, program{x, uint32(i + 1), on})
		}
		type trace struct {
			tr  *reprise.Trace
			seq []program
		}
		var traces []trace
		draw := func(r *rapid.T) program { return programs[rapid.IntRange(0, len(programs)-1).Draw(r, "program")] }
		before := t.allocated()
		r.Repeat(map[string]func(*rapid.T){
			"run": func(r *rapid.T) {
				p := draw(r)
				must(r, t.rq.Run(t.ctx, p.x))
				mix(p)
			},
			"capture": func(r *rapid.T) {
				if len(traces) >= 5 {
					return
				}
				var seq []program
				for range rapid.IntRange(1, 12).Draw(r, "length") {
					seq = append(seq, draw(r))
				}
				tr, err := t.rq.Capture(t.ctx, "model", func(rec *reprise.Recorder) error {
					for _, p := range seq {
						if err := rec.Run(p.x); err != nil {
							return err
						}
					}
					return nil
				})
				must(r, err)
				traces = append(traces, trace{tr, seq})
			},
			"replay": func(r *rapid.T) {
				if len(traces) == 0 {
					return
				}
				tr := traces[rapid.IntRange(0, len(traces)-1).Draw(r, "trace")]
				for range rapid.IntRange(1, 4).Draw(r, "times") {
					must(r, tr.tr.Replay(t.ctx))
					for _, p := range tr.seq {
						mix(p)
					}
				}
			},
			"release": func(r *rapid.T) {
				if len(traces) == 0 {
					return
				}
				i := rapid.IntRange(0, len(traces)-1).Draw(r, "trace")
				must(r, traces[i].tr.Release(t.ctx))
				traces = append(traces[:i], traces[i+1:]...)
			},
			"write":  func(r *rapid.T) { side.write(r, t) },
			"read":   func(r *rapid.T) { side.read(r, t) },
			"finish": func(r *rapid.T) { must(r, t.rq.Finish(t.ctx)) },
			"words": func(r *rapid.T) {
				got := make([]byte, words.Size())
				must(r, t.rq.Read(t.ctx, words, 0, got))
				var all bytes.Buffer
				for _, v := range want {
					all.Write([]byte{byte(v), byte(v >> 8), byte(v >> 16), byte(v >> 24)})
					all.Write(make([]byte, 12))
				}
				if d := difference(all.Bytes(), got); d != "" {
					r.Fatalf("words of the workers: %s", d)
				}
			},
		})
		for _, tr := range traces {
			must(r, tr.tr.Release(t.ctx))
		}
		if after := t.allocated(); after != before {
			r.Fatalf("allocated before %v, after %v", before, after)
		}
	})
}
