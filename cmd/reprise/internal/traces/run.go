package traces

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"time"

	"github.com/dustin/go-humanize"

	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/cmd/reprise/internal/cli"
	"github.com/reprise-tt/reprise/kernels/print"
	"github.com/reprise-tt/reprise/tracebuf"
	"github.com/reprise-tt/reprise/tracebuf/debug"
)

func (r *traceRun) ran(first, end int) {
	all := programsOf(r.Trace)
	r.out.Pieces = append(r.out.Pieces, pieceJSON{all[first], all[end-1]})
}

func (r *traceRun) step(ctx context.Context) (wrong, err error) {
	if err := r.Debug().Step(ctx, func(i int) error { r.ran(i, i+1); return nil }); err != nil {
		return nil, err
	}
	return r.results(ctx)
}

func (r *traceRun) split(ctx context.Context, pieces int) (wrong, err error) {
	if err := r.Debug().Split(ctx, pieces, func(first, end int) error { r.ran(first, end); return nil }); err != nil {
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

// bisect records the buffers' contents after each program run one by one, and finds the shortest
// prefix of the trace that leaves other contents when replayed, or hangs. At the end the buffers
// have their original contents.
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
	var want [][]runBufferJSON // after each program
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
	return fmt.Errorf(
		"trace run: program %d %s%s is the first with which a replay hangs, or leaves something else in the buffers than the programs one by one",
		p.Step,
		tracebuf.Printable(p.Name),
		p.in(),
	), nil
}

// writePrints writes the prints of a device's kernels to a file, or to errs for the name -, until
// stop is called before the device is closed.
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
	File     string            `arg:"" help:"Trace file to run." type:"existingfile"`
	Device   string            `help:"${device_help}; the emulator of the file's chip if not given." placeholder:"DEVICE"`
	Firmware string            `help:"Folder with the base firmware of tt-metal that the trace's kernels need." placeholder:"DIR"`
	Replays  int               `help:"How many times to replay the trace." default:"1"`
	Set      map[string]uint32 `help:"Set a parameter to another value than the file's. Can be repeated." placeholder:"NAME=VALUE" mapsep:"none"`
	Step     bool              `help:"Run the trace program by program, waiting for each." xor:"mode"`
	Split    *int              `help:"Replay the trace in this many pieces, waiting for each." placeholder:"N" xor:"mode"`
	Bisect   bool              `help:"Find the first program at which a replay hangs, or leaves other data in the buffers than the programs run one by one." xor:"mode"`
	Check    bool              `help:"Compare a replay with running the programs one by one, and name the first program that differs. Unlike --bisect, this ends at the first hang." xor:"mode"`
	Prints   string            `help:"Write what kernels print to a file, or with - to standard error." placeholder:"FILE"`
	JSON     bool              `help:"Print one JSON object instead of text." name:"json"`
	cli.Hangs
}

// Help is shown by --help.
func (traceRunCmd) Help() string {
	return "The buffers of the file are allocated at the addresses that they had when the trace was recorded, or at others if parameters name all of those addresses, and filled with the data that the file has for them. Results that the file has are compared after the first replay, or after all steps or pieces. The programs of a trace over several queues are numbered in an order that its edges allow."
}

// Validate checks the flags.
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
	if c.Device == "" {
		return nil
	}
	_, err := cli.ParseTarget(c.Device)
	return err
}

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
	Queues   int    `json:"queues"`   // that it has parts on
	Programs int    `json:"programs"` // that a replay runs
	Mode     string `json:"mode"`     // "replay", "step", "split", "bisect" or "check"
	// Replays and ReplayNs are of mode replay.
	Replays  int   `json:"replays"`
	ReplayNs int64 `json:"replay_host_ns_p50"`
	// Results compares with those in the file: "same", "different", "none" (the file has none) or
	// "not compared" (bisect and check).
	Results string  `json:"results"`
	Seconds float64 `json:"seconds"` // that it took
	// Pieces are those that step and split ran.
	Pieces []pieceJSON `json:"pieces,omitempty"`
	// Found is the first wrong program found by bisect or check.
	Found   *programAt      `json:"found,omitempty"`
	Buffers []runBufferJSON `json:"buffers"`
}

// programAt is a program of a trace.
type programAt struct {
	Step  int    `json:"step"`
	Name  string `json:"name"`
	Queue int    `json:"queue"`
	// Loops are the iterations in which the program is wrong, outermost first.
	Loops []debug.Iteration `json:"loops,omitempty"`
}

// in returns text such as ", loop 0, iteration 2 of 5"; empty outside of loops.
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
	SHA256 string `json:"sha256"` // of what it holds in the end
}

