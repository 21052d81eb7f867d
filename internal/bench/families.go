package bench

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/allocator"
	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/dispatch"
	"github.com/reprise-tt/reprise/dispatch/cq"
	"github.com/reprise-tt/reprise/internal/bench/measure"
	"github.com/reprise-tt/reprise/internal/bench/report"
	"github.com/reprise-tt/reprise/kernels"
	"github.com/reprise-tt/reprise/mesh"
	"github.com/reprise-tt/reprise/stream"
)

const controlIterations = 1000

type loopBody struct {
	name        string
	programs    int
	kernelBytes int // of each program's kernel; 0 for the smallest
	form        bodyForm
}

type bodyForm int

const (
	bodyStraight bodyForm = iota
	bodyNone              // a loop of 0 iterations, since a trace can't be empty
	bodyIf                // if a word in DRAM is 0, which it is
	bodySwitch
	bodyGiven // the word is an argument of each program
	bodyCall
	bodyWhile // a program sets the word to 0; the others run while it is 0, and set it to 1
)

// loopBodies have kernels that stay on the workers, except the last one, and calls.
var loopBodies = []loopBody{
	{name: "nothing", form: bodyNone},
	{name: "a program", programs: 1},
	{name: "a program, if a word is 0", programs: 1, form: bodyIf},
	{name: "a program, by a switch", programs: 1, form: bodySwitch},
	{name: "a program, a word its argument", programs: 1, form: bodyGiven},
	{name: "a program, in a call", programs: 1, form: bodyCall},
	{name: "two programs, one in a while", programs: 1, form: bodyWhile},
	{name: "eight programs", programs: 8},
	{name: "kernels of 4 x 12 KiB", programs: 4, kernelBytes: 12 << 10},
	{name: "kernels of 8 x 12 KiB", programs: 8, kernelBytes: 12 << 10},
}

// measureControl measures from the first of 1,000 iterations to the end of the last.
func measureControl(s *session) error {
	p, err := s.newStamps()
	if err != nil {
		return err
	}
	if p == nil {
		s.leaveOut("control", "", "the device doesn't tell how fast its clock is")
		return nil
	}
	for _, b := range loopBodies {
		err := s.control(p, b)
		if errors.Is(err, dispatch.ErrQueueFirmware) {
			s.leaveOut("control", "", err.Error())
			return nil
		}
		if err != nil {
			return fmt.Errorf("%s: %w", b.name, err)
		}
	}
	return nil
}

func (s *session) control(p *stamps, b loopBody) error {
	body, err := s.loopBody(b)
	if err != nil {
		return err
	}
	one, err := s.captureBody(0, body.record)
	if err != nil {
		return err
	}
	iterations := cmp.Or(s.config.iterations, controlIterations)
	loop, err := s.captureBody(uint32(iterations), body.record)
	if err != nil {
		return err
	}
	params := report.Params("body", b.name)
	measure := func(name string, t *reprise.Trace, replays int) (*report.Figure, error) {
		job := p.job(name, params, 1, func() error { return s.replay(t)(replays) })
		whole := job.Sample
		job.Sample = func() (float64, error) {
			ns, err := whole()
			return ns / float64(iterations), err
		}
		job.PerSample, job.Bytes = iterations, float64(replays*t.Parts()[0].ReplayBytes)/float64(iterations)
		err := s.measure("control", job)
		f, _ := s.report.Figure(report.ID("control", name, params...))
		return f, err
	}
	replays, err := measure("replay", one, iterations)
	if err != nil {
		return err
	}
	iteration, err := measure("iteration", loop, 1)
	if err != nil {
		return err
	}
	if replays != nil && iteration != nil && replays.P50 > 0 {
		iteration.Ratios = append(iteration.Ratios, report.Ratio{To: "a replay", Ns: replays.P50, Value: iteration.P50 / replays.P50})
	}
	return errors.Join(loop.Release(s.ctx), one.Release(s.ctx), body.release())
}

// captureBody captures a loop of the body, or for 0 iterations the body alone.
func (s *session) captureBody(iterations uint32, body func(*reprise.Recorder) error) (*reprise.Trace, error) {
	return s.queue().Capture(s.ctx, "control", func(_ context.Context, r *reprise.Recorder) error {
		if iterations == 0 {
			return body(r)
		}
		return r.Loop(iterations, func() error { return body(r) })
	})
}

