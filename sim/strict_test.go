package sim_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/allocator"
	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/internal/devtest"
	"github.com/reprise-tt/reprise/internal/effort"
	"github.com/reprise-tt/reprise/internal/expect"
	"github.com/reprise-tt/reprise/kernels"
	"github.com/reprise-tt/reprise/sim"
	"github.com/reprise-tt/reprise/sim/emu"
)

var small = []struct {
	card    func(...sim.Option) *sim.Card
	harvest uint32
}{{sim.Wormhole, 0x3FC}, {sim.Blackhole, 0x3FFC}}

func TestStrict(t *testing.T) {
	for _, s := range small {
		t.Run(s.card().String(), func(t *testing.T) {
			for seed := range effort.Of[uint64](1, 3, 1000) {
				if !t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) {
					strict(t, s.card(sim.Strict(seed), sim.Harvesting(chip.Harvesting{Tensix: s.harvest})), seed)
				}) && !effort.Hours {
					return
				}
			}
		})
	}
}

type job struct {
	x  *reprise.Executable
	do func(model []uint32)
}

func strict(t *testing.T, card *sim.Card, seed uint64) {
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	must := func(err error) {
		t.Helper()
		if c := card.Chip(); err != nil && c != nil && c.Fault() != nil {
			t.Log(c.Fault())
		}
		devtest.Must(t, err)
	}
	rng := rand.New(rand.NewPCG(seed, 1))
	dev, err := reprise.Open(ctx, card)
	must(err)
	defer func() { must(dev.Close(ctx)) }()
	q := dev.Queue(0)
	grid := dev.Grid()
	n := grid.Size()

	pages := 3 + rng.IntN(30)
	const buffers = 4
	var bufs []*reprise.Buffer
	model := make([]uint32, buffers)
	count := func(b *reprise.Buffer, first uint32) []byte {
		p := make([]byte, 0, b.Size())
		for i := range uint32(b.Size() / 4) {
			p = binary.LittleEndian.AppendUint32(p, first+i)
		}
		return p
	}
	write := func(i int, first uint32) {
		must(q.Write(ctx, bufs[i], 0, count(bufs[i], first)))
		model[i] = first
	}
	for i := range buffers {
		b, err := dev.NewBuffer(reprise.BufferConfig{Kind: allocator.DRAM, Size: pages * 64, PageSize: 64, Name: fmt.Sprint(i)})
		must(err)
		bufs = append(bufs, b)
		write(i, rng.Uint32())
	}
	// A large buffer, for transfers around the rings of the queue. Now and then more than one of
	// them holds.
	size := 4096 * (1 + rng.IntN(30))
	if seed%8 == 3 {
		size += 600 << 10
	}
	bulk, err := dev.NewBuffer(reprise.BufferConfig{Kind: allocator.DRAM, Size: size, PageSize: []int{64, 2048, 4096}[rng.IntN(3)],
		Name: "bulk"})
	must(err)
	bulkFirst := rng.Uint32()
	must(q.Write(ctx, bulk, 0, count(bulk, bulkFirst)))

	marks, err := dev.NewBuffer(reprise.BufferConfig{Kind: allocator.L1, Size: n * 64, PageSize: 64, Name: "marks"})
	must(err)
	must(q.Write(ctx, marks, 0, make([]byte, marks.Size())))

	image := func(name string) *kernels.Image {
		im, err := kernels.Prebuilt(dev.Arch(), name)
		must(err)
		return im
	}
	load := func(p *reprise.Program, do func([]uint32)) job {
		x, err := dev.Load(ctx, p)
		must(err)
		return job{x, do}
	}
	var jobs []job
	for i := range 4 {
		in, out := rng.IntN(buffers), rng.IntN(buffers)
		for in == out {
			out = rng.IntN(buffers)
		}
		add := rng.Uint32()
		jobs = append(jobs, load(pipeline(image, fmt.Sprint("add ", i), at(grid, rng.IntN(n)), bufs[in], bufs[out], add),
			func(m []uint32) { m[out] = m[in] + add }))
	}
	mark := uint32(0)
	for i := range 2 {
		v := rng.Uint32()
		processor := []chip.Processor{chip.BRISC, chip.NCRISC, chip.TRISC1}[rng.IntN(3)]
		jobs = append(jobs, load(&reprise.Program{
			Name: fmt.Sprint("mark ", i),
			Kernels: []reprise.Kernel{{
				Name: "store", Image: image(kernels.Store), Processor: processor, Cores: []chip.Range{grid}, Common: []uint32{v},
				Args: func(c chip.Core) []uint32 { return []uint32{marks.Addr(), 1, uint32(index(grid, c))} },
			}},
			Buffers: []*reprise.Buffer{marks},
		}, func([]uint32) { mark = v }))
	}

	type recorded struct {
		trace *reprise.Trace
		jobs  []job
	}
	var traces []recorded
	for i := range 2 {
		var r recorded
		for range 1 + rng.IntN(6) {
			r.jobs = append(r.jobs, jobs[rng.IntN(len(jobs))])
		}
		r.trace, err = q.Capture(ctx, fmt.Sprint("trace ", i), func(_ context.Context, rec *reprise.Recorder) error {
			for _, j := range r.jobs {
				if err := rec.Run(j.x); err != nil {
					return err
				}
			}
			return nil
		})
		must(err)
		traces = append(traces, r)
	}

	check := func(i int) {
		got := make([]byte, bufs[i].Size())
		must(q.Read(ctx, bufs[i], 0, got))
		if !bytes.Equal(got, count(bufs[i], model[i])) {
			t.Fatalf("buffer %d is not what the model says", i)
		}
	}
	checkBulk := func() {
		got := make([]byte, bulk.Size())
		must(q.Read(ctx, bulk, 0, got))
		if !bytes.Equal(got, count(bulk, bulkFirst)) {
			t.Fatal("the large buffer is not what was written")
		}
	}
	for range 40 {
		switch rng.IntN(12) {
		case 0, 1:
			write(rng.IntN(buffers), rng.Uint32())
		case 2:
			check(rng.IntN(buffers))
		case 3, 4, 5:
			j := jobs[rng.IntN(len(jobs))]
			must(q.Run(ctx, j.x))
			j.do(model)
		case 6, 7, 8:
			r := traces[rng.IntN(len(traces))]
			for range 1 + rng.IntN(3) {
				must(r.trace.Replay(ctx))
				for _, j := range r.jobs {
					j.do(model)
				}
			}
		case 9:
			must(q.Wait(ctx))
		case 10:
			bulkFirst = rng.Uint32()
			must(q.Write(ctx, bulk, 0, count(bulk, bulkFirst)))
		case 11:
			checkBulk()
		}
	}
	checkBulk()
	for i := range bufs {
		check(i)
	}
	got := make([]byte, marks.Size())
	must(q.Read(ctx, marks, 0, got))
	for i := range n {
		want := mark + uint32(i)
		if mark == 0 {
			want = 0
		}
		if v := binary.LittleEndian.Uint32(got[64*i:]); v != want {
			t.Fatalf("worker %d has mark %#x, want %#x", i, v, want)
		}
	}
	must(card.Chip().Fault())
}

