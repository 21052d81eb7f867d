package traces

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/cmd/reprise/internal/cli"
	"github.com/reprise-tt/reprise/dispatch"
	"github.com/reprise-tt/reprise/internal/tables"
	"github.com/reprise-tt/reprise/kernels/print"
	"github.com/reprise-tt/reprise/kmd"
	"github.com/reprise-tt/reprise/observe"
	"github.com/reprise-tt/reprise/ops"
	"github.com/reprise-tt/reprise/ops/npy"
	"github.com/reprise-tt/reprise/ops/safetensors"
	"github.com/reprise-tt/reprise/tracebuf"
	"github.com/reprise-tt/reprise/tracebuf/debug"
	"github.com/reprise-tt/reprise/tracebuf/metaltrace"
)

func (r *traceRun) ran(first, end int) error {
	all := programsOf(r.Trace)
	r.out.Pieces = append(r.out.Pieces, pieceJSON{all[first], all[end-1]})
	return nil
}

func (r *traceRun) inPieces(ctx context.Context, n *int) (wrong, err error) {
	if n == nil {
		err = r.Debug().Step(ctx, func(i int) error { return r.ran(i, i+1) })
	} else {
		err = r.Debug().Split(ctx, *n, r.ran)
	}
	if err != nil {
		return nil, err
	}
	return r.results(ctx)
}

func (r *traceRun) check(ctx context.Context) (wrong, err error) {
	err = r.Debug().Check(ctx)
	var c *debug.CheckError
	if errors.As(err, &c) {
		if c.Step >= 0 {
			r.out.Found = &programsOf(r.Trace)[c.Step]
			r.out.Found.Loops = c.Loops
		}
		return err, nil
	}
	return nil, err
}

// bisect finds the first program with which a replay leaves other data or hangs.
func (r *traceRun) bisect(ctx context.Context) (wrong, err error) {
	bufs, q := r.Buffers(), r.dev.Queue(0)
	before := make([][]byte, len(bufs))
	for i, b := range bufs {
		before[i] = make([]byte, b.Size())
		if err := q.Read(ctx, b, 0, before[i]); err != nil {
			return nil, err
		}
	}
	restore := func() error {
		for i, b := range bufs {
			if err := q.Write(ctx, b, 0, before[i]); err != nil {
				return err
			}
		}
		return q.Wait(ctx)
	}
	var want [][]runBufferJSON
	err = r.Debug().Step(ctx, func(int) error {
		c, err := r.contents(ctx)
		want = append(want, c)
		return err
	})
	if err != nil {
		return nil, err
	}
	at, err := r.Debug().BisectRun(ctx, func(int) error { return restore() }, func(n int) (bool, error) {
		c, err := r.contents(ctx)
		return slices.Equal(c, want[n-1]), err
	})
	if err == nil {
		err = restore()
	}
	if err != nil || at == nil {
		return nil, err
	}
	p := &programsOf(r.Trace)[at.Step]
	p.Loops = at.Loops
	r.out.Found = p
	return fmt.Errorf("trace run: program %d %s%s is the first with which a replay hangs, "+
		"or leaves something else in the buffers than the programs one by one", p.Step, tracebuf.Printable(p.Name), p.in()), nil
}

// writePrints writes until stop is called, to errs for the name -.
func writePrints(dev *reprise.Device, name string, errs io.Writer) (stop func() error, err error) {
	out, done := errs, func() error { return nil }
	if name != "-" {
		f, err := os.Create(name)
		if err != nil {
			return nil, err
		}
		out, done = f, f.Close
	}
	l, err := print.Listen(dev.Debug(), print.ToWriter(out), print.Options{})
	if err != nil {
		return nil, errors.Join(err, done())
	}
	return func() error { return errors.Join(l.Close(), done()) }, nil
}

type traceRunCmd struct {
	loadFlags
	Replays  int               `default:"1"`
	Set      map[string]uint32 `placeholder:"NAME=VALUE" mapsep:"none"`
	Step     bool              `xor:"mode"`
	Split    *int              `placeholder:"N" xor:"mode"`
	Bisect   bool              `xor:"mode"`
	Check    bool              `xor:"mode"`
	Times    bool
	Timeline string `placeholder:"FILE" type:"path"`
	Prints   string `placeholder:"FILE"`
	tensorFlags
	cli.AsJSON
	cli.Hangs

	recorded bool // just now, with these weights
}

func (c *traceRunCmd) Validate() error {
	if c.Replays < 1 {
		return cli.Wrong("--replays", c.Replays, "a trace is replayed at least once", "give a positive number")
	}
	if c.Split != nil && *c.Split < 1 {
		return cli.Wrong("--split", *c.Split, "there is at least one piece", "give a positive number")
	}
	if c.Replays > 1 && c.mode() != "replay" {
		return cli.Wrong("--replays", c.Replays, "it goes with replays only", "leave --"+c.mode()+" out")
	}
	if c.timed() && c.mode() != "replay" {
		return cli.Wrong("--times and --timeline", c.mode(), "they go with replays only", "leave --"+c.mode()+" out")
	}
	return c.loadFlags.Validate()
}

