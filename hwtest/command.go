package hwtest

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/hwtest/rig"
	"github.com/reprise-tt/reprise/hwtest/target"
	"github.com/reprise-tt/reprise/internal/tables"
	"github.com/reprise-tt/reprise/kmd"
	"github.com/reprise-tt/reprise/sim/ttsim"
	"github.com/reprise-tt/reprise/sim/ttsim/libttsim"
)

// Command has the flags of a program that runs cases, and runs them. Tags are those of package
// kong, by which reprise hwtest has the same flags.
type Command struct {
	Device    string        `help:"Device to test: ${device_help}. The machine's cards if absent, or both emulators without cards. Layer mesh takes several device nodes, with commas between them." placeholder:"DEVICE"`
	Pattern   string        `name:"run" help:"Only these cases: LAYER or LAYER/NAME, two regular expressions." placeholder:"PATTERN"`
	Compare   string        `help:"Second device of the architecture: the differential cases run on both and compare memory." placeholder:"DEVICE"`
	Report    string        `help:"Also write the results to this file, as JSON, or as JUnit if its name ends in .xml." placeholder:"FILE"`
	Artifacts string        `help:"Keep dumps of hangs and traces of failed cases in this folder, in a folder for each case." placeholder:"DIR"`
	Timeout   time.Duration `help:"Limit of a case that states no longer one: it fails then with the state of the device, and the run goes on. By default 100 seconds, or 5 minutes on a slow device; hours for minutes with --long." placeholder:"DURATION"`
	Short     bool          `help:"Fewer repetitions."`
	Long      bool          `help:"Also run the cases that take minutes, and many more seeds."`
	Unsafe    bool          `help:"Also run the cases after which a card needs a reset (reprise reset)."`
	Workers   string        `name:"firmware" help:"Folder with base firmware of tt-metal for the workers. Cases with Reprise's kernels are skipped then." placeholder:"DIR"`
	Queues    string        `name:"queue-firmware" help:"Folder with command-queue firmware of tt-metal." placeholder:"DIR"`
	List      bool          `help:"List the cases and what they protect without running them."`
	JSON      bool          `name:"json" help:"Print one JSON object instead of text."`

	Cases  []Case       `kong:"-"` // nil for those of [Cases]
	Victim []string     `kong:"-"` // as in [rig.Settings]
	Server ttsim.Option `kong:"-"` // starts the vendor's simulator
	// Save writes the report; nil for a plain file.
	Save func(path string, write func(io.Writer) error) error `kong:"-"`
}

// Register adds the flags to those of a program or test.
func (c *Command) Register(fs *flag.FlagSet) {
	v := reflect.ValueOf(c).Elem()
	for i := range v.NumField() {
		f := v.Type().Field(i)
		name := cmp.Or(f.Tag.Get("name"), strings.ToLower(f.Name))
		help := strings.ReplaceAll(f.Tag.Get("help"), "${device_help}", target.Help)
		switch p := v.Field(i).Addr().Interface().(type) {
		case *string:
			fs.StringVar(p, name, *p, help)
		case *bool:
			fs.BoolVar(p, name, *p, help)
		case *time.Duration:
			fs.DurationVar(p, name, *p, help)
		}
	}
}