type preparedBody struct {
	s         *session
	form      bodyForm
	xs, first []*reprise.Executable
	word      *reprise.Buffer
	called    *reprise.Trace
}

func (s *session) loopBody(b loopBody) (*preparedBody, error) {
	p := &preparedBody{s: s, form: b.form}
	var err error
	if b.form == bodyWhile { // in L1, so that programs can store to it
		err = p.newWord(allocator.L1)
	}
	for i := 0; i < b.programs && err == nil; i++ {
		err = p.load(&p.xs, 1, b.kernelBytes)
	}
	if err != nil {
		return nil, err
	}
	switch b.form {
	case bodyIf, bodySwitch, bodyGiven:
		err = p.newWord(allocator.DRAM)
	case bodyCall:
		p.called, err = s.captureBody(0, p.run)
	case bodyWhile:
		err = p.load(&p.first, 0, 0)
	}
	return p, err
}

func (p *preparedBody) newWord(kind allocator.Kind) (err error) {
	if p.word, err = p.s.dev.NewBuffer(reprise.BufferConfig{Kind: kind, Size: 64, Name: "word"}); err != nil {
		return err
	}
	return p.s.queue().Write(p.s.ctx, p.word, 0, make([]byte, 64))
}

// load loads a program. A bodyWhile's stores set in the word.
func (p *preparedBody) load(to *[]*reprise.Executable, set uint32, kernelBytes int) error {
	small := shape{name: "small", cores: 1, groups: 1}
	if p.form == bodyGiven {
		small.common = 1
	}
	prog, err := small.program(p.s.dev)
	if err != nil {
		return err
	}
	k := &prog.Kernels[0]
	if p.form == bodyWhile {
		at, _ := p.word.Page(0)
		k.Cores, k.Common = []chip.Range{at.Core.Range()}, []uint32{0}
		k.Args = func(chip.Core) []uint32 { return []uint32{at.Addr, 1, set} }
		if k.Image, err = kernels.Prebuilt(p.s.dev.Arch(), kernels.Store); err != nil {
			return err
		}
	}
	k.Image = padded(k.Image, kernelBytes)
	x, err := p.s.dev.Load(p.s.ctx, prog)
	if err == nil {
		*to = append(*to, x)
	}
	return err
}

func (p *preparedBody) record(r *reprise.Recorder) error {
	run := func() error { return p.run(r) }
	is0 := reprise.Cond{Buffer: p.word, Is: cq.Equal}
	switch p.form {
	case bodyNone:
		return r.Loop(0, run)
	case bodyIf:
		return r.If(is0, run, nil)
	case bodySwitch:
		return r.Switch(p.word, 0, run)
	case bodyCall:
		return r.Call(p.called)
	case bodyWhile:
		if err := runAll(r, p.first); err != nil {
			return err
		}
		return r.While(is0, 2, run)
	}
	return run()
}

func (p *preparedBody) run(r *reprise.Recorder) error {
	if p.form == bodyGiven {
		return runAll(r, p.xs, reprise.Arg{Kernel: "blank 0", Common: true, From: p.word})
	}
	return runAll(r, p.xs)
}

func runAll(r *reprise.Recorder, xs []*reprise.Executable, args ...reprise.Arg) error {
	for _, x := range xs {
		if err := r.Run(x, args...); err != nil {
			return err
		}
	}
	return nil
}

func (p *preparedBody) release() (err error) {
	for _, x := range append(p.xs, p.first...) {
		err = errors.Join(err, x.Release(p.s.ctx))
	}
	if p.called != nil {
		err = errors.Join(err, p.called.Release(p.s.ctx))
	}
	if p.word != nil {
		err = errors.Join(err, p.word.Release())
	}
	return err
}

// streamSizes are sizes in bytes for which tt-metal publishes the rates of its sockets.
var streamSizes = []int{1216, 39936}

// measureStreams puts a queue read of as many bytes beside each.
func measureStreams(s *session) error {
	for _, p := range paces[:2] {
		params := report.Params("bytes", streamWord, "pace", p.name)
		err := s.with(func() error {
			return errors.Join(s.exchanges(&measure.Job{Name: "round_trip", Params: params, Burst: 16}),
				s.readBeside(streamWord, &measure.Job{Params: params, Burst: 16}))
		}, reprise.WithPace(p.spin, p.longest))
		if errors.Is(err, dispatch.ErrRemoteChip) {
			s.leaveOut("streams", "", err.Error())
			return nil
		}
		if err != nil {
			return err
		}
	}
	return s.with(func() error {
		for _, n := range streamSizes {
			per := cmp.Or(s.config.iterations, streamBytes/n)
			if err := errors.Join(s.messages(stream.ToHost, n, per), s.messages(stream.ToDevice, n, per),
				s.readBeside(n, &measure.Job{Params: report.Params("bytes", n), PerSample: per})); err != nil {
				return err
			}
		}
		return nil
	})
}

