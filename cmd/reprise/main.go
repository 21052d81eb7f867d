// Command reprise shows what package reprise does: see README.md.
package main

import (
	"cmp"
	"context"
	_ "embed"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"reflect"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/alecthomas/kong"

	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/cmd/reprise/internal/cards"
	"github.com/reprise-tt/reprise/cmd/reprise/internal/cli"
	"github.com/reprise-tt/reprise/cmd/reprise/internal/code"
	"github.com/reprise-tt/reprise/cmd/reprise/internal/debugger"
	"github.com/reprise-tt/reprise/cmd/reprise/internal/demo"
	"github.com/reprise-tt/reprise/cmd/reprise/internal/graphs"
	"github.com/reprise-tt/reprise/cmd/reprise/internal/measures"
	"github.com/reprise-tt/reprise/cmd/reprise/internal/sims"
	"github.com/reprise-tt/reprise/cmd/reprise/internal/traces"
	"github.com/reprise-tt/reprise/dispatch"
	"github.com/reprise-tt/reprise/dispatch/abi"
	"github.com/reprise-tt/reprise/dispatch/cq"
	"github.com/reprise-tt/reprise/hwtest/target"
	"github.com/reprise-tt/reprise/internal/kabi"
	"github.com/reprise-tt/reprise/internal/seam"
	"github.com/reprise-tt/reprise/internal/usage"
	"github.com/reprise-tt/reprise/kmd"
	"github.com/reprise-tt/reprise/sim/libttsim"
	"github.com/reprise-tt/reprise/sim/serve/preload"
	"github.com/reprise-tt/reprise/tracebuf"
)

// reader may only read and print, so that interrupting needs no cleanup.
type reader interface{ OnlyReads() bool }

type commands struct {
	Demo       demo.Cmd            `cmd:""`
	Generate   demo.GenerateCmd    `cmd:""`
	Inspect    debugger.InspectCmd `cmd:""`
	Ls         cards.LsCmd         `cmd:""`
	Topology   cards.TopologyCmd   `cmd:""`
	Info       cards.InfoCmd       `cmd:""`
	Doctor     cards.DoctorCmd     `cmd:""`
	Reset      cards.ResetCmd      `cmd:""`
	Monitor    cards.MonitorCmd    `cmd:""`
	Hwtest     measures.HwtestCmd  `cmd:""`
	Bench      measures.BenchCmd   `cmd:""`
	Probe      measures.ProbeCmd   `cmd:""`
	Trace      traces.Cmd          `cmd:""`
	Graph      graphs.Cmd          `cmd:""`
	Stacks     debugger.StacksCmd  `cmd:""`
	GDB        debugger.GdbCmd     `cmd:"" name:"gdb"`
	Kernel     code.KernelCmd      `cmd:""`
	Metal      code.MetalCmd       `cmd:""`
	Sim        sims.SimCmd         `cmd:""`
	VM         sims.VmCmd          `cmd:"" name:"vm"`
	Card       sims.CardCmd        `cmd:""`
	TTNN       sims.TtnnCmd        `cmd:"" name:"ttnn"`
	Complete   completeCmd         `cmd:"" hidden:""`
	Completion completionCmd       `cmd:""`
	Version    versionCmd          `cmd:""`

	VersionFlag versionFlag `help:"Print the version." name:"version"`

	// Hidden: the vendor's simulator, the process that the suite kills, and the first one of a
	// machine.
	Serve  sims.ServeCmd      `cmd:"" name:"ttsim-serve" hidden:""`
	Victim measures.VictimCmd `cmd:"" name:"hwtest-victim" hidden:""`
	Inside sims.InsideCmd     `cmd:"" name:"vm-inside" hidden:""`
}

func main() {
	if dir := os.Getenv(preload.Variable); dir != "" {
		kmd.SetHost(preload.FS(dir), func(path string) seam.Node { return preload.Node(dir, path) })
	}
	ctx, stop := signal.NotifyContext(context.Background(), cli.Endings()...)
	var ended atomic.Bool
	who := new(cli.Process)
	context.AfterFunc(ctx, func() {
		stop() // the second signal ends the process at once
		time.AfterFunc(patience, func() {
			if !ended.Load() {
				fmt.Fprint(os.Stderr, who.Label(endingLine+"\n"))
			}
		})
	})
	s := cli.Streams{Out: os.Stdout, Err: os.Stderr, Who: who}
	who.Quit = func(err error) { os.Exit(conclude(ctx, s, err)) }
	code := run(ctx, os.Args[1:], s)
	ended.Store(true)
	stop()
	os.Exit(code)
}

// patience is the time until a silent ending is announced.
const patience = 500 * time.Millisecond

const endingLine = "reprise: ending: waiting for what was begun; another signal ends the process at once"

