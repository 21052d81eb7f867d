package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/dustin/go-humanize"
	"golang.org/x/sync/errgroup"

	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/cmd/reprise/internal/cli"
	"github.com/reprise-tt/reprise/examples/words"
	"github.com/reprise-tt/reprise/examples/words/transformer"
	"github.com/reprise-tt/reprise/examples/words/transformer/reference"
	"github.com/reprise-tt/reprise/internal/tables"
	"github.com/reprise-tt/reprise/kmd"
	"github.com/reprise-tt/reprise/ops"
	"github.com/reprise-tt/reprise/stream"
)

const maxTokens = 1_000_000

// GenerateCmd invents words.
type GenerateCmd struct {
	Device      string  `default:"emu:blackhole" placeholder:"DEVICE"`
	Tokens      int     `default:"100"`
	Seed        uint64  `default:"1"`
	Temperature float64 `default:"1"`
	Hosts       string  `enum:"one,mpi" default:"one" placeholder:"ENGINE"`
	cli.AsJSON
	cli.Hangs

	target kmd.Target
}

// Validate checks what can be checked without a device.
func (c *GenerateCmd) Validate() error {
	if c.Tokens < 1 || c.Tokens > maxTokens {
		return cli.Wrong("--tokens", c.Tokens, "it isn't a number of tokens", fmt.Sprintf("give 1 to %d", maxTokens))
	}
	if _, err := c.sampling().Start(); err != nil || c.Temperature == 0 {
		return cli.Wrong("--temperature", c.Temperature, "it isn't a temperature", "give a number from 0.0625 to 16")
	}
	var err error
	c.target, err = cli.ParseTarget(c.Device)
	return err
}

func (c *GenerateCmd) sampling() transformer.Sampling {
	return transformer.Sampling{Seed: c.Seed, Tokens: c.Tokens, Temperature: c.Temperature}
}

// Generated is the result; its JSON form is for scripts.
type Generated struct {
	Device      string  `json:"device"`
	Arch        string  `json:"arch"`
	Seed        uint64  `json:"seed"`
	Temperature float64 `json:"temperature"`
	Parameters  int     `json:"parameters"`
	Programs    int     `json:"programs"`
	generation
	Runs []generation `json:"runs"`

	Words []string `json:"words"`
	// Words in the part of the list that the network was trained on, and in the part held back.
	Trained       int     `json:"words_trained"`
	HeldBack      int     `json:"words_held_back"`
	HeldBackShare float64 `json:"held_back_share"`
	Mismatches    int     `json:"mismatches"`
	Seconds       float64 `json:"seconds"`
}

type generation struct {
	Mode        string  `json:"mode"` // loop: one trace that loops; replay: a replay for each token; eager: all programs for each token
	Tokens      int     `json:"tokens"`
	Submissions int     `json:"submissions"`
	HostBytes   int     `json:"host_bytes"`
	PerSecond   float64 `json:"tokens_per_second"`
}

func (c *GenerateCmd) Run(ctx context.Context, s cli.Streams) (err error) {
	ctx, j, err := startJob(ctx, c.Hosts, s.Who)
	if err != nil {
		return err
	}
	defer func() { err = j.end(ctx, err) }()
	c.Seed += uint64(j.Rank())
	show := &wordWriter{w: s.Out}
	if c.JSON || j.Size() > 1 {
		show.w = io.Discard
	}
	res, failed := c.generate(ctx, show)
	if res == nil {
		return failed
	}
	// Tokens that differ from the host's are printed too.
	if j.Size() > 1 {
		all, err := collectJSON(ctx, j, "collect words", res)
		if err == nil && j.Rank() == 0 {
			err = s.Print(c.JSON, map[string]any{"processes": all}, func(w cli.Text) { printTogether(w, all) })
		}
		return errors.Join(err, failed)
	}
	return errors.Join(s.Print(c.JSON, res, res.print), failed)
}