const (
	streamRing  = 256 << 10
	streamBytes = 4 << 20 // of a sample: so many that the bytes that the ring holds at first count for little
	streamWord  = 4
)

// streaming measures a job while a kernel runs that the end of the first stream ends.
func (s *session) streaming(kernel string, n int, args func(room uint32) []uint32, job *measure.Job, ss ...*stream.Stream) (err error) {
	defer func() {
		for _, t := range ss {
			err = errors.Join(err, t.Release(s.ctx))
		}
	}()
	room, err := s.dev.NewBuffer(reprise.BufferConfig{Kind: allocator.L1, Size: n * s.dev.Grid().Size(), PageSize: n, Name: "room"})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, room.Release()) }()
	q := s.queue()
	if err := q.Write(s.ctx, room, 0, make([]byte, room.Size())); err != nil {
		return err
	}
	im, err := kernels.Prebuilt(s.dev.Arch(), kernel)
	if err != nil {
		return err
	}
	a := args(room.Addr())
	p := &reprise.Program{Name: kernel, Buffers: []*reprise.Buffer{room}, Kernels: []reprise.Kernel{{
		Name: kernel, Image: im, Processor: chip.BRISC, Cores: []chip.Range{q.Workers().Start.Range()},
		Args: func(chip.Core) []uint32 { return a },
	}}}
	for _, t := range ss {
		t.AddTo(p)
	}
	x, err := s.dev.Load(s.ctx, p)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, x.Release(s.ctx)) }()
	if err := q.Run(s.ctx, x); err != nil {
		return err
	}
	return errors.Join(s.measure("streams", job), ss[0].Close(s.ctx), q.Wait(s.ctx))
}

func (s *session) newStream(d stream.Direction, name string) (*stream.Stream, error) {
	return stream.New(s.dev, stream.Config{Name: name, Direction: d, Size: streamRing})
}

// exchanges measures sending a word to a kernel and waiting for one.
func (s *session) exchanges(job *measure.Job) error {
	in, err := s.newStream(stream.ToDevice, "in")
	if err != nil {
		return err
	}
	out, err := s.newStream(stream.ToHost, "out")
	if err != nil {
		return errors.Join(err, in.Release(s.ctx))
	}
	ctx, word := s.ctx, make([]byte, streamWord)
	job.Op = func() error {
		if err := in.Write(ctx, word); err != nil {
			return err
		}
		_, err := out.Read(ctx, word)
		return err
	}
	const n = 64
	args := func(room uint32) []uint32 { return append(append(in.Args(), out.Args()...), room, n) }
	return s.streaming(kernels.StreamEcho, n, args, job, in, out)
}

func (s *session) messages(d stream.Direction, n, per int) error {
	t, err := s.newStream(d, d.String())
	if err != nil {
		return err
	}
	ctx, b := s.ctx, make([]byte, n)
	job := &measure.Job{Params: report.Params("bytes", n), PerSample: per, Bytes: float64(n)}
	if d == stream.ToHost {
		job.Name, job.Op = "to_host", func() error { _, err := t.Read(ctx, b); return err }
		args := func(room uint32) []uint32 { return append(t.Args(), room, uint32(n), 1<<32-1, 0, 0) }
		return s.streaming(kernels.StreamSource, n, args, job, t)
	}
	job.Name, job.Op = "to_device", func() error { return t.Write(ctx, b) }
	args := func(room uint32) []uint32 { return append(t.Args(), room, uint32(n), room, 0) }
	return s.streaming(kernels.StreamSink, n, args, job, t)
}

func (s *session) readBeside(n int, job *measure.Job) error {
	b, err := s.dev.NewBuffer(reprise.BufferConfig{Kind: allocator.DRAM, Size: n, Name: "read"})
	if err != nil {
		return err
	}
	ctx, q, p := s.ctx, s.queue(), make([]byte, n)
	job.Name, job.Bytes = "queue_read", float64(n)
	job.Op = func() error { return q.Read(ctx, b, 0, p) }
	return errors.Join(s.measure("streams", job), b.Release())
}

