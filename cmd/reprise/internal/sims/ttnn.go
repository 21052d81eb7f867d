package sims

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/cmd/reprise/internal/cli"
	"github.com/reprise-tt/reprise/internal/ttnn"
	"github.com/reprise-tt/reprise/sim/libttsim"
)

// TtnnCmd are the commands about TT-NN.
type TtnnCmd struct {
	Run     ttnnRunCmd     `cmd:"" help:"Run a Python program with TT-NN on an emulated machine."`
	Doctor  ttnnDoctorCmd  `cmd:"" help:"Check what TT-NN needs to run here, and say what to do."`
	Library ttnnLibraryCmd `cmd:"" help:"Build the simulator library that TT-NN loads."`
}

// TtnnTools are the flags that name what runs TT-NN.
type TtnnTools struct {
	Python  string `help:"Python interpreter that has ttnn; that of the active virtual environment, or python3, if absent." placeholder:"PATH"`
	Library string `help:"Simulator library to use, as made by reprise ttnn library." placeholder:"FILE" type:"existingfile"`
}

// Find finds TT-NN and the simulator library, and builds that if there is none. The settings of the run are left to the caller.
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
	Chip    string        `help:"One chip: wormhole or blackhole (the default)." placeholder:"ARCH" xor:"machine"`
	Machine string        `help:"Machine to emulate: n150, p150, n300, p300 and the like." placeholder:"NAME" xor:"machine"`
	Check   []string      `help:"Checks of the emulator: ${ttnn_checks}." placeholder:"NAME"`
	Seed    uint64        `help:"Order in which the chip's processors run." placeholder:"N"`
	Serve   string        `help:"Offer the card to other commands, which call it socket:PATH, while the program runs." placeholder:"PATH"`
	Timeout time.Duration `help:"End a program that takes longer, after printing what each core does." placeholder:"TIME"`

	Args []string `arg:"" passthrough:"" help:"Python program and its arguments: SCRIPT, -m MODULE or -c CODE." placeholder:"SCRIPT"`
}

// Help is shown by --help.
func (ttnnRunCmd) Help() string {
	return "Sets the variables by which TT-NN loads a simulator and starts Python; the program is otherwise an ordinary one, and its exit code is that of the command (128 and the signal's number if one ended it). SIGQUIT prints what each core does and ends the program. docs/ttnn.md has more."
}

// Validate checks the flags that need no Python.
func (c *ttnnRunCmd) Validate() error {
	_, err := c.settings()
	return err
}

func (c *ttnnRunCmd) settings() (libttsim.Settings, error) {
	s := libttsim.Settings{Machine: c.Machine, Seed: c.Seed, Checks: c.Check, KernelCache: ttnn.KernelCache(os.Getenv)}
	if c.Serve != "" {
		path, err := filepath.Abs(c.Serve)
		if err != nil {
			return s, cli.Wrong("--serve", c.Serve, err.Error(), "").By(err)
		}
		s.Serve = path
	}
	if s.Machine == "" {
		arch, err := chip.Blackhole, error(nil)
		if c.Chip != "" {
			arch, err = chip.ParseArch(c.Chip)
		}
		if err != nil {
			return s, cli.Wrong("--chip", c.Chip, "there is no such chip", "use wormhole or blackhole").By(err)
		}
		s.Machine = ttnn.MachineOf(arch)
	}
	_, err := s.Spec()
	return s, err
}

// Run runs the program.
func (c *ttnnRunCmd) Run(ctx context.Context, s cli.Streams) error {
	settings, err := c.settings()
	if err != nil {
		return err
	}
	r, err := c.Find(ctx, s)
	if err != nil {
		return err
	}
	r.Settings = settings
	if len(c.Args) > 1 && c.Args[0] == "--" {
		c.Args = c.Args[1:]
	}
	return c.start(ctx, s, r)
}

// ttnnCache returns the folder for what ttnn run keeps.
func ttnnCache() (string, error) {
	dir, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("ttnn: no folder for the simulator library: %w: set HOME or XDG_CACHE_HOME", err)
	}
	return filepath.Join(dir, "reprise", "ttnn"), nil
}

func ttnnLibraries(cache string) *ttnn.Libraries {
	l := &ttnn.Libraries{Cache: filepath.Join(cache, "library"), Source: sourceFolder()}
	l.Executable, _ = os.Executable() // without it the cache has no key, which Find says
	return l
}

// sourceFolder returns a folder of the checkout that the command is run in, or was built from.
func sourceFolder() string {
	if dir, err := os.Getwd(); err == nil {
		for at := dir; ; at = filepath.Dir(at) {
			if b, err := os.ReadFile(filepath.Join(at, "go.mod")); err == nil &&
				strings.HasPrefix(string(b), "module github.com/reprise-tt/reprise\n") {
				return at
			}
			if at == filepath.Dir(at) {
				break
			}
		}
	}
	return builtFrom()
}

type ttnnLibraryCmd struct {
	Output string `short:"o" required:"" help:"Folder for libttsim.so; it is made if it doesn't exist." placeholder:"DIR"`
}

// Help is shown by --help.
func (ttnnLibraryCmd) Help() string {
	return "The library has the emulated chip behind the C interface of the vendor's simulator. Building it needs Go, a C compiler and a checkout of the repository; using it needs none of them. reprise ttnn run builds it by itself and keeps it; it also uses one that lies beside the reprise program. " + cli.ExitHelp
}

// Run builds the library.
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
	Python string `help:"Python interpreter that has ttnn; that of the active virtual environment, or python3, if absent." placeholder:"PATH"`
	JSON   bool   `help:"Print one JSON object instead of a table." name:"json"`
}

// Help is shown by --help.
func (ttnnDoctorCmd) Help() string {
	return "Checks Python, the ttnn package and whether its version is known, the compiler of kernels, and the simulator library or what builds it. Each check that fails names one thing to do. " + cli.ExitHelp
}

// Run makes the checks.
func (c *ttnnDoctorCmd) Run(ctx context.Context, s cli.Streams) error {
	cache, err := ttnnCache()
	if err != nil {
		return err
	}
	var checks []cli.Check
	for _, k := range ttnn.Diagnose(ctx, c.Python, os.Getenv("VIRTUAL_ENV"), ttnnLibraries(cache)) {
		checks = append(checks, cli.Check{Name: k.Name, Status: k.Status, Found: k.Found, Fix: k.Fix})
	}
	return cli.PrintChecks(s.Out, c.JSON, checks)
}