func (c *traceRunCmd) timed() bool { return c.Times || c.Timeline != "" }

func (c *traceRunCmd) mode() string {
	switch {
	case c.Step:
		return "step"
	case c.Split != nil:
		return "split"
	case c.Bisect:
		return "bisect"
	case c.Check:
		return "check"
	}
	return "replay"
}

type runJSON struct {
	File     string `json:"file"`
	Trace    string `json:"trace"`
	Device   string `json:"device"`
	Arch     string `json:"arch"`
	Queues   int    `json:"queues"`
	Programs int    `json:"programs"`
	Mode     string `json:"mode"` // "replay", "step", "split", "bisect" or "check"
	Replays  int    `json:"replays"`
	ReplayNs int64  `json:"replay_host_ns_p50"`
	// Results is "same", "different", "none" (the file has none) or "not compared".
	Results string          `json:"results"`
	Seconds float64         `json:"seconds"`
	Times   *timesJSON      `json:"times,omitempty"`
	Pieces  []pieceJSON     `json:"pieces,omitempty"`
	Found   *programAt      `json:"found,omitempty"`
	Buffers []runBufferJSON `json:"buffers"`
}

type programAt struct {
	Step  int               `json:"step"`
	Name  string            `json:"name"`
	Queue int               `json:"queue"`
	Loops []debug.Iteration `json:"loops,omitempty"` // in which the program is wrong, outermost first
}

func (p *programAt) in() string {
	var out string
	for _, l := range p.Loops {
		out += ", " + l.String()
	}
	return out
}

type pieceJSON struct {
	First programAt `json:"first"`
	Last  programAt `json:"last"`
}

type runBufferJSON struct {
	Name   string `json:"name"`
	Bytes  int    `json:"bytes"`
	SHA256 string `json:"sha256"`
}

func (c *traceRunCmd) Run(ctx context.Context, s cli.Streams) error {
	out, wrong, err := c.run(ctx, s)
	if err != nil {
		return err
	}
	return errors.Join(s.Print(c.JSON, out, out.print), wrong)
}

// run also returns what is wrong with a trace that ran.
func (c *traceRunCmd) run(ctx context.Context, s cli.Streams) (out *runJSON, wrong, err error) {
	t, devs, end, err := c.load(ctx, c.Hangs.Options()...)
	if err != nil {
		return nil, nil, err
	}
	defer func() { err = errors.Join(err, end()) }()
	dev := devs[0]
	if len(devs) > 1 && (c.mode() != "replay" || c.timed() || c.Prints != "") {
		return nil, nil, cli.Wrong("FILE", c.File, fmt.Sprintf("its trace is over %d devices, which are only replayed", len(devs)),
			"leave --step, --split, --bisect, --check, --times, --timeline and --prints out")
	}
	if c.Prints != "" {
		stop, cause := writePrints(dev, c.Prints, s.Err)
		if cause != nil {
			return nil, nil, cause
		}
		defer func() { err = errors.Join(err, stop()) }()
	}
	r := &traceRun{Trace: t, dev: dev, devs: devs, out: &runJSON{
		File: c.File, Trace: t.Name(), Device: cmp.Or(c.Device, fmt.Sprintf("%d emulated devices", len(devs))), Arch: dev.Arch().String(),
		Queues: len(t.Parts()), Programs: len(t.Debug().Programs()), Mode: c.mode(), Results: "not compared",
	}}
	for name, v := range c.Set {
		if err := t.Set(name, v); err != nil {
			return nil, nil, err
		}
	}
	models, err := c.models(ctx, devs, t)
	if err != nil {
		return nil, nil, err
	}
	r.compare = len(c.Input) == 0 && c.Weights == "" || c.recorded
	begin := time.Now()
	switch r.out.Mode {
	case "step", "split":
		wrong, err = r.inPieces(ctx, c.Split)
	case "bisect":
		wrong, err = r.bisect(ctx)
	case "check":
		wrong, err = r.check(ctx)
	default:
		wrong, err = c.replay(ctx, r)
	}
	if err != nil {
		return nil, nil, err
	}
	r.out.Seconds = time.Since(begin).Seconds()
	if r.out.Buffers, err = r.contents(ctx); err != nil {
		return nil, nil, err
	}
	if err := c.save(ctx, models); err != nil {
		return nil, nil, err
	}
	if err := t.Release(ctx); err != nil {
		return nil, nil, err
	}
	return r.out, wrong, nil
}

type traceRun struct {
	*reprise.Trace
	dev     *reprise.Device // the first
	devs    []*reprise.Device
	out     *runJSON
	compare bool
}

func (c *traceRunCmd) replay(ctx context.Context, r *traceRun) (wrong, err error) {
	if !c.timed() {
		return r.replay(ctx, c.Replays)
	}
	if err := cli.Creatable("--timeline", c.Timeline); err != nil {
		return nil, err
	}
	line, err := r.timed(ctx, func() (err error) {
		wrong, err = r.replay(ctx, c.Replays)
		return err
	})
	if err == nil && c.Timeline != "" {
		err = cli.Save(ctx, "--timeline", c.Timeline, line.WriteJSON)
	}
	return wrong, err
}

