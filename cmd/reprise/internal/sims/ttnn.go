package sims

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/cmd/reprise/internal/cli"
	"github.com/reprise-tt/reprise/internal/findings"
	"github.com/reprise-tt/reprise/internal/ttnn"
	"github.com/reprise-tt/reprise/internal/ttnn/recording"
	"github.com/reprise-tt/reprise/sim/libttsim"
	"github.com/reprise-tt/reprise/sim/serve/umd"
)

// TtnnCmd are the commands about TT-NN.
type TtnnCmd struct {
	Run      ttnnRunCmd      `cmd:""`
	Record   ttnnRecordCmd   `cmd:""`
	Doctor   ttnnDoctorCmd   `cmd:""`
	Library  ttnnLibraryCmd  `cmd:""`
	Env      ttnnEnvCmd      `cmd:""`
	Findings ttnnFindingsCmd `cmd:""`
	ABI      ttnnABICmd      `cmd:"" name:"abi"`
}

type pythonFlag struct {
	Python string `placeholder:"PATH"`
}

// TtnnTools are the flags that name what runs TT-NN.
type TtnnTools struct {
	pythonFlag
	Library string `placeholder:"FILE" type:"existingfile"`
}

// Find finds TT-NN and the library, or builds the latter. The caller adds settings.
func (c *TtnnTools) Find(ctx context.Context, s cli.Streams) (*ttnn.Run, error) {
	in, err := ttnn.Find(ctx, c.Python, os.Getenv("VIRTUAL_ENV"))
	if err != nil {
		return nil, err
	}
	cache, err := ttnnCache()
	if err != nil {
		return nil, err
	}
	library := c.Library
	if library == "" {
		if library, err = ttnnLibraries(cache).Find(ctx, func(text string) { fmt.Fprintln(s.Err, "reprise:", text) }); err != nil {
			return nil, err
		}
	} else if err := ttnn.CheckLibrary(library); err != nil {
		return nil, err
	}
	return &ttnn.Run{Installation: in, Library: library, Cache: filepath.Join(cache, "machines")}, nil
}

type ttnnRunCmd struct {
	TtnnTools
	Chip    string   `placeholder:"ARCH" xor:"machine"`
	Machine string   `placeholder:"NAME" xor:"machine"`
	Check   []string `placeholder:"NAME"`
	Perf    string   `placeholder:"DIR" type:"path"`
	ttnnReport
	ttnnSchedules
	Seed     uint64        `placeholder:"N"`
	Serve    string        `placeholder:"PATH"`
	ServeUMD bool          `name:"serve-umd"`
	Timeout  time.Duration `placeholder:"TIME"`

	record string // file for what the chip does

	Args []string `arg:"" passthrough:"" placeholder:"SCRIPT"`
}

func (c *ttnnRunCmd) Validate() error {
	_, err := c.settings()
	return err
}

// machineName returns --machine, or the machine of --chip, a Blackhole by default.
func machineName(machine, arch string) (string, error) {
	if machine != "" {
		return machine, nil
	}
	a, err := chip.ParseArch(cmp.Or(arch, "blackhole"))
	if err != nil {
		return "", cli.Wrong("--chip", arch, "there is no such chip", "use wormhole or blackhole").By(err)
	}
	return ttnn.MachineOf(a), nil
}

func (c *ttnnRunCmd) settings() (libttsim.Settings, error) {
	s := libttsim.Settings{Seed: c.Seed, Checks: libttsim.Expand(c.Check), KernelCache: ttnn.KernelCache(os.Getenv)}
	s.Record, s.Schedule, s.Stop = c.record, c.Schedule, c.Stop
	if c.Serve != "" {
		path, err := filepath.Abs(c.Serve)
		if err != nil {
			return s, cli.Wrong("--serve", c.Serve, err.Error(), "").By(err)
		}
		s.Serve = path
	}
	var err error
	if s.Machine, err = machineName(c.Machine, c.Chip); err != nil {
		return s, err
	}
	if c.Perf != "" && (len(c.Check) > 0 || c.Schedules > 0 || c.Schedule != "") {
		return s, cli.Wrong("--perf", c.Perf, "checks and schedules change the times", "leave them out")
	}
	spec, err := s.Spec()
	if err == nil && (c.Schedules > 0 || c.Schedule != "") && len(spec.Chips) > 1 {
		err = cli.Wrong("--machine", s.Machine, "several chips have no schedules", "use one chip")
	}
	return s, err
}