func at(g chip.Range, i int) chip.Core {
	w := g.End.X - g.Start.X + 1
	return chip.Core{X: g.Start.X + i%w, Y: g.Start.Y + i/w}
}

func index(g chip.Range, c chip.Core) int {
	return (c.Y-g.Start.Y)*(g.End.X-g.Start.X+1) + c.X - g.Start.X
}

func pipeline(image func(string) *kernels.Image, name string, c chip.Core, in, out *reprise.Buffer, add uint32) *reprise.Program {
	const from, to = 0, 16
	cores := []chip.Range{chip.Single(c.X, c.Y)}
	n := uint32(in.Size() / in.PageSize())
	args := func(a ...uint32) func(chip.Core) []uint32 { return func(chip.Core) []uint32 { return a } }
	return &reprise.Program{
		Name: name,
		Kernels: []reprise.Kernel{
			{Name: "reader", Image: image(kernels.CopyReader), Processor: chip.BRISC, Cores: cores, Args: args(in.Addr(), 0, n, 64, from)},
			{Name: "add", Image: image(kernels.Add), Processor: chip.TRISC0, Cores: cores, Args: args(from, to, n, add)},
			{Name: "writer", Image: image(kernels.CopyWriter), Processor: chip.NCRISC, Cores: cores, Args: args(out.Addr(), 0, n, 64, to)},
		},
		CircularBuffers: []reprise.CircularBuffer{
			{Index: from, Cores: cores, PageSize: 64, Pages: 2},
			{Index: to, Cores: cores, PageSize: 64, Pages: 2},
		},
		Buffers: []*reprise.Buffer{in, out},
	}
}