func (r *traceRun) replay(ctx context.Context, n int) (wrong, err error) {
	var times []time.Duration
	for i := range n {
		start := time.Now()
		if err := r.Replay(ctx); err != nil {
			return nil, err
		}
		times = append(times, time.Since(start))
		if i > 0 {
			continue
		}
		if wrong, err = r.results(ctx); err != nil {
			return nil, err
		}
	}
	r.out.Replays, r.out.ReplayNs = n, cli.Median(times)
	for _, dev := range r.devs {
		for i := range dev.Queues() {
			if err := dev.Queue(i).Wait(ctx); err != nil {
				return wrong, err
			}
		}
	}
	return wrong, nil
}

func (r *traceRun) results(ctx context.Context) (wrong, err error) {
	if !r.compare {
		return nil, nil
	}
	err = r.Debug().CheckResults(ctx)
	var v *debug.VerifyError
	switch {
	case err == nil:
		r.out.Results = "same"
	case errors.Is(err, debug.ErrNoResults):
		r.out.Results = "none"
	case errors.As(err, &v):
		r.out.Results = "different"
		return fmt.Errorf("%w; to find the program: reprise trace run %s --bisect", err, r.out.File), nil
	default:
		return nil, err
	}
	return nil, nil
}

func (r *traceRun) contents(ctx context.Context) ([]runBufferJSON, error) {
	out := []runBufferJSON{}
	for _, b := range r.Buffers() {
		data := make([]byte, b.Size())
		if err := b.Device().Queue(0).Read(ctx, b, 0, data); err != nil {
			return nil, err
		}
		sum := sha256.Sum256(data)
		name := nameOn(slices.Index(r.devs, b.Device()), len(r.devs), b.Name())
		out = append(out, runBufferJSON{name, b.Size(), hex.EncodeToString(sum[:])})
	}
	return out, nil
}

func (r *runJSON) print(w cli.Text) {
	w.F("%s: trace %s of %s on %s\n", r.File, tracebuf.Printable(r.Trace), cli.Count(r.Programs, "program"), r.Device)
	for _, p := range r.Pieces {
		w.F("  program %d %s", p.First.Step, tracebuf.Printable(p.First.Name))
		if p.Last.Step > p.First.Step {
			w.F(" to %d %s", p.Last.Step, tracebuf.Printable(p.Last.Name))
		} else if r.Queues > 1 {
			w.F(" on queue %d", p.First.Queue)
		}
		w.F("\n")
	}
	took := tables.Duration(1e9 * r.Seconds)
	switch r.Mode {
	case "replay":
		w.F("replayed %s in %s, %s of the host's time each (median)\n", cli.Count(r.Replays, "time"), took, tables.Duration(r.ReplayNs))
	case "step":
		w.F("ran %s one by one in %s\n", cli.Count(len(r.Pieces), "program"), took)
	case "split":
		w.F("replayed %s one after the other in %s\n", cli.Count(len(r.Pieces), "piece"), took)
	default:
		if r.Found == nil {
			w.F("a replay does what its programs do one by one\n")
		} else {
			w.F("program %d %s on queue %d%s is the first that goes wrong in a replay\n", r.Found.Step, tracebuf.Printable(r.Found.Name),
				r.Found.Queue, r.Found.in())
		}
	}
	w.F("%s", map[string]string{"same": "the results are those of the file\n", "different": "the results are not those of the file\n",
		"none": "the file has no results to compare with\n"}[r.Results])
	if r.Times != nil {
		defer r.Times.print(w, r.Replays)
	}
	for _, b := range r.Buffers {
		w.F("  %s  %12s  %s\n", b.SHA256[:16], cli.Bytes(b.Bytes), tracebuf.Printable(b.Name))
	}
}

func programsOf(t *reprise.Trace) []programAt {
	var out []programAt
	for i, s := range t.Debug().Programs() {
		out = append(out, programAt{Step: i, Name: s.Name, Queue: s.Queue})
	}
	return out
}

type loadFlags struct {
	File     string `arg:"" type:"existingfile"`
	Device   string `placeholder:"DEVICE"`
	Firmware string `placeholder:"DIR"`

	piped []byte // what came from a pipe, which is read once
}

func (c *loadFlags) Validate() (err error) {
	if c.Device != "" {
		_, err = cli.ParseMachine("--device", c.Device)
	}
	return err
}

func (c *loadFlags) readAll(ctx context.Context) ([]*tracebuf.File, error) {
	files, err := cli.Until(ctx, func() ([]*tracebuf.File, error) {
		f, err := c.open(ctx)
		if err != nil {
			return nil, err
		}
		defer f.Close()
		files, err := tracebuf.DecodeAll(bufio.NewReaderSize(f, 1<<16))
		if err != nil {
			return nil, fmt.Errorf("trace: %s: %w", c.File, err)
		}
		return files, nil
	})
	if err == nil && c.Device == "" && len(files) == 1 {
		c.Device = "emu:" + files[0].Target.Arch.String()
	}
	return files, err
}