// find returns a run with the flags' settings.
func (c *ttnnRunCmd) find(ctx context.Context, s cli.Streams) (*ttnn.Run, error) {
	settings, err := c.settings()
	if err != nil {
		return nil, err
	}
	r, err := c.Find(ctx, s)
	if err == nil {
		r.Settings = settings
	}
	return r, err
}

func (c *ttnnRunCmd) Run(ctx context.Context, s cli.Streams) error {
	r, err := c.find(ctx, s)
	if err != nil {
		return err
	}
	if c.record != "" {
		r.Tensors = c.record + recording.TensorsSuffix
	}
	if len(c.Args) > 1 && c.Args[0] == "--" {
		c.Args = c.Args[1:]
	}
	if c.Perf != "" {
		return c.timed(ctx, s, r)
	}
	if c.Schedules > 0 {
		return c.explore(ctx, s, r)
	}
	if c.Schedule != "" {
		return c.repeat(ctx, s, r)
	}
	return c.checked(ctx, s, r)
}

// checked runs the program and reports what the checks find.
func (c *ttnnRunCmd) checked(ctx context.Context, s cli.Streams, r *ttnn.Run) error {
	if len(c.Check) == 0 {
		return c.start(ctx, s, r)
	}
	dir, err := os.MkdirTemp("", "reprise-findings")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	r.Settings.Findings = filepath.Join(dir, "findings.json")
	return cmp.Or(c.start(ctx, s, r), c.reportFindings(ctx, s, r.Settings.Findings))
}

// timed runs the program and writes the times of its operations.
func (c *ttnnRunCmd) timed(ctx context.Context, s cli.Streams, r *ttnn.Run) error {
	dir, err := os.MkdirTemp("", "reprise-perf")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	r.Settings.Perf, r.Calls = filepath.Join(dir, "launches"), filepath.Join(dir, "calls")
	return cmp.Or(c.start(ctx, s, r), r.WritePerf(ctx, c.Perf))
}

type ttnnReport struct {
	Report string `placeholder:"FILE" type:"path"`
	Known  bool
}

// reportFindings prints what the checks found, and writes it to --report.
func (c *ttnnReport) reportFindings(ctx context.Context, s cli.Streams, file string) error {
	list, err := findings.Read(file)
	if err != nil {
		return err
	}
	if !c.Known {
		known, err := ttnn.Known()
		if err != nil {
			return err
		}
		n := 0
		if list, n = findings.FilterKnown(list, known); n > 0 {
			fmt.Fprintf(s.Err, "reprise: %s in kernels of TT-NN, which docs/ttnn-findings.md explains and --known shows\n",
				cli.Count(n, "finding"))
		}
	}
	if err := findings.Print(s.Err, list); err != nil {
		return err
	}
	if c.Report != "" {
		write := func(w io.Writer) error { return findings.Print(w, list) }
		switch filepath.Ext(c.Report) {
		case ".json":
			write = func(w io.Writer) error { return json.NewEncoder(w).Encode(list) }
		case ".sarif":
			write = func(w io.Writer) error { return findings.SARIF(w, list) }
		}
		if err := cli.Save(ctx, "--report", c.Report, write); err != nil {
			return err
		}
	}
	if len(list) > 0 {
		return cli.ExitStatus(1)
	}
	return nil
}

type ttnnFindingsCmd struct {
	ttnnReport
	File string `arg:""`
}

func (c *ttnnFindingsCmd) Run(ctx context.Context, s cli.Streams) error {
	return c.reportFindings(ctx, s, c.File)
}