// generate returns both the result and an error if tokens differ from the host's.
func (c *GenerateCmd) generate(ctx context.Context, show *wordWriter) (res *Generated, err error) {
	start := time.Now()
	net, err := transformer.Trained()
	if err != nil {
		return nil, err
	}
	dev, err := reprise.Open(ctx, c.target, c.Hangs.Options()...)
	if err != nil {
		return nil, cli.OpenError(c.Device, err)
	}
	defer func() { err = errors.Join(err, dev.Close(ctx)) }()
	d := ops.New(dev)
	// After an interrupt closing the device ends the work at once.
	defer func() { err = errors.Join(err, d.Release(ctx)) }()
	made, err := stream.New(dev, stream.Config{Name: "tokens", Direction: stream.ToHost})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, made.Release(ctx)) }()
	m, err := transformer.Load(ctx, d, net, c.Tokens, transformer.WithStream(made))
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, m.Close(ctx)) }()

	g := &generator{dev: dev, model: m, made: made, sampling: c.sampling()}
	if err := g.compile(ctx); err != nil {
		return nil, err
	}
	res = &Generated{Device: c.Device, Arch: dev.Arch().String(), Seed: c.Seed, Temperature: c.Temperature,
		Parameters: net.Parameters(), Programs: g.programs}
	var want []uint8
	var wrong mismatches
	for i, mode := range []string{"loop", "replay", "eager"} {
		r, tokens, err := g.run(ctx, mode, show)
		if err := errors.Join(err, show.end()); err != nil {
			return nil, err
		}
		if i == 0 {
			res.generation, res.Words = r, words.Decode(tokens)
			show = &wordWriter{w: io.Discard}
			if want, err = onHost(ctx, dev.Arch(), net, c.sampling()); err != nil {
				return nil, err
			}
		}
		res.Runs = append(res.Runs, r)
		compare(&wrong, tokens, want, func(i int) string {
			return fmt.Sprintf("token %d, mode %s: the device made %d, the arithmetic of the engines on the host gives %d", i, mode,
				tokens[i], want[i])
		})
	}
	if err := res.count(); err != nil {
		return nil, err
	}
	res.Seconds, res.Mismatches = time.Since(start).Seconds(), wrong.count
	return res, wrong.err("token")
}

func (r *Generated) count() error {
	all, err := words.All()
	if err != nil {
		return err
	}
	training, heldBack := words.Split(all)
	has := func(list []string, w string) bool { _, ok := slices.BinarySearch(list, w); return ok }
	for _, w := range r.Words {
		switch {
		case has(training, w):
			r.Trained++
		case has(heldBack, w):
			r.HeldBack++
		}
	}
	if len(r.Words) > 0 {
		r.HeldBackShare = float64(r.HeldBack) / float64(len(r.Words))
	}
	return nil
}

func onHost(ctx context.Context, arch chip.Arch, net *transformer.Network, s transformer.Sampling) ([]uint8, error) {
	m, err := reference.New(arch, net, s)
	if err != nil {
		return nil, err
	}
	var tokens []uint8
	for m.Step() {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		tokens = append(tokens, uint8(m.State().Token))
	}
	return tokens, nil
}

type generator struct {
	dev      *reprise.Device
	model    *transformer.Model
	made     *stream.Stream
	sampling transformer.Sampling
	programs int
}

func (g *generator) compile(ctx context.Context) error {
	one := g.sampling
	one.Tokens = 1
	if err := g.model.Start(ctx, one); err != nil {
		return err
	}
	var cost submissions
	stop := g.dev.Observe(&cost)
	defer stop()
	if err := g.model.Step(ctx); err != nil {
		return err
	}
	g.programs = cost.count
	if err := g.model.Begin(ctx); err != nil {
		return err
	}
	return g.read(ctx, func(uint8) error { return nil })
}

func (g *generator) read(ctx context.Context, f func(token uint8) error) error {
	for message, err := range g.made.Messages(ctx) {
		if err != nil {
			return err
		}
		if err := f(message[0]); err != nil {
			return err
		}
	}
	return nil
}