// read refuses a trace of several devices.
func (c *loadFlags) read(ctx context.Context) (*tracebuf.File, error) {
	files, err := c.readAll(ctx)
	if err != nil {
		return nil, err
	}
	if len(files) > 1 {
		return nil, fmt.Errorf("trace: %s: %w: there are %d", c.File, tracebuf.ErrSeveralDevices, len(files))
	}
	return files[0], nil
}

func (c *loadFlags) open(ctx context.Context) (io.ReadCloser, error) {
	if c.piped != nil {
		return io.NopCloser(bytes.NewReader(c.piped)), nil
	}
	f, err := cli.Open(ctx, c.File)
	if err != nil {
		return nil, fmt.Errorf("trace: %w", err)
	}
	if st, err := f.Stat(); err != nil || st.Mode().IsRegular() {
		return f, err
	}
	defer f.Close()
	if c.piped, err = readRaw(f); err != nil {
		return nil, fmt.Errorf("trace: %s: %w", c.File, err)
	}
	return io.NopCloser(bytes.NewReader(c.piped)), nil
}

type traceVerifyCmd struct {
	loadFlags
	Addr *uint64 `placeholder:"ADDRESS"`
	cli.AsJSON
}

type verifyJSON struct {
	File   string `json:"file"`
	Device string `json:"device"`
	OK     bool   `json:"ok"`
	Bytes  int    `json:"bytes"`

	// The first difference, if any.
	Differ  int    `json:"different_bytes"`
	What    string `json:"what,omitempty"`
	Offset  int    `json:"offset"`
	Program *int   `json:"program,omitempty"`
	Name    string `json:"program_name,omitempty"`
	Command string `json:"command,omitempty"`
}

func (c *traceVerifyCmd) Run(ctx context.Context, s cli.Streams) error {
	f, err := c.read(ctx)
	if err != nil {
		return err
	}
	out := &verifyJSON{File: c.File, Device: c.Device}
	switch {
	case c.Addr != nil && len(f.Others) > 0:
		return fmt.Errorf("trace verify: %s has parts on %d queues, which lie at different places: leave --addr out", c.File,
			len(f.Others)+1)
	case c.Addr != nil: // 0 is an address as well
		out.Bytes = len(f.Image.Bytes)
		err = c.inPlace(ctx, f, out)
	default:
		for _, p := range partsAndCallees(f) {
			out.Bytes += len(p.Image.Bytes)
			for i := range p.Image.Programs {
				out.Bytes += len(p.Image.Programs[i].Binary)
			}
		}
		err = c.loaded(ctx, out)
	}
	if err != nil {
		return err
	}
	out.OK = out.Differ == 0
	if !out.OK {
		err = fmt.Errorf("trace verify: %d of %d B differ: %s", out.Differ, out.Bytes, out.where())
	}
	if c.JSON {
		return errors.Join(cli.PrintJSON(s.Out, out), err)
	}
	if err == nil {
		_, err = fmt.Fprintf(s.Out, "%s on %s: all of %d B are as they should be\n", out.File, out.Device, out.Bytes)
	}
	return err
}

func (o *verifyJSON) where() string {
	if o.Program == nil {
		return fmt.Sprintf("the first is byte %#x of %s", o.Offset, o.What)
	}
	return fmt.Sprintf("the first is byte %#x of %s, in program %d %s: %s", o.Offset, o.What, *o.Program, tracebuf.Printable(o.Name),
		o.Command)
}

func (c *traceVerifyCmd) loaded(ctx context.Context, out *verifyJSON) (err error) {
	t, _, end, err := c.load(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, end()) }()
	err = t.Debug().Verify(ctx)
	var v *debug.VerifyError
	if errors.As(err, &v) {
		out.Differ, out.What, out.Offset, err = v.Differ, v.What, v.Offset, nil
	}
	return errors.Join(err, t.Release(ctx))
}

func (c *traceVerifyCmd) inPlace(ctx context.Context, f *tracebuf.File, out *verifyJSON) error {
	target, err := cli.ParseTarget(c.Device)
	if err != nil {
		return err
	}
	got, ch, err := readDRAM(ctx, target, *c.Addr, f.Image.PageSize, f.Image.Pages())
	if err != nil {
		return cli.OpenError(c.Device, fmt.Errorf("trace verify: %s: %w", c.Device, err))
	}
	if ch.Arch() != f.Target.Arch {
		return fmt.Errorf("trace verify: %s is for %v, %s is %v", c.File, f.Target.Arch, c.Device, ch.Arch())
	}
	return out.compare(&f.Image, got)
}