// TimedFamily is the family of figures of TT-NN programs, which are timed in other processes.
const TimedFamily = "ttnn"

// TimedChip holds the times of TT-NN programs on one chip, on the emulator and optionally on
// another simulator, or on the emulator with checks.
type TimedChip struct {
	Name           string
	Programs       []string
	Reprise, Other map[string]Times // by program, and of [OpenDevice]
	With           string           // names the other: "ttsim", or the checks
}

// OpenDevice is the name of the program that opens the device.
const OpenDevice = "open"

// Times are nanoseconds, one for each round, or why there are none.
type Times struct {
	Ns      []float64
	Refused string
	Skipped bool // the program is no single operation
}

// ReportTimed has the least time of each program, and the median of opening the device.
func ReportTimed(device string, rounds int, chips []TimedChip) *report.Report {
	r := &report.Report{Schema: report.Schema, When: time.Now(), Device: device, Host: report.NewHost(), Rounds: rounds,
		Baselines: []*report.Figure{}}
	for _, c := range chips {
		addTimedChip(r, &c)
	}
	return r
}

func addTimedChip(r *report.Report, c *TimedChip) {
	c.add(r, OpenDevice, "open the device", func(f *report.Figure) float64 { return f.P50 })
	var names, skipped []string
	var ratios []float64
	refused := map[string][]string{}
	for _, name := range c.Programs {
		if c.Reprise[name].Skipped {
			skipped = append(skipped, name)
			continue
		}
		reprise, other := c.add(r, name, name, func(f *report.Figure) float64 { return f.Min })
		if reprise != nil && other != nil {
			names, ratios = append(names, name), append(ratios, other.Min/reprise.Min)
		}
		for who, times := range map[string]map[string]Times{"reprise": c.Reprise, c.With: c.Other} {
			if times[name].Refused != "" {
				refused[who] = append(refused[who], name)
			}
		}
	}
	if len(ratios) > 0 {
		r.Summary = append(r.Summary, ratioRow(c, names, ratios))
	}
	for _, who := range []string{"reprise", c.With} {
		addCount(r, c.Name+": programs that "+who+" refuses", refused[who])
	}
	addCount(r, c.Name+": programs without a time, no single operation", skipped)
}

func (c *TimedChip) add(r *report.Report, name, what string, value func(*report.Figure) float64) (reprise, with *report.Figure) {
	row := &report.SummaryRow{What: c.Name + ": " + what}
	own, other := c.Reprise[name], c.Other[name]
	if reprise = addTimes(r, name, own, report.Params("chip", c.Name)...); reprise != nil {
		row.Figure, row.Now = reprise.ID(), new(report.Ns.Of("", value(reprise)))
	} else {
		row.Missing = "reprise refuses it: " + own.Refused
	}
	if with = addTimes(r, name, other, report.Params("chip", c.Name, "device", c.With)...); with != nil {
		row.Others = []report.Other{{Quantity: report.Ns.Of(c.With, value(with))}}
	} else if other.Refused != "" {
		row.Note = c.With + " refuses it: " + other.Refused
	}
	r.Summary = append(r.Summary, row)
	return reprise, with
}

func addTimes(r *report.Report, name string, t Times, params ...report.Param) *report.Figure {
	if len(t.Ns) == 0 {
		return nil
	}
	s := measure.NewSeries()
	for _, ns := range t.Ns {
		s.Add(ns)
		s.End()
	}
	f := &report.Figure{Family: TimedFamily, Name: name, Params: params, PerSample: 1}
	s.Fill(f)
	r.Figures = append(r.Figures, f)
	return f
}

func ratioRow(c *TimedChip, names []string, ratios []float64) *report.SummaryRow {
	extreme := func(v float64, what string) report.Quantity {
		return report.Times.Of(names[slices.Index(ratios, v)]+what, v)
	}
	return &report.SummaryRow{
		What: fmt.Sprintf("%s: %s / reprise, geometric mean of %d", c.Name, c.With, len(ratios)),
		Now:  new(report.Times.Of("", report.GeometricMean(ratios))),
		More: []report.Quantity{extreme(slices.Min(ratios), ", the lowest,"), extreme(slices.Max(ratios), ", the highest,")},
	}
}

