// Package measures has the commands that measure and test devices.
package measures

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"slices"
	"strings"

	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/cmd/reprise/internal/cli"
	"github.com/reprise-tt/reprise/cmd/reprise/internal/demo"
	"github.com/reprise-tt/reprise/hwtest/target"
	"github.com/reprise-tt/reprise/internal/bench"
	"github.com/reprise-tt/reprise/internal/bench/report"
	"github.com/reprise-tt/reprise/mesh"
	"github.com/reprise-tt/reprise/sim"
)

// BenchCmd has the commands that measure; without a name it is the first one.
type BenchCmd struct {
	Device deviceCmd    `cmd:"" default:"withargs"`
	TTNN   benchTTNNCmd `cmd:"" name:"ttnn"`
}

type deviceCmd struct {
	Families []string `arg:"" optional:"" placeholder:"FAMILY"`
	Device   string   `default:"emu:blackhole" placeholder:"DEVICE"`
	Machine  string   `placeholder:"MACHINE"`
	Against  string   `placeholder:"DEVICE"`
	Rounds   int      `default:"20"`
	Warmup   int      `default:"3"`
	Programs []int    `default:"1,10,1000"`
	JSON     bool     `name:"json" xor:"form"`
	Go       bool     `name:"go" xor:"form"`
	Hist     bool
	Output   string `short:"o" placeholder:"FILE"`
	Compare  string `placeholder:"OLD.json"`
	EBPF     bool   `name:"ebpf"`
	Timeline string `placeholder:"FILE" type:"path"`
	List     bool

	target  *target.Device
	against *target.Device
	machine *target.Machine
}

func (c *deviceCmd) Validate() (err error) {
	if c.Rounds < 1 {
		return cli.Wrong("--rounds", c.Rounds, "there are too few", "give at least 1")
	}
	if c.Warmup < 0 {
		return cli.Wrong("--warmup", c.Warmup, "there are too few", "give at least 0")
	}
	for _, n := range c.Programs {
		if n < 1 {
			return cli.Wrong("--programs", n, "a trace has at least one program", "give positive numbers")
		}
	}
	if err := c.families(); err != nil {
		return err
	}
	if c.target, err = cli.ParseDevice("--device", c.Device); err != nil {
		return err
	}
	if c.Against != "" {
		if c.against, err = cli.ParseDevice("--against", c.Against); err != nil {
			return err
		}
	}
	if c.Machine == "" && c.summary() && c.target.Kind == target.Emulator {
		c.Machine = map[bool]string{true: "emu:galaxy-wh", false: "emu:galaxy-bh"}[c.target.Arch == chip.Wormhole]
	}
	if c.Machine != "" {
		c.machine, err = cli.ParseMachine("--machine", c.Machine)
	}
	return err
}

// families refuses flags of families that aren't measured.
func (c *deviceCmd) families() error {
	have := cli.Map(bench.Families(), func(f bench.Family) string { return f.Name })
	for _, n := range c.Families {
		if !slices.Contains(have, n) {
			return cli.Wrong("FAMILY", n, "there is no such family of measurements"+cli.Nearest(n, have), "have "+strings.Join(have, ", "))
		}
	}
	if c.summary() && len(c.Families) > 1 {
		return cli.Wrong("FAMILY", strings.Join(c.Families, " "), "the summary is measured by itself", "name "+bench.Summarized+" alone")
	}
	measured := func(name string) bool { return len(c.Families) == 0 || slices.Contains(c.Families, name) }
	const replay, tensix, tensors = "replay", "tensix", "ops"
	if c.Against != "" && !c.summary() && !measured(tensix) && !measured(tensors) {
		return cli.Wrong("--against", c.Against, "it is of operations on tiles and tensors, and their families aren't measured",
			"name "+tensix+" or "+tensors+" as well, or "+bench.Summarized+" alone")
	}
	const why, hint = "it is of replays, and their family isn't measured", "name " + replay + " as well"
	switch {
	case measured(replay):
	case c.Timeline != "":
		return cli.Wrong("--timeline", c.Timeline, why, hint)
	case c.EBPF:
		return cli.Wrong("--ebpf", "true", why, hint)
	}
	return nil
}

func (c *deviceCmd) summary() bool { return slices.Contains(c.Families, bench.Summarized) }