// Config checks the flags; a wrong one is a *target.Error.
func (c *Command) Config() (cfg Config, err error) {
	cfg = Config{Cases: c.Cases, Artifacts: c.Artifacts, Settings: rig.Settings{Short: c.Short, Long: c.Long, Unsafe: c.Unsafe,
		Victim: c.Victim, Limit: c.Timeout, Firmware: rig.Firmware{Workers: c.Workers, Queues: c.Queues}}}
	parse := func(flag, name string) (*target.Device, error) {
		d, err := target.Parse(name, c.Server)
		var wrong *target.Error
		switch {
		case errors.As(err, &wrong):
			wrong.Flag = flag
		case err == nil && d.Kind == target.Recording:
			return nil, target.Wrong(flag, name, "a recording only does what was recorded", "give a device")
		case err == nil && flag == "--compare" && d.Several():
			return nil, target.Wrong(flag, name, "it names several device nodes", "give one of them")
		}
		return d, err
	}
	for _, name := range c.DeviceNames() {
		d, err := parse("--device", name)
		if err != nil {
			return cfg, err
		}
		cfg.Devices = append(cfg.Devices, d)
	}
	if c.Compare != "" {
		d, err := parse("--compare", c.Compare)
		if err != nil {
			return cfg, err
		}
		cfg.Compare = func(*target.Device) *target.Device { return d }
	}
	ext := strings.ToLower(filepath.Ext(c.Report))
	cfg.Select, err = ParsePattern(c.Pattern)
	switch {
	case err != nil:
		return cfg, target.Wrong("--run", c.Pattern, errors.Unwrap(err).Error(),
			"give a regular expression for the layer, and one for the name after a slash").By(err)
	case c.Short && c.Long:
		return cfg, target.Wrong("--short", "true", "a run can't be short and long", "give one of --short and --long")
	case c.Timeout < 0:
		return cfg, target.Wrong("--timeout", c.Timeout.String(), "it is negative", "give a time such as 30s")
	case c.Report != "" && ext != ".json" && ext != ".xml":
		return cfg, target.Wrong("--report", c.Report, "the end of its name says what to write",
			"give a name that ends in .json, or in .xml for JUnit")
	case !slices.ContainsFunc(c.all(), cfg.Select.Match):
		return cfg, target.Wrong("--run", c.Pattern, ErrNoCases.Error(), "--list shows all").By(ErrNoCases)
	}
	return cfg, nil
}

// nodes is the driver's folder of device nodes.
var nodes = "/dev/tenstorrent"

// DeviceNames are those of --device, or else the devices of this machine.
func (c *Command) DeviceNames() []string {
	if c.Device != "" {
		return []string{c.Device}
	}
	l, _ := filepath.Glob(filepath.Join(nodes, "[0-9]*"))
	slices.SortFunc(l, func(a, b string) int { return cmp.Or(cmp.Compare(len(a), len(b)), cmp.Compare(a, b)) })
	if len(l) == 0 {
		return []string{"emu:wormhole", "emu:blackhole"}
	}
	return l
}

func (c *Command) all() []Case {
	if c.Cases != nil {
		return c.Cases
	}
	return Cases()
}

// Do runs the cases, prints and reports; failed cases are an error too. Standard error has what is
// running.
func (c *Command) Do(ctx context.Context, out, errs io.Writer) error {
	cfg, err := c.Config()
	if err != nil {
		return err
	}
	if c.List {
		return c.list(out, cfg.Select)
	}
	save := c.Save
	if save == nil && c.Report != "" {
		f, err := os.Create(c.Report) // known to be possible before a night's run
		if err != nil {
			return fmt.Errorf("hwtest: --report: %w", err)
		}
		save = func(_ string, write func(io.Writer) error) error { return errors.Join(write(f), f.Close()) }
	}
	if c.Device == "" {
		fmt.Fprintf(errs, "testing %s; --device tests another one\n", strings.Join(c.DeviceNames(), " and "))
	}
	s := screen{out: out, errs: errs}
	if f, ok := errs.(*os.File); ok {
		if info, err := f.Stat(); err == nil && info.Mode()&os.ModeCharDevice != 0 {
			s.width = cmp.Or(tables.Width(errs), 80)
		}
	}
	cfg.Running = s.running
	cfg.Done = func(r Result) { s.done(r, c.JSON) }
	rep, err := Run(ctx, cfg)
	if err == nil && rep.Failed > 0 {
		err = fmt.Errorf("hwtest: %d of %d cases failed", rep.Failed, len(rep.Results))
	}
	if c.Report != "" {
		err = errors.Join(err, save(c.Report, func(w io.Writer) error { return rep.write(w, c.Report) }))
	}
	switch {
	case c.JSON:
		err = errors.Join(err, printJSON(out, rep))
	case len(rep.Results) > 0:
		err = errors.Join(err, rep.Print(out))
	}
	return err
}

func printJSON(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(v)
}

func (c *Command) list(out io.Writer, p *Pattern) error {
	l := struct {
		Cases []Case `json:"cases"`
	}{[]Case{}}
	for _, k := range c.all() {
		if p.Match(k) {
			l.Cases = append(l.Cases, k)
		}
	}
	if c.JSON {
		return printJSON(out, l)
	}
	return tables.Print(out, func(b tables.Text) {
		t := b.Table()
		for _, k := range l.Cases {
			notes := map[bool]string{true: "--long, "}[k.Long]
			if k.Unsafe != "" {
				notes += "unsafe, "
			}
			if notes += k.Needs.String(); notes != "" {
				notes = " (" + strings.TrimSuffix(notes, ", ") + ")"
			}
			t.Row(k.Layer+"/"+k.Name, k.Protects+notes)
		}
		t.Flush()
	})
}

