// Package model has the cases that compare a device with a model of it, or with another device.
package model

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/allocator"
	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/hwtest/rig"
	"github.com/reprise-tt/reprise/kernels/metal"
)

// Cases are the cases of layer model.
func Cases() (cs rig.Table) {
	cs.Add("buffers against a model", "any series of buffers' calls leaves what a model says", buffersModel)
	cs.Add("everything against a model", "any order of calls does what a model says", everythingModel)
	return cs
}

func steps(t *rig.T) int { return t.Size(t.More(12, 1000), t.More(2, 20)) }

func must(r rig.Draw, err error) {
	if err != nil {
		r.Fatalf("%v", err)
	}
}

// fresh opens a device for one try, since a try that fails may leave it hanging.
func fresh(t *rig.T, r rig.Draw) (*rig.T, func()) {
	opts := []reprise.Option{reprise.WithHangTimeout(t.Patience())}
	if r.IntRange(0, 3, "stock wire format") == 0 {
		opts = append(opts, reprise.WithStockWireFormat())
	}
	u := t.Unclosed(t.Device.Open(), opts...)
	return u, func() { must(r, u.Dev.Close(t.Context())) }
}

type modelBuffer struct {
	b    *reprise.Buffer
	data []byte
}

func drawBuffer(r rig.Draw, t *rig.T) *modelBuffer {
	size := rig.Sample(r, []int{1, 16, 32, 48, 64, 100, 1000, 2048, 4096, 5000, 65536}, "page")
	n := r.IntRange(1, max(1, min(300, 400_000/size)), "pages")
	kind := rig.Sample(r, []allocator.Kind{allocator.DRAM, allocator.L1}, "kind")
	b, err := t.Dev.NewBuffer(reprise.BufferConfig{Kind: kind, Size: size * n, PageSize: size, Name: "model"})
	must(r, err)
	m := &modelBuffer{b: b, data: make([]byte, size*n)}
	must(r, t.Queue.Write(t.Ctx, b, 0, m.data))
	return m
}

func (m *modelBuffer) part(r rig.Draw) (off, n int) {
	pages := m.b.Size() / m.b.PageSize()
	first := r.IntRange(0, pages-1, "first page")
	count := r.IntRange(1, pages-first, "pages")
	return first * m.b.PageSize(), count * m.b.PageSize()
}

func (m *modelBuffer) write(r rig.Draw, t *rig.T) {
	off, n := m.part(r)
	data := rig.Pattern(r.Uint32("data"), n)
	must(r, t.Queue.Write(t.Ctx, m.b, off, data))
	copy(m.data[off:], data)
}

func (m *modelBuffer) read(r rig.Draw, t *rig.T) {
	off, n := m.part(r)
	got := make([]byte, n)
	must(r, t.Queue.Read(t.Ctx, m.b, off, got))
	if d := rig.Difference(m.data[off:off+n], got); d != "" {
		r.Fatalf("%d B at %d of a buffer with pages of %d: %s", n, off, m.b.PageSize(), d)
	}
}

// with uses one of what there is by its index.
func with[V any](all *[]V, label string, use func(r rig.Draw, i int)) func(rig.Draw) {
	return func(r rig.Draw) {
		if len(*all) > 0 {
			use(r, r.IntRange(0, len(*all)-1, label))
		}
	}
}

func buffersModel(t *rig.T) {
	t.Config.Property(t, steps(t), func(r rig.Draw) {
		t, done := fresh(t, r)
		defer done()
		var live []*modelBuffer
		r.Repeat(map[string]func(rig.Draw){
			"new": func(r rig.Draw) {
				if len(live) < 12 {
					live = append(live, drawBuffer(r, t))
				}
			},
			"free": with(&live, "buffer", func(r rig.Draw, i int) {
				must(r, live[i].b.Release())
				live = slices.Delete(live, i, i+1)
			}),
			"write": with(&live, "buffer", func(r rig.Draw, i int) { live[i].write(r, t) }),
			"read":  with(&live, "buffer", func(r rig.Draw, i int) { live[i].read(r, t) }),
		})
	})
}