// It is a load whose value goes nowhere, and Blackhole's fence before it.
func withoutReadBack(t *testing.T, im *kernels.Image) *kernels.Image {
	const nop, fence = 0x13, 0x0F
	out, n := *im, 0
	out.Text = slices.Clone(im.Text)
	for at := 8; at+4 <= len(out.Text); at += 4 {
		load, use := binary.LittleEndian.Uint32(out.Text[at-4:]), binary.LittleEndian.Uint32(out.Text[at:])
		if load&0x7F == 0x03 && use&0xFFF07FFF == nop && use>>15&31 == load>>7&31 && use>>15&31 != 0 {
			binary.LittleEndian.PutUint32(out.Text[at-4:], nop)
			binary.LittleEndian.PutUint32(out.Text[at:], nop)
			if binary.LittleEndian.Uint32(out.Text[at-8:])&0x7F == fence {
				binary.LittleEndian.PutUint32(out.Text[at-8:], nop)
			}
			n++
		}
	}
	if n == 0 {
		t.Fatal("the kernel reads nothing back")
	}
	return &out
}

type mistake struct {
	name    string
	program func(t *testing.T, s *site) *reprise.Program
	says    []string
}

type site struct {
	grid    chip.Range
	image   func(name string) *kernels.Image
	a, b, c *reprise.Buffer
	l1      *reprise.Buffer
}

func values(v ...uint32) func(chip.Core) []uint32 {
	return func(chip.Core) []uint32 { return v }
}

func (s *site) one(i int) []chip.Range {
	c := at(s.grid, i)
	return []chip.Range{chip.Single(c.X, c.Y)}
}

func (s *site) copyKernel(core int, from, to *reprise.Buffer, scratch uint32) reprise.Kernel {
	return reprise.Kernel{Name: fmt.Sprint("copy on ", core), Image: s.image(kernels.Copy), Processor: chip.BRISC, Cores: s.one(core),
		Args: values(from.Addr(), to.Addr(), 0, 64, 64, scratch)}
}

func (s *site) store(p chip.Processor, v uint32) reprise.Kernel {
	return reprise.Kernel{Name: fmt.Sprint("store on ", p), Image: s.image(kernels.Store), Processor: p, Cores: s.one(1),
		Common: []uint32{v}, Args: values(s.l1.Addr(), 1, 0)}
}

