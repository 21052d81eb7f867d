package sims

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"syscall"

	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/cmd/reprise/internal/cli"
	"github.com/reprise-tt/reprise/sim"
	"github.com/reprise-tt/reprise/sim/serve/preload"
)

// CardCmd runs a command that sees emulated cards.
type CardCmd struct {
	Chip    string   `placeholder:"ARCH" xor:"machine"`
	Machine string   `placeholder:"NAME" xor:"machine"`
	Seed    uint64   `placeholder:"N"`
	Args    []string `arg:"" passthrough:"" placeholder:"COMMAND"`
}

func (c *CardCmd) Validate() error {
	_, err := c.spec()
	return err
}

func (c *CardCmd) spec() (chip.Machine, error) {
	name, err := machineName(c.Machine, c.Chip)
	if err != nil {
		return chip.Machine{}, err
	}
	spec, ok := chip.MachineNamed(name)
	if !ok {
		return spec, cli.Wrong("--machine", name, "there is no such machine", "use one such as n150, n300, p150 or t3000")
	}
	return spec, nil
}

// Run runs the command; its exit code is this command's.
func (c *CardCmd) Run(ctx context.Context, s cli.Streams) (err error) {
	args := c.Args
	if len(args) > 1 && args[0] == "--" {
		args = args[1:]
	}
	spec, err := c.spec()
	if err != nil {
		return err
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return fmt.Errorf("card: no folder for the library: %w: set HOME or XDG_CACHE_HOME", err)
	}
	library, err := preload.Library(ctx, filepath.Join(cache, "reprise", "card"))
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "reprise-card")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	m := sim.NewMachine(spec, sim.Seed(c.Seed))
	defer func() { err = cmp.Or(err, m.Close()) }()
	d, err := m.Driver()
	if err != nil {
		return err
	}
	end, err := preload.Serve(context.WithoutCancel(ctx), dir, d)
	if err != nil {
		return err
	}
	defer func() { err = cmp.Or(err, end()) }()

	cmd := exec.Command(args[0], args[1:]...)
	cmd.Env = preload.Environment(os.Environ(), library, dir)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, s.Out, s.Err
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, append(cli.Endings(), syscall.SIGQUIT)...)
	defer signal.Stop(signals)
	if err := cmd.Start(); err != nil {
		return err
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	stopped, told := make(chan int), make([]error, len(spec.Chips))
	for i := range spec.Chips {
		go func() {
			for range m.Chip(i).Stopped() {
				stopped <- i
			}
		}()
	}
	tell := func(i int) error { // at once: the command itself reads all ones
		fault := m.Chip(i).Fault()
		if fault == nil {
			return nil
		}
		if fault != told[i] {
			told[i] = fault
			fmt.Fprintf(s.Err, "reprise: chip %d stopped: %v\n", i, fault)
		}
		return cli.ExitStatus(1)
	}
	for {
		select {
		case i := <-stopped:
			_ = tell(i)
		case err := <-ended:
			for i := range spec.Chips {
				err = cmp.Or(err, tell(i))
			}
			return programStatus(err)
		case sig := <-signals:
			if (sig != os.Interrupt && sig != syscall.SIGQUIT) || !inForeground() { // else the terminal told the command, too
				_ = cmd.Process.Signal(sig)
			}
		}
	}
}