func addCount(r *report.Report, what string, names []string) {
	if len(names) > 0 {
		note := strings.Join(slices.Sorted(slices.Values(names)), ", ")
		r.Summary = append(r.Summary, &report.SummaryRow{What: what, Now: &report.Quantity{Value: float64(len(names))}, Note: note})
	}
}

func measureEnqueue(s *session) error {
	q, ctx := s.queue(), s.ctx
	return s.shapes(func(p shape, x *reprise.Executable) error {
		run := func() error { return q.Run(ctx, x) }
		params, c := report.Params("shape", p.name), x.Commands()
		job := &measure.Job{
			Name: "run", Params: params, Op: run, PerSample: 8, Burst: 8, Settle: s.finish, Allocs: true, Peers: ofCI(p, 15_200, 16_700),
			Copy: true, Bytes: float64(c.Bytes), Commands: float64(c.Count),
		}
		return s.measure("enqueue", job, &measure.Job{Name: "run_to_end", Params: params, Burst: 4, Submit: run, Finish: s.finish})
	})
}

// measureCapture leaves out the release of traces, which waits for the device.
func measureCapture(s *session) error {
	return s.shapes(func(p shape, x *reprise.Executable) error {
		var traces []*reprise.Trace
		q, ctx, one := s.queue(), s.ctx, func(_ context.Context, r *reprise.Recorder) error { return r.Run(x) }
		bytes := x.Commands().Bytes
		return s.measure("capture", &measure.Job{
			Name: "capture", Params: report.Params("shape", p.name), PerSample: 4, Burst: 4, Peers: capturePeers(p), Allocs: true,
			Copy: true, Bytes: float64(bytes),
			Op: func() error {
				t, err := q.Capture(ctx, "capture", one)
				if err == nil {
					traces = append(traces, t)
				}
				return err
			},
			Settle: func() (err error) {
				for _, t := range traces {
					err = errors.Join(err, t.Release(ctx))
				}
				traces = traces[:0]
				return err
			},
		})
	})
}

func measureOpen(s *session) error {
	return s.measure("open", &measure.Job{Name: "open_close", Op: func() error {
		d, err := reprise.Open(s.ctx, s.config.Target)
		if err != nil {
			return err
		}
		s.report.Arch = d.Arch().String()
		return d.Close(s.ctx)
	}})
}

func measureArguments(s *session) error {
	return s.shapes(func(p shape, x *reprise.Executable) error {
		next := uint32(0)
		set := func(_ chip.Core, args []uint32) {
			for i := range args {
				args[i] = next
			}
		}
		values, names := make([]uint32, p.common), make([]string, p.groups)
		for i := range names {
			names[i] = fmt.Sprintf("blank %d", i)
		}
		bytes := 4 * (p.args*s.queue().Workers().Size() + p.common*p.groups)
		return s.measure("arguments", &measure.Job{
			Name: "set_all", Params: report.Params("shape", p.name), PerSample: 4, Burst: 8, Allocs: true, Peers: ofCI(p, 130_000, 536_000),
			Copy: true, Bytes: float64(bytes),
			Op: func() error {
				next++
				for _, name := range names {
					if err := x.SetArgs(name, set); err != nil {
						return err
					}
					if p.common == 0 {
						continue
					}
					if err := x.SetCommonArgs(name, values); err != nil {
						return err
					}
				}
				return nil
			},
		})
	})
}

func measureEvents(s *session) error {
	return s.with(func() error {
		a, b, ctx := s.queue(), s.dev.Queue(1), s.ctx
		there, back := s.dev.NewEvent("there"), s.dev.NewEvent("back")
		record := func() error { return a.Record(ctx, there) }
		handOver := func() error {
			return errors.Join(a.Record(ctx, there), b.WaitEvent(ctx, there), b.Record(ctx, back), a.WaitEvent(ctx, back))
		}
		return s.measure("events", &measure.Job{Name: "record", PerSample: 8, Burst: 8, Op: record, Settle: s.finish, Allocs: true},
			&measure.Job{Name: "record_to_host", Burst: 8, Submit: record, Finish: func() error { return there.Wait(ctx) }},
			&measure.Job{Name: "there_and_back", Burst: 8, Submit: handOver, Finish: s.finish})
	}, reprise.WithQueues(2))
}