func mistakes() []mistake {
	return []mistake{
		{
			name: "a kernel reads a DRAM buffer that another core is writing",
			says: []string{"race: NoC ", "DRAM controller", "BRISC of tile"},
			program: func(t *testing.T, s *site) *reprise.Program {
				return &reprise.Program{
					Kernels: []reprise.Kernel{s.copyKernel(0, s.a, s.b, s.l1.Addr()), s.copyKernel(1, s.b, s.c, s.l1.Addr())},
					Buffers: []*reprise.Buffer{s.a, s.b, s.c, s.l1},
				}
			},
		},
		{
			name: "two cores write one DRAM buffer",
			says: []string{"race: NoC write to", "DRAM controller", "wrote", "through a NoC"},
			program: func(t *testing.T, s *site) *reprise.Program {
				return &reprise.Program{
					Kernels: []reprise.Kernel{s.copyKernel(0, s.a, s.c, s.l1.Addr()), s.copyKernel(1, s.b, s.c, s.l1.Addr())},
					Buffers: []*reprise.Buffer{s.a, s.b, s.c, s.l1},
				}
			},
		},
		{
			name: "two processors store to one word of L1",
			says: []string{"race: store to", "of L1", "wrote", "Nothing that one of the two did"},
			program: func(t *testing.T, s *site) *reprise.Program {
				return &reprise.Program{Kernels: []reprise.Kernel{s.store(chip.TRISC0, 7), s.store(chip.TRISC2, 8)},
					Buffers: []*reprise.Buffer{s.l1}}
			},
		},
		{
			name: "a kernel publishes a page before its stores are in L1",
			says: []string{"race", "TRISC0 of tile", "wrote", "read back first, and the result used"},
			program: func(t *testing.T, s *site) *reprise.Program {
				image := func(name string) *kernels.Image {
					if name == kernels.Add {
						return withoutReadBack(t, s.image(name))
					}
					return s.image(name)
				}
				return pipeline(image, "add", at(s.grid, 1), s.a, s.b, 5)
			},
		},
		{
			name: "two kernels take one circular buffer's pages",
			says: []string{"race"},
			program: func(t *testing.T, s *site) *reprise.Program {
				p := pipeline(s.image, "add", at(s.grid, 1), s.a, s.b, 5)
				p.Kernels = append(p.Kernels, reprise.Kernel{Name: "thief", Image: s.image(kernels.Add), Processor: chip.TRISC2, Cores: s.one(1),
					Args: values(0, 16, 64, 9)})
				return p
			},
		},
	}
}

func TestSharingMistakes(t *testing.T) {
	for _, s := range small {
		for _, m := range mistakes() {
			for seed := range uint64(2) {
				t.Run(fmt.Sprintf("%v%s, seed %d", s.card(), m.name, seed), func(t *testing.T) {
					card := s.card(sim.Strict(seed), sim.Harvesting(chip.Harvesting{Tensix: s.harvest}))
					err := runMistake(t, card, m)
					if err == nil {
						t.Fatal("the program ran")
					}
					var r *emu.Refusal
					if !errors.As(card.Chip().Fault(), &r) {
						t.Fatalf("error %v without a refusal", err)
					}
					rest := r.Error()
					for _, part := range m.says {
						_, after, ok := strings.Cut(rest, part)
						if !ok {
							t.Fatalf("refusal %q doesn't say %q", r, part)
						}
						rest = after
					}
				})
			}
		}
	}
}

func runMistake(t *testing.T, card *sim.Card, m mistake) error {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	dev, err := reprise.Open(ctx, card)
	if err != nil {
		return err
	}
	defer dev.Close(ctx) // it has stopped
	q := dev.Queue(0)
	s := &site{grid: dev.Grid(), image: func(name string) *kernels.Image {
		return expect.Value(kernels.Prebuilt(dev.Arch(), name))(t)
	}}
	for i, b := range []**reprise.Buffer{&s.a, &s.b, &s.c} {
		if *b, err = dev.NewBuffer(reprise.BufferConfig{Kind: allocator.DRAM, Size: 64 * 64, PageSize: 64,
			Name: fmt.Sprint(i)}); err != nil {
			return err
		}
		p := make([]byte, (*b).Size())
		for j := range p {
			p[j] = byte(j*7 + i)
		}
		if err := q.Write(ctx, *b, 0, p); err != nil {
			return err
		}
	}
	if s.l1, err = dev.NewBuffer(reprise.BufferConfig{Kind: allocator.L1, Size: s.grid.Size() * 64, PageSize: 64, Name: "L1"}); err != nil {
		return err
	}
	x, err := dev.Load(ctx, m.program(t, s))
	if err != nil {
		return err
	}
	if err := q.Run(ctx, x); err != nil {
		return err
	}
	return q.Wait(ctx)
}