func (c *traceRunCmd) Run(ctx context.Context, s cli.Streams) (err error) {
	t, dev, err := loadTrace(ctx, c.File, &c.Device, withFirmware(c.Firmware, c.Hangs.Options()...)...)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, dev.Close(ctx)) }()
	if c.Prints != "" {
		stop, cause := writePrints(dev, c.Prints, s.Err)
		if cause != nil {
			return cause
		}
		defer func() { err = errors.Join(err, stop()) }()
	}
	r := &traceRun{Trace: t, replayer: t, checkResults: t.Debug().CheckResults, dev: dev, out: &runJSON{
		File: c.File, Trace: t.Name(), Device: c.Device, Arch: dev.Arch().String(), Queues: len(t.Parts()), Programs: len(t.Debug().Programs()),
		Mode: c.mode(), Results: "not compared",
	}}
	for name, v := range c.Set {
		if err := t.Set(name, v); err != nil {
			return err
		}
	}
	begin := time.Now()
	// wrong is printed after everything else.
	var wrong error
	switch r.out.Mode {
	case "step":
		wrong, err = r.step(ctx)
	case "split":
		wrong, err = r.split(ctx, *c.Split)
	case "bisect":
		wrong, err = r.bisect(ctx)
	case "check":
		wrong, err = r.check(ctx)
	default:
		wrong, err = r.replay(ctx, c.Replays)
	}
	if err != nil {
		return err
	}
	r.out.Seconds = time.Since(begin).Seconds()
	if r.out.Buffers, err = r.contents(ctx); err != nil {
		return err
	}
	if err := t.Release(ctx); err != nil {
		return err
	}
	return errors.Join(s.Print(c.JSON, r.out, r.out.print), wrong)
}

type traceRun struct {
	*reprise.Trace
	replayer replayer // the trace
	// checkResults compares the buffers with the results in the trace's file.
	checkResults func(context.Context) error
	dev          *reprise.Device
	out          *runJSON
}

// replayer is the part of a trace that replays need.
type replayer interface {
	Replay(context.Context) error
}

func (r *traceRun) finish(ctx context.Context) error {
	for i := range r.dev.Queues() {
		if err := r.dev.Queue(i).Wait(ctx); err != nil {
			return err
		}
	}
	return nil
}

// replay compares the results after the first replay.
func (r *traceRun) replay(ctx context.Context, n int) (wrong, err error) {
	var times []time.Duration
	for i := range n {
		start := time.Now()
		if err := r.replayer.Replay(ctx); err != nil {
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
	return wrong, r.finish(ctx)
}

// results compares the buffers with the file's results.
func (r *traceRun) results(ctx context.Context) (wrong, err error) {
	err = r.checkResults(ctx)
	var v *debug.VerifyError
	switch {
	case err == nil:
		r.out.Results = "same"
	case errors.Is(err, debug.ErrNoResults):
		r.out.Results = "none"
	case errors.As(err, &v):
		r.out.Results = "different"
		return err, nil
	default:
		return nil, err
	}
	return nil, nil
}

// contents returns hashes of the buffers.
func (r *traceRun) contents(ctx context.Context) ([]runBufferJSON, error) {
	out := []runBufferJSON{}
	for _, b := range r.Buffers() {
		data := make([]byte, b.Size())
		if err := r.dev.Queue(0).Read(ctx, b, 0, data); err != nil {
			return nil, err
		}
		sum := sha256.Sum256(data)
		out = append(out, runBufferJSON{b.Name(), b.Size(), hex.EncodeToString(sum[:])})
	}
	return out, nil
}

func (r *runJSON) print(out io.Writer) error {
	w := bufio.NewWriter(out)
	fmt.Fprintf(w, "%s: trace %s of %s on %s\n", r.File, tracebuf.Printable(r.Trace), cli.Count(r.Programs, "program"), r.Device)
	for _, p := range r.Pieces {
		fmt.Fprintf(w, "  program %d %s", p.First.Step, tracebuf.Printable(p.First.Name))
		if p.Last.Step > p.First.Step {
			fmt.Fprintf(w, " to %d %s", p.Last.Step, tracebuf.Printable(p.Last.Name))
		} else if r.Queues > 1 {
			fmt.Fprintf(w, " on queue %d", p.First.Queue)
		}
		fmt.Fprintln(w)
	}
	switch r.Mode {
	case "replay":
		fmt.Fprintf(w, "replayed %s in %.3f s, %s of the host's time each (median)\n", cli.Count(r.Replays, "time"), r.Seconds,
			cli.Nanoseconds(r.ReplayNs))
	case "step":
		fmt.Fprintf(w, "ran %s one by one in %.3f s\n", cli.Count(len(r.Pieces), "program"), r.Seconds)
	case "split":
		fmt.Fprintf(w, "replayed %s one after the other in %.3f s\n", cli.Count(len(r.Pieces), "piece"), r.Seconds)
	default:
		if r.Found == nil {
			fmt.Fprintln(w, "a replay does what its programs do one by one")
		} else {
			fmt.Fprintf(w, "program %d %s on queue %d%s is the first that goes wrong in a replay\n", r.Found.Step, tracebuf.Printable(r.Found.Name),
				r.Found.Queue, r.Found.in())
		}
	}
	switch r.Results {
	case "same":
		fmt.Fprintln(w, "the results are those of the file")
	case "different":
		fmt.Fprintln(w, "the results are not those of the file")
	case "none":
		fmt.Fprintln(w, "the file has no results to compare with")
	}
	for _, b := range r.Buffers {
		fmt.Fprintf(w, "  %s  %10s B  %s\n", b.SHA256[:16], humanize.Comma(int64(b.Bytes)), tracebuf.Printable(b.Name))
	}
	return w.Flush()
}