func (o *verifyJSON) compare(im *tracebuf.Image, got []byte) error {
	c, err := tracebuf.Inspect(im)
	if err != nil {
		return err
	}
	want := bytes.Clone(im.Bytes)
	for _, r := range c.Relocated {
		copy(want[r.Start:r.End], got[r.Start:r.End])
	}
	for i := range want {
		if want[i] == got[i] {
			continue
		}
		if o.Differ++; o.Differ > 1 {
			continue
		}
		o.What, o.Offset = "the commands", i
		for n := range c.Steps {
			if s := &c.Steps[n]; i >= s.Offset && i < s.Offset+s.Size {
				o.Program, o.Name = &n, s.Name
			}
		}
		for n := range c.Commands {
			if r := &c.Commands[n]; i >= r.Offset && i < r.Offset+r.Size {
				o.Command = r.String()
			}
		}
	}
	return nil
}

// timesJSON says where the device's time goes in the replays, in cycles of its clock.
type timesJSON struct {
	ClockMHz float64           `json:"clock_mhz,omitempty"` // absent where the device doesn't tell
	Dropped  int               `json:"dropped,omitempty"`   // programs without a time
	Queues   []queueTimeJSON   `json:"queues"`
	Programs []programTimeJSON `json:"programs"` // the longest first
}

type queueTimeJSON struct {
	Queue   int    `json:"queue"`
	Cycles  uint64 `json:"cycles"`
	Between uint64 `json:"cycles_between_programs"` // fetching commands, waiting for others
}

// programTimeJSON is about all runs of one program on a queue. A program's time begins when earlier
// ones are done, and so includes its launch.
type programTimeJSON struct {
	Name    string  `json:"name"`
	Queue   int     `json:"queue"`
	First   int     `json:"first"` // place of its first run; 0 with control flow
	Runs    int     `json:"runs"`
	Cycles  uint64  `json:"cycles"`
	Longest uint64  `json:"longest_cycles"`
	Share   float64 `json:"share"` // of its queue's cycles
}

// timed runs do and adds up the device's times of programs.
func (r *traceRun) timed(ctx context.Context, do func() error) (line *observe.Timeline, err error) {
	if line, err = observe.StartTimeline(ctx, r.dev); err != nil {
		return nil, err
	}
	if err := errors.Join(do(), line.Stop(ctx)); err != nil {
		return nil, err
	}
	out := &timesJSON{Dropped: line.Dropped()}
	if out.ClockMHz, err = r.dev.AIClock(ctx); err != nil && !errors.Is(err, dispatch.ErrNoClock) {
		return nil, err
	}
	for _, s := range line.Spans() {
		if s.Queue < 0 || s.Object != r.Trace {
			continue
		}
		i := slices.IndexFunc(out.Queues, func(q queueTimeJSON) bool { return q.Queue == s.Queue })
		if i < 0 {
			i = len(out.Queues)
			out.Queues = append(out.Queues, queueTimeJSON{Queue: s.Queue})
		}
		out.Queues[i].Cycles += s.EndCycles - s.StartCycles
	}
	out.addPrograms(line.Programs(), r.places(out.Dropped))
	if len(out.Programs) == 0 {
		return nil, fmt.Errorf("trace run: %s notes no times of programs: leave --times and --timeline out", r.out.Device)
	}
	r.out.Times = out
	return line, nil
}

// places returns the place of each program's first run, for each run of a replay, by queue: none
// where control flow decides what runs, or runs are missing.
func (r *traceRun) places(dropped int) map[int][]int {
	out := map[int][]int{}
	for _, part := range r.Parts() {
		if _, ok := observe.ReplayedPrograms(part); !ok || dropped > 0 {
			continue
		}
		first, runs := map[int]int{}, 0
		for _, s := range part.Steps {
			if s.Program == tracebuf.NoProgram {
				continue
			}
			if _, ok := first[s.Program]; !ok {
				first[s.Program] = runs
			}
			out[part.Queue.ID()] = append(out[part.Queue.ID()], first[s.Program])
			runs++
		}
	}
	return out
}

func (t *timesJSON) addPrograms(spans []observe.ProgramSpan, places map[int][]int) {
	for i := range t.Queues {
		q := &t.Queues[i]
		q.Between = q.Cycles
		runs := 0
		for _, s := range spans {
			if s.Queue != q.Queue {
				continue
			}
			first := 0
			if at := places[q.Queue]; len(at) > 0 {
				first = at[runs%len(at)]
				runs++
			}
			k := slices.IndexFunc(t.Programs, func(p programTimeJSON) bool {
				return p.Name == s.Name && p.Queue == s.Queue && p.First == first
			})
			if k < 0 {
				k = len(t.Programs)
				t.Programs = append(t.Programs, programTimeJSON{Name: s.Name, Queue: s.Queue, First: first})
			}
			p, n := &t.Programs[k], s.End-s.Start
			p.Runs, p.Cycles, p.Longest = p.Runs+1, p.Cycles+n, max(p.Longest, n)
			p.Share = float64(p.Cycles) / float64(q.Cycles)
			q.Between -= min(n, q.Between)
		}
	}
	slices.SortStableFunc(t.Programs, func(a, b programTimeJSON) int { return cmp.Compare(b.Cycles, a.Cycles) })
}

