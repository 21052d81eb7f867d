package debugger

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/cmd/reprise/internal/cli"
	"github.com/reprise-tt/reprise/dispatch/abi"
	"github.com/reprise-tt/reprise/internal/debug/core"
	"github.com/reprise-tt/reprise/internal/debug/live"
	"github.com/reprise-tt/reprise/kernels"
	"github.com/reprise-tt/reprise/kmd"
)

// StacksCmd prints the call stacks of the processors of a device that runs.
type StacksCmd struct {
	Device    string   `required:"" help:"${device_help}." placeholder:"DEVICE"`
	Core      []string `help:"Cores to show, by logical coordinate, such as 0-0; all that have left reset if absent." placeholder:"X-Y"`
	Processor []string `help:"Processors to show, such as brisc,trisc0; all five if absent." placeholder:"NAME"`
	ELF       []string `name:"elf" help:"ELF file of a kernel that may be running, for lines and arguments (reprise kernel build -g)." placeholder:"FILE" type:"existingfile"`
	JSON      bool     `help:"Print one JSON object instead of text." name:"json"`
}

// Help is shown by --help.
func (StacksCmd) Help() string {
	return "Pauses one processor after the other for as long as it takes to read its registers and stack, and lets it go on. Kernels are known by their bytes: those that come with Reprise by their symbols, others by --elf. NCRISC has no debug interface: on Blackhole its stack is guessed from pc and memory, on Wormhole the function is shown that it is in. " + cli.ExitHelp
}

// Validate refuses what no device has. Package kong calls it.
func (c *StacksCmd) Validate() error { return validPlaces(c.Core, c.Processor) }

// validPlaces refuses values of --core and --processor.
func validPlaces(cores, processors []string) error {
	for _, name := range cores {
		if _, err := parseCore("--core", name); err != nil {
			return err
		}
	}
	for _, name := range processors {
		if len(wantedProcessors([]string{name})) == 0 {
			return cli.Wrong("--processor", name, "there is no such processor", "use brisc, ncrisc, trisc0, trisc1 or trisc2")
		}
	}
	return nil
}

type coreStacks struct {
	Core   chip.Core    `json:"core"`
	Stacks []live.Stack `json:"stacks"`
}

// parseCore reads a logical coordinate.
func parseCore(flag, s string) (c chip.Core, err error) {
	if n, err := fmt.Sscanf(s, "%d-%d", &c.X, &c.Y); n != 2 || err != nil || c.String() == "" {
		return c, cli.Wrong(flag, s, "no logical coordinate", "give two numbers, such as 0-0")
	}
	return c, nil
}

// catalogue returns the kernels that come with Reprise and those of files.
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

// addFiles adds ELF files to a catalogue.
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
func openDebugged(ctx context.Context, name string) (*kmd.Device, error) {
	t, err := cli.ParseTarget(name)
	if err != nil {
		return nil, err
	}
	return kmd.Open(ctx, t, kmd.WithoutPower())
}

// Run prints the stacks.
func (c *StacksCmd) Run(ctx context.Context, s cli.Streams) error {
	dev, err := openDebugged(ctx, c.Device)
	if err != nil {
		return err
	}
	defer dev.Close()
	h, err := dev.Harvesting(ctx)
	if err != nil {
		return err
	}
	topo, err := chip.New(dev.Arch(), h)
	if err != nil {
		return err
	}
	known, err := catalogue(dev.Arch(), c.ELF)
	if err != nil {
		return err
	}
	out, err := c.collect(ctx, dev, topo, known)
	if err != nil {
		return err
	}
	if c.JSON {
		return cli.PrintJSON(s.Out, out)
	}
	return printStacks(s.Out, out)
}

// collect reads the stacks of all cores asked for.
func (c *StacksCmd) collect(ctx context.Context, dev *kmd.Device, topo *chip.Chip, known *live.Catalogue) (out []coreStacks, err error) {
	var cores []chip.Core
	for _, name := range c.Core {
		at, err := parseCore("--core", name)
		if err != nil {
			return nil, err
		}
		cores = append(cores, at)
	}
	if len(cores) == 0 {
		for at := range topo.Workers() {
			cores = append(cores, at)
		}
	}
	wanted := wantedProcessors(c.Processor)
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

// printStacks prints one line for each frame.
func printStacks(w io.Writer, all []coreStacks) error {
	if len(all) == 0 {
		_, err := fmt.Fprintln(w, "all processors are in reset")
		return err
	}
	for _, c := range all {
		for _, st := range c.Stacks {
			note := ""
			if st.Note != "" {
				note = " (" + st.Note + ")"
			}
			if _, err := fmt.Fprintf(w, "core %v %v%s\n", c.Core, st.Processor, note); err != nil {
				return err
			}
			for i, f := range st.Frames {
				if _, err := fmt.Fprintf(w, "  #%d %v\n", i, f); err != nil {
					return err
				}
			}
		}
	}
	return nil
}