type ttnnEnvCmd struct {
	TtnnTools
	Machine  string   `required:"" placeholder:"NAME"`
	Check    []string `placeholder:"NAME"`
	Findings string   `placeholder:"FILE" type:"path"`
	Cores    string   `placeholder:"SOCKET"`
}

func (c *ttnnEnvCmd) Run(ctx context.Context, s cli.Streams) error {
	r, err := (&ttnnRunCmd{TtnnTools: c.TtnnTools, Machine: c.Machine, Check: c.Check}).find(ctx, s)
	if err != nil {
		return err
	}
	r.Settings.Findings, r.Settings.Report = c.Findings, c.Cores
	env, err := r.Prepare(os.Environ())
	if err != nil {
		return err
	}
	set := map[string]string{}
	for _, v := range env {
		if !slices.Contains(os.Environ(), v) {
			name, value, _ := strings.Cut(v, "=")
			set[name] = value
		}
	}
	return json.NewEncoder(s.Out).Encode(set)
}

func ttnnCache() (string, error) {
	dir, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("ttnn: no folder for the simulator library: %w: set HOME or XDG_CACHE_HOME", err)
	}
	return filepath.Join(dir, "reprise", "ttnn"), nil
}

func ttnnLibraries(cache string) *ttnn.Libraries {
	l := &ttnn.Libraries{Cache: filepath.Join(cache, "library"), Source: sourceFolder()}
	l.Executable, _ = os.Executable() // without a name Find says that the cache has no key
	return l
}

// sourceFolder is the checkout that the command is run in, or was built from.
func sourceFolder() string {
	dir, _ := os.Getwd()
	_, file, _, _ := runtime.Caller(0)
	for _, at := range []string{dir, filepath.Dir(file)} {
		for ; filepath.IsAbs(at); at = filepath.Dir(at) {
			if b, err := os.ReadFile(filepath.Join(at, "go.mod")); err == nil &&
				strings.HasPrefix(string(b), "module github.com/reprise-tt/reprise\n") {
				return at
			}
			if at == filepath.Dir(at) {
				break
			}
		}
	}
	return ""
}

type ttnnLibraryCmd struct {
	Output string `short:"o" required:"" placeholder:"DIR"`
}

func (c *ttnnLibraryCmd) Run(ctx context.Context, s cli.Streams) error {
	cache, err := ttnnCache()
	if err != nil {
		return err
	}
	path, err := filepath.Abs(filepath.Join(c.Output, ttnn.LibraryName))
	if err != nil {
		return err
	}
	if err := ttnnLibraries(cache).Build(ctx, path); err != nil {
		return err
	}
	_, err = fmt.Fprintln(s.Out, path)
	return err
}

type ttnnDoctorCmd struct {
	pythonFlag
	cli.AsJSON
}

func (c *ttnnDoctorCmd) Run(ctx context.Context, s cli.Streams) error {
	cache, err := ttnnCache()
	if err != nil {
		return err
	}
	return s.PrintChecks(c.JSON, ttnn.Diagnose(ctx, c.Python, os.Getenv("VIRTUAL_ENV"), ttnnLibraries(cache)))
}

// endPatience bounds the program's end.
const endPatience = 5 * time.Second