func (t *timesJSON) print(w cli.Text, replays int) {
	p := &t.Programs[0]
	w.F("\nbottleneck: %s takes %.1f %% of queue %d's time\n\n", p.name(), 100*p.Share, p.Queue)
	time := func(cycles uint64) string {
		if t.ClockMHz == 0 {
			return tables.Count(float64(cycles)) + " cycles"
		}
		return tables.Duration(float64(cycles) * 1e3 / t.ClockMHz)
	}
	table := w.Table()
	table.Head("program", "queue", "runs", "in a replay", "share", "mean", "longest")
	for _, p := range t.Programs {
		table.Row(p.name(), p.Queue, p.Runs, time(p.Cycles/uint64(replays)), fmt.Sprintf("%.1f %%", 100*p.Share),
			time(p.Cycles/uint64(p.Runs)), time(p.Longest))
	}
	for _, q := range t.Queues {
		share := fmt.Sprintf("%.1f %%", 100*float64(q.Between)/float64(q.Cycles))
		table.Row("between programs", q.Queue, "-", time(q.Between/uint64(replays)), share, "-", "-")
	}
	table.Flush()
	if t.Dropped > 0 {
		w.F("%s more ran than times were read in time\n", cli.Count(t.Dropped, "program"))
	}
}

func (p *programTimeJSON) name() string {
	return fmt.Sprintf("%d %s", p.First, cmp.Or(tracebuf.Printable(p.Name), "unknown"))
}

// load opens no device for a bad file, and otherwise with the queues that the trace needs. end
// closes the devices.
func (c *loadFlags) load(ctx context.Context, opts ...reprise.Option) (t *reprise.Trace, devs []*reprise.Device, end func() error,
	err error) {
	files, err := c.readAll(ctx)
	if err != nil {
		return nil, nil, nil, err
	}
	t, devs, end, err = c.loadInto(ctx, files, false, opts)
	var other *tracebuf.TargetError
	if errors.As(err, &other) && other.What == "grid of workers" {
		// Devices of the right kind can have these workers.
		t, devs, end, err = c.loadInto(ctx, files, true, opts)
	}
	return t, devs, end, err
}

func (c *loadFlags) loadInto(ctx context.Context, files []*tracebuf.File, workers bool, opts []reprise.Option) (t *reprise.Trace,
	devs []*reprise.Device, end func() error, err error) {
	cards, stop, err := c.cards(files)
	if err != nil {
		return nil, nil, nil, err
	}
	f, err := c.open(ctx)
	if err != nil {
		return nil, nil, nil, errors.Join(err, stop())
	}
	defer f.Close()
	end = func() error {
		var errs []error
		for _, d := range devs {
			errs = append(errs, d.Close(ctx))
		}
		return errors.Join(append(errs, stop())...)
	}
	for i, card := range cards {
		file := cmp.Or(files[i], &tracebuf.File{})
		dev, err := reprise.Open(ctx, card, append(slices.Clip(opts), c.options(file, workers)...)...)
		if err != nil {
			return nil, nil, nil, errors.Join(cli.OpenError(c.Device, err), end())
		}
		devs = append(devs, dev)
		if sets := file.Target.SubDevices; sets != nil {
			s, err := dev.NewSubDevices(0, sets...)
			if err == nil {
				err = s.Load(ctx)
			}
			if err != nil {
				return nil, nil, nil, errors.Join(fmt.Errorf("%s: %w", c.File, err), end())
			}
		}
	}
	if t, err = devs[0].LoadTrace(ctx, bufio.NewReaderSize(f, 1<<16), reprise.WithDevices(devs[1:]...)); err != nil {
		return nil, nil, nil, errors.Join(fmt.Errorf("%s: %w", c.File, err), end())
	}
	return t, devs, end, nil
}

// options are those of a device with the firmware, and if asked for the workers, of a trace.
func (c *loadFlags) options(file *tracebuf.File, workers bool) (opts []reprise.Option) {
	if c.Firmware != "" {
		var wheel []string
		if file.Target.Layout != "" {
			wheel = []string{file.Target.Layout}
		}
		opts = append(opts, reprise.WithFirmware(c.Firmware, wheel...))
	}
	if workers && !file.Target.Workers.Empty() {
		opts = append(opts, reprise.WithQueues(len(file.Others)+1))
		for i, p := range file.Parts() {
			opts = append(opts, reprise.WithQueueWorkers(i, p.Target.Workers))
		}
	}
	return opts
}

// cards starts the machine that the user named, or an emulated one as in the recording.
func (c *loadFlags) cards(files []*tracebuf.File) (cards []kmd.Target, stop func() error, err error) {
	if len(files) == 1 {
		t, err := cli.ParseTarget(c.Device)
		return []kmd.Target{t}, func() error { return nil }, err
	}
	if c.Device != "" {
		m, err := cli.ParseMachine("--device", c.Device)
		if err != nil {
			return nil, nil, err
		}
		if cards, stop, err = m.Open(); err == nil && len(cards) != len(files) {
			err = errors.Join(&tracebuf.TargetError{What: "number of devices", Trace: fmt.Sprint(len(files)), Here: fmt.Sprint(len(cards)),
				Do: "name a machine with as many cards"}, stop())
		}
		return cards, stop, err
	}
	spec := recordedMachine(files)
	d, err := cli.ParseDevice("--device", "emu:"+spec.Arch.String())
	if err != nil {
		return nil, nil, err
	}
	m, err := d.Linked(spec)
	if err != nil {
		return nil, nil, err
	}
	return m.Cards, m.Close, nil
}

