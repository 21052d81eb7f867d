package debugger

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/cmd/reprise/internal/cli"
	"github.com/reprise-tt/reprise/dispatch/abi"
	"github.com/reprise-tt/reprise/internal/debug/core"
	"github.com/reprise-tt/reprise/internal/debug/live"
	"github.com/reprise-tt/reprise/kernels"
	"github.com/reprise-tt/reprise/kmd"
)

// StacksCmd prints the call stacks of the processors of a running device.
type StacksCmd struct {
	Device    string   `required:"" help:"${device_help}." placeholder:"DEVICE"`
	Core      []string `help:"Cores to show, by logical coordinate, such as 0-0; all that have left reset if absent." placeholder:"X-Y"`
	Processor []string `help:"Processors to show, such as brisc,trisc0; all five if absent." placeholder:"NAME"`
	ELF       []string `name:"elf" help:"ELF file of a kernel that may be running, for lines and arguments (reprise kernel build -g)." placeholder:"FILE" type:"existingfile"`
	cli.AsJSON
}

func (StacksCmd) Help() string {
	return "Pauses one processor after the other for as long as it takes to read its registers and stack, and lets it go on. Kernels are known by their bytes: those that come with Reprise by their symbols, others by --elf. NCRISC has no debug interface: on Blackhole its stack is guessed from pc and memory, on Wormhole the function is shown that it is in."
}

func (c *StacksCmd) Validate() error { return validPlaces(c.Core, c.Processor) }

// validPlaces checks the values of --core and --processor.
func validPlaces(cores, processors []string) error {
	if _, err := parseCores(cores); err != nil {
		return err
	}
	_, err := cli.ParseProcessors(processors)
	return err
}

type coreStacks struct {
	Core   chip.Core    `json:"core"`
	Stacks []live.Stack `json:"stacks"`
}

// parseCores reads logical coordinates.
func parseCores(names []string) (cores []chip.Core, err error) {
	for _, s := range names {
		var c chip.Core
		if n, err := fmt.Sscanf(s, "%d-%d", &c.X, &c.Y); n != 2 || err != nil || c.String() == "" {
			return nil, cli.Wrong("--core", s, "no logical coordinate", "give two numbers, such as 0-0")
		}
		cores = append(cores, c)
	}
	return cores, nil
}

// catalogue returns the kernels of Reprise and of files.
func catalogue(arch chip.Arch, files []string) (*live.Catalogue, error) {
	c := &live.Catalogue{}
	for name, file := range kernels.PrebuiltFiles(arch) {
		if err := c.Add(name, file); err != nil {
			return nil, err
		}
	}
	if err := c.AddQueueKernels(arch); err != nil {
		return nil, err
	}
	return c, addFiles(c, files)
}

func addFiles(c *live.Catalogue, files []string) error {
	for _, name := range files {
		file, err := os.ReadFile(name)
		if err == nil {
			err = c.Add(filepath.Base(name), file)
		}
		if err != nil {
			return fmt.Errorf("--elf: %w", err)
		}
	}
	return nil
}

// openDebugged opens a device beside the process that uses it.
func openDebugged(ctx context.Context, name string) (*kmd.Device, *chip.Chip, error) {
	t, err := cli.ParseTarget(name)
	if err != nil {
		return nil, nil, err
	}
	return cli.OpenChip(ctx, t, kmd.WithoutPower())
}

func (c *StacksCmd) Run(ctx context.Context, s cli.Streams) error {
	dev, topo, err := openDebugged(ctx, c.Device)
	if err != nil {
		return err
	}
	defer dev.Close()
	known, err := catalogue(dev.Arch(), c.ELF)
	if err != nil {
		return err
	}
	out, err := c.collect(ctx, dev, topo, known)
	if err != nil {
		return err
	}
	return s.Print(c.JSON, out, func(w cli.Text) { printStacks(w, out) })
}

func (c *StacksCmd) collect(ctx context.Context, dev *kmd.Device, topo *chip.Chip, known *live.Catalogue) (out []coreStacks, err error) {
	cores, err := parseCores(c.Core)
	if err != nil {
		return nil, err
	}
	if len(cores) == 0 {
		cores = slices.Collect(topo.Workers())
	}
	wanted, err := cli.ParseProcessors(c.Processor)
	if err != nil {
		return nil, err
	}
	l := abi.Own(dev.Arch())
	for _, at := range cores {
		xy, err := topo.Virtual(at)
		if err != nil {
			return nil, err
		}
		entry := coreStacks{Core: at}
		for _, p := range wanted {
			st, err := known.Of(ctx, dev, l, xy, p)
			if errors.Is(err, core.ErrUnsupported) || err != nil && len(out) == 0 && len(entry.Stacks) == 0 {
				return nil, err
			}
			if err != nil {
				st.Note = err.Error()
			}
			if len(st.Frames) > 0 || len(c.Core) > 0 || err != nil {
				entry.Stacks = append(entry.Stacks, st)
			}
		}
		if len(entry.Stacks) > 0 {
			out = append(out, entry)
		}
	}
	return out, nil
}

func printStacks(w cli.Text, all []coreStacks) {
	if len(all) == 0 {
		w.F("all processors are in reset\n")
	}
	for _, c := range all {
		for _, st := range c.Stacks {
			note := ""
			if st.Note != "" {
				note = " (" + st.Note + ")"
			}
			w.F("core %v %v%s\n", c.Core, st.Processor, note)
			for i, f := range st.Frames {
				w.F("  #%d %v\n", i, f)
			}
		}
	}
}