// screen shows a run's progress on standard error, and its results on standard output.
type screen struct {
	out, errs io.Writer
	width     int // of the terminal that standard error is, or 0
	next      time.Duration
}

// firstNotice is when a line says which case runs, if standard error is no terminal; each further
// one takes twice as long.
const firstNotice = 10 * time.Second

func (s *screen) running(r Running) {
	line := fmt.Sprintf("%d of %d: %s  %s/%s", r.Number, r.Of, r.Device, r.Case.Layer, r.Case.Name)
	if r.Elapsed >= time.Second {
		line += fmt.Sprintf(", for %v of at most %v", r.Elapsed.Round(time.Second), r.Limit)
	}
	switch {
	case s.width > 0: // a line that wraps couldn't be replaced
		fmt.Fprintf(s.errs, "\r\x1b[K%.*s", s.width-1, line)
	case r.Elapsed < time.Second:
		s.next = firstNotice
	case r.Elapsed >= s.next:
		s.next *= 2
		fmt.Fprintln(s.errs, "running", line)
	}
}

func (s *screen) done(r Result, quiet bool) {
	if s.width > 0 {
		fmt.Fprint(s.errs, "\r\x1b[K")
	}
	if !quiet {
		r.print(s.out)
	}
}

func (r *Result) print(w io.Writer) {
	fmt.Fprintf(w, "%s  %8.3fs  %s  %s/%s", r.Outcome, r.Seconds, r.Device, r.Layer, r.Name)
	if r.Outcome != Fail {
		if r.Reason != "" {
			fmt.Fprintf(w, " (%s)", r.Reason)
		}
		fmt.Fprintln(w)
		return
	}
	fmt.Fprintf(w, "\n      protects: %s\n", r.Protects)
	for _, l := range r.Log {
		fmt.Fprintf(w, "      %s\n", strings.ReplaceAll(strings.TrimRight(l, "\n"), "\n", "\n        "))
	}
	for _, name := range r.Artifacts {
		fmt.Fprintf(w, "      file: %s\n", name)
	}
}

// Print writes a table of the layers, and repeats the failures, which have scrolled away.
func (r *Report) Print(w io.Writer) error {
	type key struct{ device, layer string }
	var order []key
	sums := map[key]*Report{}
	for _, res := range r.Results {
		k := key{res.Device, res.Layer}
		if sums[k] == nil {
			order = append(order, k)
			sums[k] = &Report{}
		}
		sums[k].Add(res)
		sums[k].Seconds += res.Seconds
	}
	return tables.Print(w, func(b tables.Text) {
		b.F("\n")
		t := b.Table()
		t.Row("DEVICE", "LAYER", "PASSED", "FAILED", "SKIPPED", "TIME")
		row := func(k key, r *Report) {
			t.Row(k.device, k.layer, r.Passed, r.Failed, r.Skipped, fmt.Sprintf("%.1f s", r.Seconds))
		}
		for _, k := range order {
			row(k, sums[k])
		}
		row(key{"", "all"}, r)
		t.Flush()
		if r.Ended != "" {
			b.F("\ncut short: %s\n", r.Ended)
		}
		for _, res := range r.Results {
			if res.Outcome == Fail {
				b.F("\nfailed: %s %s/%s\n  protects: %s\n", res.Device, res.Layer, res.Name, res.Protects)
			}
		}
	})
}

// VictimCommand is the first argument by which [Main] runs [Victim] on a device.
const VictimCommand = "hwtest-victim"

const serveCommand = "ttsim-serve"