func (c *ttnnRunCmd) start(ctx context.Context, s cli.Streams, r *ttnn.Run) error {
	r.Settings.Report = fmt.Sprintf("@reprise-ttnn-%d", os.Getpid()) // in Linux's namespace without files
	if c.ServeUMD {
		dir, err := umd.Folder()
		if err != nil {
			return err
		}
		defer os.RemoveAll(dir)
		fmt.Fprintf(s.Err, "reprise: tools of tt-umd reach the opened device at %s, as in tt-exalens -s %[1]s\n", dir)
		r.Settings.ServeUMD = dir
	}
	env, err := r.Prepare(os.Environ())
	if err != nil {
		return err
	}
	cmd := exec.Command(r.Installation.Python, c.Args...)
	cmd.Env, cmd.Stdin, cmd.Stdout, cmd.Stderr = env, os.Stdin, s.Out, s.Err
	cmd.SysProcAttr = ChildAttributes()

	AdoptOrphans()
	// The program ignores SIGQUIT, which a terminal sends to both: this process answers it.
	signal.Ignore(syscall.SIGQUIT)
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, append(cli.Endings(), syscall.SIGUSR1, syscall.SIGUSR2)...)
	defer signal.Stop(signals)
	ended := make(chan error, 1)
	begun := make(chan error, 1)
	go func() {
		// Linux ends the program with the thread that started it.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		begun <- err
		if err == nil {
			ended <- cmd.Wait()
		}
	}()
	if err := <-begun; err != nil {
		return &ttnn.Error{Kind: ttnn.ErrNoPython, Found: r.Installation.Python, Fix: "name a Python with --python", Err: err}
	}
	signal.Notify(signals, syscall.SIGQUIT)

	var timeout, goesOn <-chan time.Time
	if c.Timeout > 0 {
		t := time.NewTimer(c.Timeout)
		defer t.Stop()
		timeout = t.C
	}
	for {
		select {
		case err := <-ended:
			return programStatus(err)
		case sig := <-signals:
			switch {
			case sig == syscall.SIGQUIT:
				return c.abandon(ctx, s, r, cmd.Process, ended, "reprise: SIGQUIT: what the program waits for:")
			case sig != os.Interrupt:
				_ = cmd.Process.Signal(sig)
			default:
				if !inForeground() { // else the terminal told the program, too
					_ = cmd.Process.Signal(sig)
				}
				goesOn = time.After(endPatience)
			}
		case <-goesOn: // Python sees no signal while TT-NN waits for the device
			fmt.Fprintln(s.Err, "reprise: the program goes on after SIGINT (SIGQUIT ends it): what it waits for:")
			if err := printCores(ctx, s.Err, r); err != nil {
				fmt.Fprintln(s.Err, "reprise: the cores can't be read:", err)
			}
		case <-timeout:
			return c.abandon(ctx, s, r, cmd.Process, ended, fmt.Sprintf("reprise: the program took longer than %v:", c.Timeout))
		}
	}
}

// abandon prints the cores' state and ends the program.
func (c *ttnnRunCmd) abandon(ctx context.Context, s cli.Streams, r *ttnn.Run, p *os.Process, ended <-chan error, why string) error {
	fmt.Fprintln(s.Err, why)
	ctx, stop := context.WithTimeout(context.WithoutCancel(ctx), 2*endPatience)
	defer stop()
	if err := printCores(ctx, s.Err, r); err != nil {
		fmt.Fprintln(s.Err, "reprise: the cores can't be read:", err)
	}
	_ = p.Signal(syscall.SIGABRT) // Python prints where it is
	var err error
	select {
	case err = <-ended:
	case <-time.After(endPatience):
		_ = p.Kill()
		err = <-ended
	}
	KillOrphans() // children may wait for the program
	return programStatus(err)
}

// printCores prints what the library tells.
func printCores(ctx context.Context, w io.Writer, r *ttnn.Run) error {
	var d net.Dialer
	c, err := d.DialContext(ctx, "unix", r.Settings.Report)
	if errors.Is(err, syscall.ECONNREFUSED) { // TT-NN has opened no device yet
		_, err := fmt.Fprintln(w, "it has no device open")
		return err
	}
	if err != nil {
		return err
	}
	stop := context.AfterFunc(ctx, func() { _ = c.Close() })
	_, err = io.Copy(w, c)
	stop()
	return errors.Join(err, c.Close())
}

// programStatus is an exit code as in shells.
func programStatus(err error) error {
	var exit *exec.ExitError
	if !errors.As(err, &exit) {
		return err
	}
	if w, ok := exit.Sys().(syscall.WaitStatus); ok && w.Signaled() {
		return cli.ExitStatus(128 + int(w.Signal()))
	}
	return cli.ExitStatus(exit.ExitCode())
}