// recordedMachine has the chips and links that a trace over several devices needs.
func recordedMachine(files []*tracebuf.File) chip.Machine {
	spec := chip.Machine{Name: "recorded", Shape: [2]int{1, len(files)}}
	for i, f := range files {
		c := chip.MachineChip{Board: i, Kind: chip.BoardP150, PCI: true}
		if f != nil {
			spec.Arch, c.Harvesting = f.Target.Arch, f.Target.Harvesting
		}
		spec.Chips = append(spec.Chips, c)
		if f == nil || f.Setup == nil {
			continue
		}
		for _, l := range f.Setup.Links {
			if i < l.PeerChip {
				spec.Links = append(spec.Links, l)
			}
		}
	}
	return spec
}

// tensorFlags name files for the tensors of a trace.
type tensorFlags struct {
	Input   []string `placeholder:"[NAME=]FILE" sep:"none"`
	Output  []string `short:"o" placeholder:"[NAME=]FILE" sep:"none"`
	Weights string   `placeholder:"FILE" type:"existingfile"`
}

// loadedModel are the tensors of a trace on one of its devices.
type loadedModel struct {
	*ops.Model
	d *ops.Device
}

// nameOn names what one of several devices has, such as 1:out.
func nameOn(device, of int, name string) string {
	if of == 1 {
		return name
	}
	return fmt.Sprintf("%d:%s", device, name)
}

// models returns the tensors of a trace by device, with the weights and inputs that the flags name.
func (c *tensorFlags) models(ctx context.Context, devs []*reprise.Device, t *reprise.Trace) (models []loadedModel, err error) {
	for _, dev := range devs {
		d := ops.New(dev)
		m, err := d.LoadedModel(t)
		if err != nil {
			return nil, err
		}
		missing := m.Missing()
		switch {
		case c.Weights != "":
			if err := withWeights(c.Weights, func(f *safetensors.File) error { return m.LoadWeights(ctx, f.Tensor) }); err != nil {
				return nil, err
			}
		case len(missing) > 0:
			return nil, cli.Wrong("--weights", "", fmt.Sprintf("the trace takes %s from a safetensors file, such as %s",
				cli.Count(len(missing), "tensor"), missing[0]), "give the model's file, or another with the same tensors")
		}
		models = append(models, loadedModel{m, d})
	}
	for _, arg := range c.Input {
		err := c.each(models, "--input", arg, (*ops.Model).Inputs, func(d *ops.Device, t *ops.Tensor, file string) error {
			f, err := cli.Open(ctx, file)
			if err != nil {
				return err
			}
			defer f.Close()
			h, err := npy.Read(f, t.Spec().DType)
			if err != nil {
				return fmt.Errorf("%s: %w", file, err)
			}
			return d.CopyHostToDevice(ctx, h, t)
		})
		if err != nil {
			return nil, err
		}
	}
	return models, nil
}

func withWeights(file string, do func(*safetensors.File) error) error {
	f, err := safetensors.Open(file)
	if err != nil {
		return err
	}
	return errors.Join(do(f), f.Close())
}

