package measures

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/reprise-tt/reprise/cmd/reprise/internal/cli"
	"github.com/reprise-tt/reprise/hwtest"
	"github.com/reprise-tt/reprise/hwtest/target"
	"github.com/reprise-tt/reprise/internal/bench/probe"
)

// HwtestCmd runs the conformance suite.
type HwtestCmd struct {
	Device  string `help:"Device to test: ${device_help}. The machine's cards if absent, or both emulators without cards. Layer mesh takes several device nodes, with commas between them." placeholder:"DEVICE"`
	Pattern string `name:"run" help:"Only these cases: LAYER or LAYER/NAME, two regular expressions." placeholder:"PATTERN"`
	Compare string `help:"Second device of the architecture: the differential cases run on both and compare memory." placeholder:"DEVICE"`
	Report  string `help:"Also write the results to this file, as JSON, or as JUnit if its name ends in .xml." placeholder:"FILE"`
	Short   bool   `help:"Fewer repetitions."`
	Long    bool   `help:"Also run the cases that take minutes, and many more seeds."`
	Unsafe  bool   `help:"Also run the cases after which a card needs a reset (reprise reset)."`
	Workers string `name:"firmware" help:"Folder with base firmware of tt-metal for the workers. Cases with Reprise's kernels are skipped then." placeholder:"DIR"`
	Queues  string `name:"queue-firmware" help:"Folder with command-queue firmware of tt-metal." placeholder:"DIR"`
	List    bool   `help:"List the cases and what they protect without running them."`
	cli.AsJSON
}

// Help is shown by --help.
func (HwtestCmd) Help() string {
	return "The suite that the emulator, the vendor's simulator and silicon must pass. Layers run from the driver up, so the first failure is the deepest."
}

// Validate checks what can be checked without a device.
func (c *HwtestCmd) Validate() error {
	_, err := c.config()
	return err
}

func (c *HwtestCmd) config() (cfg hwtest.Config, err error) {
	self, err := os.Executable()
	if err != nil {
		return cfg, fmt.Errorf("find this program to start it as a second process: %w", err)
	}
	cfg = hwtest.Config{Short: c.Short, Long: c.Long, Unsafe: c.Unsafe, Victim: []string{self, victimCommand},
		Firmware: hwtest.Firmware{Workers: c.Workers, Queues: c.Queues}}
	for _, n := range c.devices(cardNodes) {
		d, err := cli.ParseDevices("--device", n)
		if err != nil {
			return cfg, err
		}
		if d.Kind == target.Recording {
			return cfg, cli.Wrong("--device", n, "a recording only does what was recorded", "give a device")
		}
		cfg.Devices = append(cfg.Devices, d)
	}
	if c.Compare != "" {
		if cfg.Compare, err = cli.ParseDevice("--compare", c.Compare); err != nil {
			return cfg, err
		}
	}
	if cfg.Select, err = hwtest.ParsePattern(c.Pattern); err != nil {
		return cfg, cli.Wrong("--run", c.Pattern, cli.Cause(err).Error(), "give a regular expression for the layer, and one for the name after a slash").
			By(err)
	}
	if c.Short && c.Long {
		return cfg, cli.Wrong("--short", "true", "a run can't be short and long", "give one of --short and --long")
	}
	if ext := strings.ToLower(filepath.Ext(c.Report)); c.Report != "" && ext != ".json" && ext != ".xml" {
		return cfg, cli.Wrong("--report", c.Report, "the end of its name says what to write",
			"give a name that ends in .json, or in .xml for JUnit")
	}
	return cfg, nil
}

func (c *HwtestCmd) devices(cards func() []string) []string {
	if c.Device != "" {
		return []string{c.Device}
	}
	if l := cards(); len(l) > 0 {
		return l
	}
	return []string{"emu:wormhole", "emu:blackhole"}
}

func cardNodes() []string {
	l, _ := filepath.Glob("/dev/tenstorrent/[0-9]*")
	slices.SortFunc(l, func(a, b string) int { return cmp.Or(cmp.Compare(len(a), len(b)), cmp.Compare(a, b)) })
	return l
}