func (g *generator) run(ctx context.Context, mode string, show *wordWriter) (r generation, tokens []uint8, err error) {
	step, times, record := g.model.Step, g.sampling.Tokens, g.model.Record
	if mode == "loop" {
		times, record = 1, g.model.RecordAll
	}
	if mode != "eager" {
		trace, failed := g.dev.Queue(0).Capture(ctx, "tokens", record)
		if failed != nil {
			return r, nil, failed
		}
		defer func() { err = errors.Join(err, trace.Release(ctx)) }()
		step = trace.Replay
	}
	if err := g.model.Start(ctx, g.sampling); err != nil {
		return r, nil, err
	}
	var cost submissions
	stop := g.dev.Observe(&cost)
	defer stop()
	start := time.Now()
	// The host submits all tokens while those that are made arrive.
	both, running := errgroup.WithContext(ctx)
	both.Go(func() error {
		for range times {
			if err := step(running); err != nil {
				return err
			}
		}
		return nil
	})
	both.Go(func() error {
		return g.read(running, func(token uint8) error {
			tokens = append(tokens, token)
			return show.add(token)
		})
	})
	if err := both.Wait(); err != nil {
		return r, nil, errors.Join(err, g.abort(context.WithoutCancel(ctx)))
	}
	took := time.Since(start)
	return generation{mode, len(tokens), cost.count, cost.bytes, float64(len(tokens)) / took.Seconds()}, tokens, nil
}

// abort closes the stream first: a kernel that waits for room would never end its iteration.
func (g *generator) abort(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	err := g.made.Close(ctx)
	_, failed := g.dev.Queue(0).Abort(ctx)
	return errors.Join(err, failed)
}

type submissions struct{ count, bytes int }

func (s *submissions) Begin(context.Context, *reprise.Call) {}

func (s *submissions) End(_ context.Context, c *reprise.Call) {
	switch c.Kind {
	case reprise.CallRun:
		s.count++
		s.bytes += c.Object.(*reprise.Executable).Commands().Bytes
	case reprise.CallReplay:
		s.count++
		for _, p := range c.Object.(*reprise.Trace).Parts() {
			s.bytes += p.ReplayBytes
		}
	}
}

const lineWidth = 100

type wordWriter struct {
	w      io.Writer
	word   []byte
	column int
}

func (s *wordWriter) add(token uint8) error {
	if token != words.End {
		s.word = append(s.word, words.Letter(token))
		return nil
	}
	before := " "
	switch {
	case s.column == 0:
		before = ""
	case s.column+1+len(s.word) > lineWidth:
		before, s.column = "\n", 0
	}
	n, err := fmt.Fprintf(s.w, "%s%s", before, s.word)
	s.column += n
	s.word = s.word[:0]
	return err
}

func (s *wordWriter) end() error {
	if s.column == 0 {
		return nil
	}
	_, err := fmt.Fprintln(s.w)
	return err
}

func (r *Generated) print(w cli.Text) {
	w.F("\n%s: %d words of %d tokens, seed %d, by a transformer of %s parameters, %d programs a token\n",
		r.Device, len(r.Words), r.Tokens, r.Seed, humanize.Comma(int64(r.Parameters)), r.Programs)
	w.F("known     %d of them are in the list the network learned from, %d (%.1f %%) in the part that was held back\n",
		r.Trained, r.HeldBack, 100*r.HeldBackShare)
	w.F("checked   all tokens against the arithmetic of the engines on the host: %s\n\n", cli.Count(r.Mismatches, "mismatch"))
	t := w.Table()
	t.Row("", "submissions", "commands", "tokens/s")
	for _, g := range r.Runs {
		t.Row(g.Mode, humanize.Comma(int64(g.Submissions)), cli.Bytes(g.HostBytes), fmt.Sprintf("%.1f", g.PerSecond))
	}
	t.Flush()
	w.F("\ntook %s\n", tables.Duration(1e9*r.Seconds))
}

func printTogether(w cli.Text, processes []Generated) {
	tokens, wrong, perSecond := 0, 0, 0.0
	for i := range processes {
		r := &processes[i]
		w.F("process %d, %s, seed %d:\n", i, r.Device, r.Seed)
		show := wordWriter{w: w}
		for _, word := range r.Words {
			show.word = append(show.word[:0], word...)
			_ = show.add(words.End)
		}
		_ = show.end()
		tokens, wrong, perSecond = tokens+r.Tokens, wrong+r.Mismatches, perSecond+r.PerSecond
	}
	w.F("\n%d processes: %d tokens, %.1f a second; %s against the arithmetic of the engines on the host\n",
		len(processes), tokens, perSecond, cli.Count(wrong, "mismatch"))
}