// save writes the outputs that the flags name.
func (c *tensorFlags) save(ctx context.Context, models []loadedModel) error {
	for _, arg := range c.Output {
		err := c.each(models, "--output", arg, (*ops.Model).Results, func(d *ops.Device, t *ops.Tensor, file string) error {
			h, err := d.ToHost(ctx, t)
			if err != nil {
				return err
			}
			var b bytes.Buffer
			if err := npy.Write(&b, h); err != nil {
				return err
			}
			return cli.SaveBytes(ctx, "--output", file, b.Bytes())
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// each calls do for the tensor of a flag: the only one of names if it names none.
func (c *tensorFlags) each(models []loadedModel, flag, arg string, names func(*ops.Model) []string,
	do func(d *ops.Device, t *ops.Tensor, file string) error) error {
	var all []string
	for i, m := range models {
		for _, name := range names(m.Model) {
			all = append(all, nameOn(i, len(models), name))
		}
	}
	name, file, named := strings.Cut(arg, "=")
	if !named {
		if file = arg; len(all) != 1 {
			return cli.Wrong(flag, arg, fmt.Sprintf("the trace has %s: %s", cli.Count(len(all), "tensor"), strings.Join(all, ", ")),
				"give NAME=FILE")
		}
		name = all[0]
	}
	m := models[0]
	if len(models) > 1 {
		device, rest, _ := strings.Cut(name, ":")
		i, err := strconv.Atoi(device)
		if err != nil || i < 0 || i >= len(models) {
			return cli.Wrong(flag, arg, fmt.Sprintf("it names none of %d devices", len(models)), "give such as 1:NAME=FILE")
		}
		m, name = models[i], rest
	}
	t, err := m.Tensor(name)
	if err != nil {
		return cli.Wrong(flag, arg, err.Error(), "see reprise trace stat").By(err)
	}
	return do(m.d, t, file)
}

type tensorJSON struct {
	Shape      []int  `json:"shape"`
	DType      string `json:"dtype"`
	Tiles      bool   `json:"tiles"`
	Input      bool   `json:"input"`
	Weight     string `json:"weight,omitempty"`
	Transposed bool   `json:"transposed,omitempty"`
}

func toTensor(t *tracebuf.Tensor) *tensorJSON {
	if t == nil {
		return nil
	}
	j := tensorJSON(*t)
	return &j
}

// String follows what is said about the buffer.
func (t *tensorJSON) String() string {
	if t == nil {
		return ""
	}
	text := fmt.Sprintf("; %v %s", t.Shape, tracebuf.Printable(t.DType))
	if t.Tiles {
		text += " in tiles"
	}
	if t.Input {
		text += ", input"
	}
	if t.Weight != "" {
		text += ", from " + tracebuf.Printable(t.Weight)
	}
	if t.Transposed {
		text += " transposed"
	}
	return text
}

// tensorFlag says which tensor a buffer holds.
type tensorFlag struct {
	value, name string
	buffer      string // name or address
	tensor      tracebuf.Tensor
	pages       reprise.BufferConfig
}

var tensorForm = regexp.MustCompile(`^([^=]+)=([0-9]+(?:x[0-9]+)*):([^:@]*)(:tile|:row_major)?(?:@(.*))?$`)

func parseTensor(s string) (f tensorFlag, err error) {
	bad := func(why string) (tensorFlag, error) {
		return f, cli.Wrong("--tensor", s, why, "give such as x=1x1x64x64:bfloat16@in0 or ids=1x32:uint32:row_major@0x20000")
	}
	p := tensorForm.FindStringSubmatch(s)
	if p == nil {
		return bad("it isn't name=shape:type[:tile|:row_major][@buffer]")
	}
	f = tensorFlag{value: s, name: p[1], buffer: cmp.Or(p[5], p[1])}
	f.tensor = tracebuf.Tensor{DType: strings.ToUpper(p[3]), Tiles: p[4] != ":row_major"}
	for d := range strings.SplitSeq(p[2], "x") {
		n, _ := strconv.Atoi(d) // the largest int for more
		f.tensor.Shape = append(f.tensor.Shape, n)
	}
	spec, err := ops.SpecOf(&tracebuf.Buffer{Tensor: &f.tensor})
	if err == nil {
		f.pages, err = spec.BufferConfig(f.name)
	}
	if err != nil {
		return bad(err.Error())
	}
	return f, nil
}

// describe gives the buffer the tensor.
func (f *tensorFlag) describe(o *metaltrace.FileOptions, align int) error {
	addr, err := strconv.ParseUint(f.buffer, 0, 64)
	at := slices.IndexFunc(o.Buffers, func(b tracebuf.Buffer) bool {
		return b.Kind == tracebuf.KindDRAM && b.Sharding == nil && (b.Name == f.buffer || err == nil && b.Addr == addr)
	})
	named := slices.IndexFunc(o.Buffers, func(b tracebuf.Buffer) bool { return b.Name == f.name })
	switch {
	case at < 0:
		return cli.Wrong("--tensor", f.value, fmt.Sprintf("the trace has no buffer %s in interleaved DRAM", f.buffer), "give one of "+
			cli.List(o.Buffers, func(b tracebuf.Buffer) string { return fmt.Sprintf("%s (at %#x)", tracebuf.Printable(b.Name), b.Addr) }))
	case named >= 0 && named != at:
		return cli.Wrong("--tensor", f.value, "another buffer has this name", "give another name")
	}
	b := &o.Buffers[at]
	n := f.pages.PageSize
	if f.pages.Size/n != b.Pages() || n > b.PageSize || (n+align-1)/align*align != b.Stride {
		return cli.Wrong("--tensor", f.value, fmt.Sprintf("the tensor is %s in DRAM, the buffer %s", pagesText(f.pages.Size, n),
			pagesText(b.Size, b.PageSize)), "give the shape, type and layout of the program's tensor")
	}
	// A recording names the inputs that no variable holds in0, in1 and so on.
	f.tensor.Input = b.Tensor == nil && strings.HasPrefix(b.Name, "in") || b.Tensor != nil && b.Tensor.Input
	for _, list := range [][]tracebuf.Data{o.Data, o.Results} {
		for i := range list {
			if d := &list[i]; d.Buffer == at {
				var cut []byte // what aligns pages
				for p := range slices.Chunk(d.Bytes, b.PageSize) {
					cut = append(cut, p[:n]...)
				}
				d.Bytes = cut
			}
		}
	}
	b.Name, b.Tensor, b.PageSize, b.Size = f.name, &f.tensor, n, f.pages.Size
	return nil
}

func pagesText(size, page int) string { return cli.Count(size/page, "page") + " of " + cli.Bytes(page) }