// Run runs the suite.
func (c *HwtestCmd) Run(ctx context.Context, s cli.Streams) error {
	cfg, err := c.config()
	if err != nil {
		return err
	}
	if c.List {
		return c.list(s, cfg.Select)
	}
	// A missing case or unwritable report is known before a night's run.
	if !slices.ContainsFunc(hwtest.Cases(), cfg.Select.Match) {
		return suiteError(c.Pattern, hwtest.ErrNoCases)
	}
	if err := cli.Creatable("--report", c.Report); err != nil {
		return err
	}
	if c.Device == "" {
		fmt.Fprintf(s.Err, "reprise: testing %s; --device tests another one\n", strings.Join(c.devices(cardNodes), " and "))
	}
	if !c.JSON {
		cfg.Done = func(r hwtest.Result) { printResult(s.Out, r) }
	}
	rep, err := hwtest.Run(ctx, cfg)
	err = suiteError(c.Pattern, err)
	if err == nil && rep.Failed > 0 {
		err = fmt.Errorf("hwtest: %d of %s failed", rep.Failed, cli.Count(len(rep.Results), "case"))
	}
	if c.Report != "" {
		write := rep.WriteJSON
		if strings.EqualFold(filepath.Ext(c.Report), ".xml") {
			write = rep.WriteJUnit
		}
		err = errors.Join(err, cli.Save(context.WithoutCancel(ctx), "--report", c.Report, write))
	}
	switch {
	case c.JSON:
		err = errors.Join(err, cli.PrintJSON(s.Out, rep))
	case len(rep.Results) > 0:
		err = errors.Join(err, cli.Print(s.Out, func(w cli.Text) { printSuite(w, &rep) }))
	}
	return err
}

func suiteError(pattern string, err error) error {
	var open *hwtest.OpenError
	switch {
	case errors.As(err, &open):
		return cli.OpenError(open.Device, open.Err)
	case errors.Is(err, hwtest.ErrNoCases):
		return cli.Wrong("--run", pattern, hwtest.ErrNoCases.Error(), "reprise hwtest --list shows all").By(err)
	}
	return err
}

func (c *HwtestCmd) list(s cli.Streams, p *hwtest.Pattern) error {
	l := struct {
		Cases []hwtest.Case `json:"cases"`
	}{[]hwtest.Case{}}
	for _, k := range hwtest.Cases() {
		if p.Match(k) {
			l.Cases = append(l.Cases, k)
		}
	}
	return s.Print(c.JSON, l, func(w cli.Text) {
		t := w.Table()
		for _, k := range l.Cases {
			notes := map[bool]string{true: "--long, "}[k.Long]
			if k.Unsafe != "" {
				notes += "unsafe, "
			}
			if notes += k.Needs; notes != "" {
				notes = " (" + strings.TrimSuffix(notes, ", ") + ")"
			}
			t.Row(k.Layer+"/"+k.Name, k.Protects+notes)
		}
		t.Flush()
	})
}

func printResult(out io.Writer, r hwtest.Result) {
	fmt.Fprintf(out, "%s  %8.3fs  %s  %s/%s", r.Outcome, r.Seconds, r.Device, r.Layer, r.Name)
	if r.Reason != "" {
		fmt.Fprintf(out, " (%s)", r.Reason)
	}
	fmt.Fprintln(out)
	if r.Outcome != hwtest.Fail {
		return
	}
	fmt.Fprintf(out, "      protects: %s\n", r.Protects)
	for _, l := range r.Log {
		fmt.Fprintf(out, "      %s\n", strings.ReplaceAll(strings.TrimRight(l, "\n"), "\n", "\n        "))
	}
}