// Main is the main function of a program with cases of its own: it has the flags of reprise hwtest.
// It returns the exit code: 0, 1 for failures, 2 for wrong flags, 130 if ctx has ended.
func Main(ctx context.Context, args []string, out, errs io.Writer, cases ...Case) int {
	c := Command{Cases: cases}
	fs := flag.NewFlagSet("hwtest", flag.ContinueOnError)
	fs.SetOutput(errs)
	c.Register(fs)
	if err := fs.Parse(args); err != nil {
		return map[bool]int{false: 2}[errors.Is(err, flag.ErrHelp)]
	}
	self, err := os.Executable()
	switch {
	case err != nil:
	case fs.Arg(0) == serveCommand:
		err = libttsim.Serve()
	case fs.Arg(0) == VictimCommand:
		err = c.victim(ctx, fs.Args()[1:], out)
	case fs.NArg() > 0:
		err = target.Wrong("argument", fs.Arg(0), "there are only flags", "see -help")
	default:
		c.Server, c.Victim = ttsim.Server(self, serveCommand), []string{self, VictimCommand}
		err = c.Do(ctx, out, errs)
	}
	if err == nil {
		return 0
	}
	code := 1
	var wrong *target.Error
	switch {
	case ctx.Err() != nil:
		err, code = context.Cause(ctx), 130
	case errors.As(err, &wrong):
		code = 2
	}
	fmt.Fprintln(errs, err)
	return code
}

func (c *Command) victim(ctx context.Context, args []string, out io.Writer) error {
	if len(args) == 0 || len(args) > 2 || len(args) == 2 && args[1] != "--once" {
		return errors.New("want a device, and --once or nothing")
	}
	d, err := target.Parse(args[0], c.Server)
	if err != nil {
		return err
	}
	return Victim(ctx, d.Open(), len(args) == 2, out)
}

// VictimRunning is the line that [Victim] writes once it replays.
const VictimRunning = rig.VictimRunning

// VictimQueues is the number of command queues that [Victim] opens.
const VictimQueues = 2

// Victim is the process that the suite kills: it checks a program and a trace, takes a lock and a
// window, writes [VictimRunning] to out, and replays until ctx ends or something fails. With once
// it returns after the checks.
func Victim(ctx context.Context, device kmd.Target, once bool, out io.Writer) error {
	tr := newTrial(ctx)
	<-tr.start(func(tb tb) {
		t := &rig.T{TB: tb, Ctx: ctx, Shared: &rig.Shared{}, Device: &target.Device{}, Config: &rig.Settings{}}
		t = t.Unclosed(device, reprise.WithQueueMemory(1<<20), reprise.WithQueues(VictimQueues))
		t.Ends(func() error { return t.Dev.Close(ctx) })
		in, sum := t.DRAMBuffer(4*64, 64), t.DRAMBuffer(4*64, 64)
		count := func(first uint32) []byte { return rig.MakeWords(in.Size(), func(i uint32) uint32 { return first + i }) }
		x := t.Load(t.AddProgram("add", chip.Core{X: 1}, in, sum, 7))
		trace := t.Capture("add", x)
		for i, run := range []func(){func() { t.Start(x) }, func() { t.Replay(trace) }} {
			t.Write(in, count(uint32(1000*i)))
			run()
			t.Holds(sum, count(uint32(1000*i+7)), "run %d", i)
		}
		if once {
			return
		}
		lock, err := holdLock(ctx, device)
		t.OK(err)
		t.Cleanup(func() { _ = lock.Close() })
		const first = 20 // replays, before it may be killed
		for i := 0; ; i++ {
			if i == first {
				t.OK(rig.Error(fmt.Fprintln(out, VictimRunning)))
			}
			t.OK(trace.Replay(ctx), t.Dev.Queue(1).Read(ctx, sum, 0, make([]byte, sum.Size())))
		}
	})
	if _, _, log := tr.outcome(); log != nil {
		return fmt.Errorf("hwtest: %s", strings.Join(log, "\n"))
	}
	return nil
}

// holdLock takes what a killed process must not keep, but no pinned memory: when the driver gives
// up an outbound region (tt-kmd configure_outbound_atu), it overlaps others for a moment, which
// the emulator refuses.
func holdLock(ctx context.Context, t kmd.Target) (*kmd.Device, error) {
	d, err := kmd.Open(ctx, t)
	if err != nil {
		return nil, err
	}
	if _, err := d.Lock(ctx, kmd.LockPCIeDMA); err != nil {
		return nil, errors.Join(err, d.Close())
	}
	if _, err := d.OpenWindow(2<<20, kmd.WriteCombined); err != nil {
		return nil, errors.Join(err, d.Close())
	}
	return d, nil
}