func (c *deviceCmd) Run(ctx context.Context, s cli.Streams) (err error) {
	if c.List {
		return cli.Print(s.Out, func(w cli.Text) {
			t := w.Table()
			for _, f := range bench.Families() {
				t.Row(f.Name, f.About)
			}
			t.Flush()
		})
	}
	var old *report.Report
	if c.Compare != "" {
		if old, err = cli.Until(ctx, func() (*report.Report, error) { return readReport(c.Compare) }); err != nil {
			return err
		}
		if !report.EnoughRounds(old.Rounds, c.Rounds) {
			return cli.Wrong("--rounds", c.Rounds,
				fmt.Sprintf("%s has %d rounds of each figure: with so few rounds no change is distinguishable from chance", c.Compare, old.Rounds),
				fmt.Sprintf("measure both with %d or more", report.FewestRounds()))
		}
	}
	config := bench.Config{
		Target: c.target.Open(), Device: c.Device, Families: c.Families, Rounds: c.Rounds, Warmup: c.Warmup, Programs: c.Programs,
		EBPF: c.EBPF, Timeline: c.Timeline != "",
	}
	config.CountTarget, _ = c.target.Emulated("", sim.Synchronous(), sim.Seed(1)).Open().(*sim.Card)
	if c.summary() {
		config.Demo = demo.Classify
	}
	if c.target.Kind == target.Emulator {
		config.Emulated = func() *sim.Card { return c.target.Open().(*sim.Card) }
		config.Parallel = c.target.Emulated("", sim.Parallel()).Open()
	}
	if c.against != nil {
		config.Against = &bench.Against{Target: c.against.Open(), Name: c.Against}
	}
	if runtime.NumCPU() > 1 {
		config.ProbeTarget = c.target.Emulated("", sim.Awake()).Open()
	}
	if c.machine != nil {
		cards, end, err := c.machine.Open()
		if err != nil {
			return cli.OpenError(c.Machine, err)
		}
		defer func() { err = errors.Join(err, end()) }()
		config.Mesh = mesh.Cards(cards...)
	}
	config.Progress = s.Status()
	defer config.Progress("")
	r, err := bench.Run(ctx, config)
	if err != nil {
		return cli.OpenError(c.Device, err)
	}
	// The figures are printed even if a file can't be written.
	return errors.Join(c.print(s.Out, old, r), c.files(ctx, r))
}

func (c *deviceCmd) files(ctx context.Context, r *report.Report) error {
	var errs []error
	if c.Output != "" {
		errs = append(errs, cli.Save(ctx, "--output", c.Output, r.WriteJSON))
	}
	if r.Timeline != nil {
		errs = append(errs, cli.Save(ctx, "--timeline", c.Timeline, r.Timeline.WriteJSON))
	}
	return errors.Join(errs...)
}

func (c *deviceCmd) print(w io.Writer, old, r *report.Report) error {
	switch {
	case old != nil:
		return c.compare(w, old, r)
	case c.JSON:
		return r.WriteJSON(w)
	case c.Go:
		return r.WriteBenchmark(w)
	}
	if err := r.WriteTable(w); err != nil || !c.Hist {
		return err
	}
	for _, f := range r.Figures {
		if err := errors.Join(cli.Print(w, func(t cli.Text) { t.F("\n") }), f.WriteHistogram(w)); err != nil {
			return err
		}
	}
	return nil
}

func (c *deviceCmd) compare(w io.Writer, old, cur *report.Report) error {
	changes := report.Compare(old, cur)
	var err error
	if c.JSON {
		err = cli.PrintJSON(w, map[string]any{"changes": append([]report.Change{}, changes...)})
	} else {
		err = report.WriteComparison(w, changes)
	}
	var wrong []string
	for _, v := range []struct {
		verdict report.Verdict
		format  string
	}{
		{report.Slower, "%s got slower than in %s: %s"},
		{report.TooFew, fmt.Sprintf("too few rounds to compare %%s with %%s: %%s: measure both with --rounds %d or more", report.FewestRounds())},
	} {
		var ids []string
		for _, ch := range changes {
			if ch.Verdict == v.verdict {
				ids = append(ids, ch.ID)
			}
		}
		if len(ids) > 0 {
			wrong = append(wrong, fmt.Sprintf(v.format, cli.Count(len(ids), "figure"), c.Compare, strings.Join(ids, ", ")))
		}
	}
	if len(wrong) > 0 {
		return errors.Join(err, errors.New(strings.Join(wrong, "; ")))
	}
	return err
}

func readReport(name string) (*report.Report, error) {
	r, err := cli.Read(name, report.ReadReport)
	if err != nil {
		return nil, cli.Wrong("--compare", name, cli.Cause(err).Error(), "name a file that reprise bench --output wrote").By(err)
	}
	return r, nil
}