// printSuite repeats the failures, which have scrolled away.
func printSuite(w cli.Text, rep *hwtest.Report) {
	type key struct{ device, layer string }
	var order []key
	sums := map[key]*hwtest.Report{}
	for _, r := range rep.Results {
		k := key{r.Device, r.Layer}
		if sums[k] == nil {
			order = append(order, k)
			sums[k] = &hwtest.Report{}
		}
		sums[k].Add(r)
		sums[k].Seconds += r.Seconds
	}
	w.F("\n")
	t := w.Table()
	t.Row("DEVICE", "LAYER", "PASSED", "FAILED", "SKIPPED", "TIME")
	row := func(device, layer string, r *hwtest.Report) {
		t.Row(device, layer, r.Passed, r.Failed, r.Skipped, fmt.Sprintf("%.1f s", r.Seconds))
	}
	for _, k := range order {
		row(k.device, k.layer, sums[k])
	}
	row("", "all", rep)
	t.Flush()
	if rep.Ended != "" {
		w.F("\ncut short: %s\n", rep.Ended)
	}
	for _, r := range rep.Results {
		if r.Outcome == hwtest.Fail {
			w.F("\nfailed: %s %s/%s\n  protects: %s\n", r.Device, r.Layer, r.Name, r.Protects)
		}
	}
}

const victimCommand = "hwtest-victim"

// VictimCmd is the process that the suite kills.
type VictimCmd struct {
	Device string `arg:"" help:"Device to use."`
	Once   bool   `help:"Use it once and end."`
}

// Run uses the device.
func (c *VictimCmd) Run(ctx context.Context, s cli.Streams) error {
	d, err := cli.ParseDevice("DEVICE", c.Device)
	if err != nil {
		return err
	}
	return hwtest.Victim(ctx, d.Open(), c.Once, s.Out)
}

// ProbeCmd watches a running process.
type ProbeCmd struct {
	PID      int            `required:"" help:"Process to watch." name:"pid" placeholder:"N"`
	Duration time.Duration  `help:"How long to watch, at most until the process ends; 10s if not given." default:"10s" placeholder:"DURATION"`
	Interval *time.Duration `help:"Also print intermediate figures at this interval." placeholder:"DURATION"`
	Markers  bool           `help:"Attach to the program's markers of submissions and completions, each of which then costs more than a replay."`
	cli.AsJSON
}

// Help is shown by --help.
func (ProbeCmd) Help() string {
	return "Needs root, or CAP_BPF and CAP_PERFMON. Without them it prints what /proc has, and what is missing."
}

// Validate checks the flags.
func (c *ProbeCmd) Validate() error {
	if c.PID < 1 {
		return cli.Wrong("--pid", c.PID, "it is no process", "give the number of a running process")
	}
	if c.Duration <= 0 {
		return cli.Wrong("--duration", c.Duration, "it isn't positive", "give a time such as 10s")
	}
	if c.Interval != nil && *c.Interval <= 0 {
		return cli.Wrong("--interval", c.Interval, "it isn't positive", "give a time such as 1s, or leave it out")
	}
	return nil
}

// pollInterval is for /proc, whose figures vanish at the process's end.
const pollInterval = 100 * time.Millisecond

// Run watches until the duration is over, the process ends or the command is interrupted.
func (c *ProbeCmd) Run(ctx context.Context, s cli.Streams) (err error) {
	kinds := []probe.Kind{probe.Calls, probe.Scheduler, probe.Faults, probe.Functions}
	if c.Markers {
		kinds = append(kinds, probe.Marks)
	}
	m := probe.Detect()
	costs, err := probe.Calibrate(m, kinds...)
	if err != nil {
		return err
	}
	for _, k := range costs {
		fmt.Fprintf(s.Err, "probe of %s: %.0f ns for each %s\n", k.Probe, k.Ns, k.Event)
	}
	p, err := probe.Start(probe.Config{PID: c.PID, Kinds: kinds, Machine: m})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.Close()) }()
	end := time.After(c.Duration)
	var tick <-chan time.Time
	if c.Interval != nil {
		t := time.NewTicker(*c.Interval)
		defer t.Stop()
		tick = t.C
	}
	running := time.NewTicker(pollInterval)
	defer running.Stop()
	for over := false; !over; {
		select {
		case <-ctx.Done():
			over = true
		case <-end:
			over = true
		case <-tick:
		case <-running.C:
			if p.Running() {
				continue
			}
			over = true
		}
		sn, err := p.Snapshot()
		if err != nil {
			return err
		}
		if c.JSON {
			err = cli.PrintJSON(s.Out, sn)
		} else {
			err = sn.WriteTable(s.Out)
		}
		if err != nil {
			return err
		}
		over = over || sn.Ended
	}
	return nil
}