func measureTransfer(s *session) error {
	var unreachable error // why pinned memory isn't measured
	for _, t := range []struct {
		kind              allocator.Kind
		size, page, burst int
	}{
		{allocator.DRAM, 4 << 10, 1 << 10, 4}, {allocator.DRAM, 64 << 10, 2 << 10, 4}, {allocator.DRAM, 1 << 20, 4 << 10, 4}, {allocator.DRAM, 1 << 20, 64, 4},
		{allocator.DRAM, 64 << 20, 4 << 10, 1}, {allocator.L1, 64 << 10, 2 << 10, 4},
	} {
		b, err := s.dev.NewBuffer(reprise.BufferConfig{Kind: t.kind, Size: t.size, PageSize: t.page, Name: "transfer"})
		if err != nil {
			return err
		}
		q, ctx, data := s.queue(), s.ctx, make([]byte, t.size)
		jobs := []*measure.Job{
			{Name: "write", Op: func() error { return errors.Join(q.Write(ctx, b, 0, data), q.Wait(ctx)) }},
			{Name: "read", Op: func() error { return q.Read(ctx, b, 0, data) }},
		}
		h, err := s.dev.NewHostBuffer(reprise.HostBufferConfig{Size: t.size, Strict: true, Name: "transfer"})
		switch {
		case err == nil:
			jobs = append(jobs,
				&measure.Job{Name: "write_pinned", Op: func() error { return q.WriteFrom(ctx, b, 0, h, 0, t.size) }},
				&measure.Job{Name: "read_pinned", Op: func() error { return q.ReadTo(ctx, b, 0, h, 0, t.size) }})
		case errors.Is(err, dispatch.ErrRemoteChip):
			h, unreachable = nil, err
		default:
			return err
		}
		for _, j := range jobs {
			j.Params = report.Params("memory", t.kind.String(), "bytes", t.size, "page", t.page)
			j.Burst, j.Copy, j.Bytes = t.burst, true, float64(t.size)
		}
		if err := s.measure("transfer", jobs...); err != nil {
			return err
		}
		err = b.Release()
		if h != nil {
			err = errors.Join(h.Release(ctx), err)
		}
		if err != nil {
			return err
		}
	}
	if unreachable != nil {
		s.leaveOut("transfer", " from and to pinned host memory", unreachable.Error())
	}
	return nil
}

type arrival struct {
	name   string
	after  time.Duration
	repeat bool // the same delay each time; else up to twice as long
	busy   bool // another goroutine spins until then, as with an emulated chip
}

var (
	comesOnce  = arrival{name: "4ms", after: 4 * time.Millisecond}
	comesAgain = arrival{name: "4ms-again", after: 4 * time.Millisecond, repeat: true}
	comesBusy  = arrival{name: "4ms-again-busy", after: 4 * time.Millisecond, repeat: true, busy: true}
)

// arrivals fall into a wait's spinning, short and longest sleeps, and at predictable times.
var arrivals = []arrival{
	{name: "soon", after: 5 * time.Microsecond}, {name: "200us", after: 200 * time.Microsecond}, comesOnce,
	comesAgain, {name: "40ms-again", after: 40 * time.Millisecond, repeat: true}, comesBusy,
}

// measureWake measures from a point in time to the waiter's return. "processor" is the processor
// time of a wait.
func measureWake(s *session) error {
	arrivals := arrivals
	if runtime.GOMAXPROCS(0) < 2 {
		s.leaveOut("wake", "/comes="+comesBusy.name,
			"the waiter and the goroutine that is busy need a processor each, and the machine has one")
		arrivals = slices.DeleteFunc(slices.Clone(arrivals), func(a arrival) bool { return a.busy })
	}
	for _, p := range paces {
		if err := s.measurePace(p, arrivals...); err != nil {
			return err
		}
	}
	return nil
}

func (s *session) measurePace(p pace, arrivals ...arrival) error {
	return s.with(func() error {
		for _, a := range arrivals {
			late, busy := wakeJobs(s.ctx, s.runner.Clock, s.queue(), report.Params("pace", p.name, "comes", a.name), a)
			jobs := []*measure.Job{late}
			if _, ok := measure.ProcessTime(); ok && !a.busy && a.after >= time.Millisecond { // else mostly the measurement's own time
				jobs = append(jobs, busy)
			}
			if err := s.measure("wake", jobs...); err != nil {
				return err
			}
		}
		return nil
	}, reprise.WithPace(p.spin, p.longest))
}