func everythingModel(t *rig.T) {
	if t.Config.Firmware.Workers != "" {
		t.Skip(t.Config.Firmware.Skip(metal.ErrNotMetal))
	}
	t.Config.Property(t, steps(t), func(r rig.Draw) {
		t, done := fresh(t, r)
		defer done()
		words, err := t.Dev.NewBuffer(reprise.BufferConfig{Kind: allocator.L1, Size: 16 * t.Grid().Size(), PageSize: 16, Name: "words"})
		must(r, err)
		must(r, t.Queue.Write(t.Ctx, words, 0, make([]byte, words.Size())))
		f := rig.NewMix(t)
		side := drawBuffer(r, t)

		type program struct {
			x      *reprise.Executable
			number uint32
			on     chip.Range
		}
		var programs []program
		g := t.Grid()
		for i := range 4 {
			at := chip.Core{X: r.IntRange(0, g.End.X, "x"), Y: r.IntRange(0, g.End.Y, "y")}
			on := chip.Range{Start: at, End: chip.Core{X: r.IntRange(at.X, g.End.X, "to x"), Y: r.IntRange(at.Y, g.End.Y, "to y")}}
			size := rig.Sample(r, []int{0, 4096, 20_000, 60_000}, "text") &^ 15
			x, err := t.Dev.Load(t.Ctx, t.MixProgram(fmt.Sprint(i), on, words, uint32(i+1), size))
			must(r, err)
			programs = append(programs, program{x, uint32(i + 1), on})
		}
		type trace struct {
			tr  *reprise.Trace
			seq []program
		}
		var traces []trace
		mix := func(seq ...program) {
			for _, p := range seq {
				f.Run(p.number, p.on)
			}
		}
		drawProgram := func(r rig.Draw) program { return rig.Sample(r, programs, "program") }
		before := t.Allocated()
		r.Repeat(map[string]func(rig.Draw){
			"run": func(r rig.Draw) {
				p := drawProgram(r)
				must(r, t.Queue.Run(t.Ctx, p.x))
				mix(p)
			},
			"capture": func(r rig.Draw) {
				if len(traces) >= 5 {
					return
				}
				var seq []program
				for range r.IntRange(1, 12, "length") {
					seq = append(seq, drawProgram(r))
				}
				tr, err := t.Queue.Capture(t.Ctx, "model", func(_ context.Context, rec *reprise.Recorder) error {
					for i, p := range seq {
						if err := errors.Join(rec.Run(p.x), rec.Param(fmt.Sprint(i), rig.MixNumber)); err != nil {
							return err
						}
					}
					return nil
				})
				must(r, err)
				traces = append(traces, trace{tr, seq})
			},
			"replay": with(&traces, "trace", func(r rig.Draw, i int) {
				for range r.IntRange(1, 4, "times") {
					must(r, traces[i].tr.Replay(t.Ctx))
					mix(traces[i].seq...)
				}
			}),
			"set": with(&traces, "trace", func(r rig.Draw, i int) {
				tr := traces[i]
				for range r.IntRange(1, 5, "parameters") {
					i := r.IntRange(0, len(tr.seq)-1, "step")
					tr.seq[i].number = uint32(r.IntRange(0, 1000, "number"))
					must(r, tr.tr.Set(fmt.Sprint(i), tr.seq[i].number))
				}
			}),
			"pieces": with(&traces, "trace", func(r rig.Draw, i int) {
				tr := traces[i]
				if n := r.IntRange(0, len(tr.seq), "number of pieces"); n == 0 {
					must(r, tr.tr.Debug().Step(t.Ctx, nil))
				} else {
					must(r, tr.tr.Debug().Split(t.Ctx, n, nil))
				}
				mix(tr.seq...)
			}),
			"check": with(&traces, "trace", func(r rig.Draw, i int) { must(r, traces[i].tr.Debug().Check(t.Ctx)) }),
			"release": with(&traces, "trace", func(r rig.Draw, i int) {
				must(r, traces[i].tr.Release(t.Ctx))
				traces = slices.Delete(traces, i, i+1)
			}),
			"write":  func(r rig.Draw) { side.write(r, t) },
			"read":   func(r rig.Draw) { side.read(r, t) },
			"finish": func(r rig.Draw) { must(r, t.Queue.Wait(t.Ctx)) },
			"words": func(r rig.Draw) {
				got := make([]byte, words.Size())
				must(r, t.Queue.Read(t.Ctx, words, 0, got))
				all := rig.MakeWords(len(got), func(i int) uint32 {
					if i%4 != 0 {
						return 0
					}
					return f.Words[i/4]
				})
				if d := rig.Difference(all, got); d != "" {
					r.Fatalf("words of the workers: %s", d)
				}
			},
		})
		for _, tr := range traces {
			must(r, tr.tr.Release(t.Ctx))
		}
		if after := t.Allocated(); after != before {
			r.Fatalf("allocated before %v, after %v", before, after)
		}
	})
}