func run(ctx context.Context, args []string, s cli.Streams) int {
	var c commands
	exit := -1
	vars := kong.Vars{
		"device_help":  cli.DeviceHelp,
		"revisions":    traces.RevisionNames(),
		"machine_help": target.MachineHelp,
		"ttnn_checks":  strings.Join(libttsim.Checks(), ", "),
		"temp_dir":     os.TempDir(),
		"usage_dir":    usage.Dir,
	}
	parser, err := kong.New(
		&c,
		kong.Name("reprise"),
		kong.Description("Record a Tenstorrent command stream once and play it again for almost nothing."),
		kong.Writers(s.Out, s.Err),
		vars,
		kong.Exit(func(code int) { exit = code }),
		kong.BindTo(ctx, (*context.Context)(nil)),
		kong.Bind(s),
	)
	if err != nil {
		fmt.Fprintln(s.Err, "reprise:", err)
		return cli.ExitFailed
	}
	helpTexts(vars).fill(parser.Model.Node)
	for _, n := range parser.Model.Leaves(true) {
		if !strings.Contains(n.Detail, "xit code") {
			n.Detail = strings.TrimSpace(n.Detail + " " + cli.ExitHelp)
		}
	}
	if len(args) > 0 && args[0] == "help" {
		args = append(args[1:len(args):len(args)], "--help")
	}
	k, err := parser.Parse(args)
	if exit >= 0 {
		return exit
	}
	if err == nil {
		err = named(k)
	}
	if err != nil {
		var wrong *cli.FlagError
		if errors.As(err, &wrong) {
			err = wrong // without the name of the command that kong puts in front
		} else {
			err = fmt.Errorf("%w; see %s --help", err, commandOf(err))
		}
		fmt.Fprintln(s.Err, "reprise:", err)
		return cli.ExitUsage
	}
	do := func() (struct{}, error) { return struct{}{}, k.Run() }
	if r, ok := k.Selected().Target.Addr().Interface().(reader); ok && r.OnlyReads() {
		_, err = cli.Until(ctx, do)
	} else {
		_, err = do()
	}
	return conclude(ctx, s, err)
}

// helpText has a line for each command, its details, arguments and flags: "trace run: ...",
// "trace run +: ...", "trace run --set: ...". A line without a command is for the flag of every
// other command.
//
//go:embed help.txt
var helpText string

type texts map[string]string

func helpTexts(vars kong.Vars) texts {
	out := texts{}
	for line := range strings.Lines(helpText) {
		key, text, _ := strings.Cut(strings.TrimSpace(line), ": ")
		out[key] = os.Expand(text, func(name string) string { return vars[name] })
	}
	return out
}

func (t texts) fill(n *kong.Node) {
	n.Help, n.Detail = cmp.Or(n.Help, t[n.Path()]), cmp.Or(n.Detail, t[n.Path()+" +"])
	for _, f := range n.Flags {
		f.Help = cmp.Or(f.Help, t[n.Path()+" --"+f.Name], t["--"+f.Name])
	}
	for _, a := range n.Positional {
		a.Help = cmp.Or(a.Help, t[n.Path()+" <"+a.Name+">"])
	}
	for _, c := range n.Children {
		t.fill(c)
	}
}

// commandOf returns the command as far as wrong arguments name it.
func commandOf(err error) string {
	name := "reprise"
	var wrong *kong.ParseError
	if errors.As(err, &wrong) {
		for _, p := range wrong.Context.Path {
			if p.Command != nil {
				name = "reprise " + p.Command.Path()
			}
		}
	}
	return name
}

// named refuses an empty --device, such as an unset shell variable: a default could be the wrong
// one.
func named(k *kong.Context) error {
	for _, p := range k.Path {
		if f := p.Flag; f != nil && f.Name == "device" && f.Target.Kind() == reflect.String && f.Target.Len() == 0 {
			return cli.Wrong("--device", "", "it is empty", "name a device, or leave the flag out")
		}
	}
	return nil
}

// conclude writes once, so that lines of several processes don't mix.
func conclude(ctx context.Context, s cli.Streams, err error) int {
	var b strings.Builder
	defer s.Who.Last(func() { _, _ = io.WriteString(s.Err, s.Who.Label(b.String())) })
	var status cli.ExitStatus
	switch {
	case err == nil:
		return cli.ExitOK
	case errors.As(err, &status):
		return int(status)
	case ctx.Err() != nil:
		fmt.Fprintln(&b, "reprise: ended:", context.Cause(ctx))
		return cli.ExitInterrupted
	}
	// Errors of package reprise have its name.
	fmt.Fprintln(&b, "reprise:", strings.TrimPrefix(err.Error(), "reprise: "))
	var h *dispatch.HangError
	switch {
	case !errors.As(err, &h):
	case h.File != "":
		fmt.Fprintln(&b, "reprise: to see what every core does: reprise inspect", h.File)
	default:
		b.WriteString(h.Detail())
	}
	return cli.ExitFailed
}

type versionCmd struct{ cli.AsJSON }

func (c *versionCmd) Run(s cli.Streams) error {
	v, err := version()
	if err != nil {
		return err
	}
	return s.Print(c.JSON, v, v.print)
}

type versionFlag bool

func (versionFlag) BeforeReset(app *kong.Kong) error {
	v, err := version()
	if err == nil {
		err = cli.Print(app.Stdout, v.print)
	}
	if err != nil {
		return err
	}
	app.Exit(cli.ExitOK)
	return nil
}