func wakeJobs(ctx context.Context, c measure.Clock, q *reprise.Queue, params []report.Param, a arrival) (late, busy *measure.Job) {
	var start int64
	var least float64
	came := func() bool { return c.Ns(start, measure.Ticks()) >= least }
	wait := func() (late float64, err error) {
		after := a.after
		if !a.repeat {
			after += rand.N(a.after) // out of step with the sleeps
		}
		start, least = measure.Ticks(), float64(after)
		var others sync.WaitGroup
		if a.busy {
			others.Go(func() {
				for !came() {
				}
			})
		}
		err = q.WaitFunc(ctx, came)
		late = c.Ns(start, measure.Ticks()) - least
		others.Wait()
		return late, err
	}
	late = &measure.Job{Name: "wait", Params: params, Burst: 8, Sample: wait}
	busy = &measure.Job{Name: "processor", Params: params, Burst: 8, Sample: func() (float64, error) {
		before, _ := measure.ProcessTime()
		_, err := wait()
		after, _ := measure.ProcessTime()
		return float64(after - before), err
	}}
	return late, busy
}

// measureMesh measures opening chips, and a replay's cost for each chip, without links.
func measureMesh(s *session) error {
	all := s.config.Mesh
	if len(all) == 0 {
		s.leaveOut("mesh", "", "no machine with several chips was named")
		return nil
	}
	for n := 1; n <= len(all); n *= 2 {
		if err := s.openMesh(all[:n]); err != nil {
			return err
		}
	}
	for n := 1; n <= len(all); n *= 2 {
		m, err := s.chips(all[:n], mesh.Shape{n}, mesh.Unlinked())
		if err != nil {
			return err
		}
		if err := s.replayMesh(m, "chips", n); err != nil {
			return err
		}
	}
	// The cards with as many remote chips, which have no PCI interface.
	m, err := s.chips(all, mesh.Shape{2, len(all)}, mesh.OrShape(mesh.Shape{1, 2 * len(all)}))
	if none := (*mesh.ShapeError)(nil); errors.As(err, &none) {
		return nil
	}
	if err != nil {
		return err
	}
	return s.replayMesh(m, "chips", m.Size(), "behind", m.Size()-len(all))
}

// chips has queues with one worker, so that emulated chips are done soon.
func (s *session) chips(m mesh.Machine, shape mesh.Shape, o mesh.Option) (*mesh.Mesh, error) {
	return mesh.Open(s.ctx, m, shape, o, mesh.WithDevice(reprise.WithQueueWorkers(0, chip.Range{})))
}

func (s *session) openMesh(m mesh.Machine) error {
	var last *mesh.Mesh
	closeLast := func() (err error) {
		if last != nil {
			err, last = last.Close(s.ctx), nil
		}
		return err
	}
	err := s.measure("mesh", &measure.Job{
		Name: "open", Params: report.Params("chips", len(m)), Settle: closeLast,
		Sample: func() (_ float64, err error) {
			start := time.Now()
			last, err = s.chips(m, mesh.Shape{len(m)}, mesh.Unlinked())
			return float64(time.Since(start)), err
		},
	})
	return errors.Join(err, closeLast())
}

func (s *session) replayMesh(m *mesh.Mesh, params ...any) (err error) {
	defer func() { err = errors.Join(err, m.Close(s.ctx)) }()
	d := m.Chips()[0].Device
	s.report.Arch = d.Arch().String()
	p, err := minimal.program(d)
	if err != nil {
		return err
	}
	x, err := m.Load(s.ctx, "blank", mesh.Same(mesh.Range{}, p))
	if err != nil {
		return err
	}
	t, err := m.Queue(0).Capture(s.ctx, "blank", func(_ context.Context, r *mesh.Recorder) error { return r.Run(x) })
	if err != nil {
		return err
	}
	const replays = 8
	if n, _ := t.Streams(); n != 1 {
		return fmt.Errorf("equal chips have %d streams of commands", n)
	}
	return s.measure("mesh", &measure.Job{
		Name: "replay for each chip", Params: report.Params(params...), Burst: 4, Peers: replayPeers()[1:],
		Settle: func() error { return m.Queue(0).Wait(s.ctx) },
		Sample: func() (float64, error) {
			start := time.Now()
			for range replays {
				if err := t.Replay(s.ctx); err != nil {
					return 0, err
				}
			}
			return float64(time.Since(start)) / float64(replays*m.Size()), nil
		},
	})
}