type versionJSON struct {
	Version  string `json:"version"`
	Revision string `json:"revision,omitempty"`
	Time     string `json:"time,omitempty"`
	Modified *bool  `json:"modified,omitempty"`
	Go       string `json:"go"`
	Platform string `json:"platform"`

	Firmware    []firmwareJSON `json:"firmware"`
	TTMetal     []string       `json:"tt_metal_firmware"`
	WireFormats []string       `json:"wire_formats"`
	Traces      int            `json:"trace_files"` // version
	Driver      driverJSON     `json:"driver"`
}

type firmwareJSON struct {
	Arch   string `json:"arch"`
	SHA256 string `json:"sha256"`
}

type driverJSON struct {
	Interface int    `json:"interface"`
	Oldest    string `json:"oldest"`
}

func version() (*versionJSON, error) {
	v := &versionJSON{Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH, TTMetal: []string{}, WireFormats: []string{}}
	info, _ := debug.ReadBuildInfo()
	v.built(info)
	for _, a := range []chip.Arch{chip.Wormhole, chip.Blackhole} {
		sum, err := dispatch.HashFirmware(a, nil)
		if err != nil {
			return nil, err
		}
		v.Firmware = append(v.Firmware, firmwareJSON{a.String(), hex.EncodeToString(sum[:])})
	}
	for _, l := range abi.Known(chip.Blackhole) {
		v.TTMetal = append(v.TTMetal, l.Wheels()...)
	}
	for _, r := range cq.Revisions() {
		v.WireFormats = append(v.WireFormats, r.Name)
	}
	v.Traces = tracebuf.FileVersion
	v.Driver = driverJSON{kabi.DriverAPIVersion, kabi.OldestDriver}
	return v, nil
}

func (v *versionJSON) built(info *debug.BuildInfo) {
	v.Version = "unknown"
	if info == nil {
		return
	}
	v.Version = cmp.Or(info.Main.Version, v.Version)
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			v.Revision = s.Value
		case "vcs.time":
			v.Time = s.Value
		case "vcs.modified":
			modified := s.Value == "true"
			v.Modified = &modified
		}
	}
}

func (v *versionJSON) print(w cli.Text) {
	t := w.Table()
	t.Row("reprise", v.Version)
	if v.Revision != "" {
		about := ""
		if v.Time != "" {
			about = " of " + v.Time
		}
		if v.Modified != nil && *v.Modified {
			about += ", with changes"
		}
		t.Row("revision", v.Revision+about)
	}
	t.Row("go", v.Go+" "+v.Platform)
	var digests []string
	for _, f := range v.Firmware {
		digests = append(digests, f.Arch+" "+f.SHA256[:12])
	}
	t.Row("firmware", strings.Join(digests, ", "))
	t.Row("tt-metal", "runs firmware of "+strings.Join(v.TTMetal, ", ")+"; reads commands of "+strings.Join(v.WireFormats, ", "))
	t.Row("trace files", fmt.Sprintf("version %d", v.Traces))
	t.Row("driver", fmt.Sprintf("tt-kmd %s and newer, interface %d", v.Driver.Oldest, v.Driver.Interface))
	t.Flush()
}

// completionCmd prints what makes a shell ask completeCmd.
type completionCmd struct {
	Shell string `arg:"" enum:"bash,zsh,fish"`
}

func (c *completionCmd) Run(s cli.Streams) error {
	return cli.Print(s.Out, func(w cli.Text) { w.F("%s", completions[c.Shell]) })
}

var completions = map[string]string{
	"bash": `_reprise() { mapfile -t COMPREPLY < <(reprise complete -- "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null); }
complete -o default -F _reprise reprise
`,
	"zsh": `_reprise() {
	local -a found=("${(@f)$(reprise complete -- "${(@)words[2,CURRENT]}" 2>/dev/null)}")
	[[ -n $found ]] && compadd -- $found || _files
}
compdef _reprise reprise
`,
	"fish": `complete -c reprise -a '(reprise complete -- (commandline -opc)[2..] (commandline -ct) 2>/dev/null)'
`,
}

// completeCmd prints the commands and flags that may stand in place of the last word; none where a
// file or a value may stand.
type completeCmd struct {
	Words []string `arg:"" optional:"" passthrough:""`
}

func (c *completeCmd) Run(k *kong.Context, s cli.Streams) error {
	words := append([]string{""}, c.Words...) // the last is unfinished
	at, last := k.Model.Node, words[len(words)-1]
	for _, word := range words[:len(words)-1] {
		if i := slices.IndexFunc(at.Children, func(n *kong.Node) bool { return n.Name == word }); i >= 0 {
			at = at.Children[i]
		}
	}
	var found []string
	for _, n := range at.Children {
		if !n.Hidden {
			found = append(found, n.Name)
		}
	}
	for _, group := range at.AllFlags(true) {
		for _, f := range group {
			found = append(found, "--"+f.Name)
		}
	}
	return cli.Print(s.Out, func(w cli.Text) {
		for _, name := range found {
			if strings.HasPrefix(name, last) && strings.HasPrefix(name, "-") == strings.HasPrefix(last, "-") {
				w.F("%s\n", name)
			}
		}
	})
}
