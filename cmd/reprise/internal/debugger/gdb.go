package debugger

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"

	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/cmd/reprise/internal/cli"
	"github.com/reprise-tt/reprise/dispatch/abi"
	"github.com/reprise-tt/reprise/internal/debug/core"
	"github.com/reprise-tt/reprise/internal/debug/gdb"
	"github.com/reprise-tt/reprise/kmd"
)

// GdbCmd serves the processors of a running device to gdb.
type GdbCmd struct {
	Device    string   `required:"" help:"${device_help}." placeholder:"DEVICE"`
	Core      []string `help:"Cores to debug, by logical coordinate, such as 0-0 (the default)." default:"0-0" placeholder:"X-Y"`
	Processor []string `help:"Processors to debug, such as brisc,trisc0; all that have a debug interface and are not in reset if absent." placeholder:"NAME"`
	ELF       []string `name:"elf" help:"ELF file of a kernel that may be running: gdb then learns the kernel's address on the first processor." placeholder:"FILE" type:"existingfile"`
	Listen    string   `help:"Where gdb connects: the path of a socket, or a host and port." default:"localhost:1234" placeholder:"ADDRESS"`
	Record    bool     `help:"Record from the start, so that gdb can go backwards. Recording slows the processors down; the monitor command record switches it."`
}

func (GdbCmd) Help() string {
	return "Pauses the processors and serves one gdb: gdb-multiarch KERNEL.elf -ex 'target remote ADDRESS'. Processors are threads; detaching, or the end of the connection, lets them go on."
}

func (c *GdbCmd) Validate() error { return validPlaces(c.Core, c.Processor) }

// Run serves one session.
func (c *GdbCmd) Run(ctx context.Context, s cli.Streams) (err error) {
	dev, topo, err := openDebugged(ctx, c.Device)
	if err != nil {
		return err
	}
	defer dev.Close()
	threads, err := c.threads(dev, topo)
	if err != nil {
		return err
	}
	text, err := c.text(dev, threads[0].Core, s)
	if err != nil {
		return err
	}
	server, err := gdb.New(threads, gdb.Options{Record: c.Record, Text: text, Tell: func(line string) { fmt.Fprintln(s.Err, line) }})
	if err != nil {
		return err
	}
	network := "tcp"
	if strings.Contains(c.Listen, string(os.PathSeparator)) {
		network = "unix"
	}
	l, err := new(net.ListenConfig).Listen(ctx, network, c.Listen)
	if err != nil {
		return fmt.Errorf("gdb: %w", err)
	}
	defer l.Close()
	fmt.Fprintf(s.Out, "waiting for gdb: target remote %v\n", l.Addr())
	stop := context.AfterFunc(ctx, func() { l.Close() })
	defer stop()
	conn, err := l.Accept()
	if err != nil {
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		return fmt.Errorf("gdb: %w", err)
	}
	defer conn.Close()
	return server.Serve(ctx, conn)
}

// threads returns the processors to debug.
func (c *GdbCmd) threads(dev *kmd.Device, topo *chip.Chip) (all []gdb.Thread, err error) {
	cores, err := parseCores(c.Core)
	if err != nil {
		return nil, err
	}
	wanted, err := cli.ParseProcessors(c.Processor)
	if err != nil {
		return nil, err
	}
	for _, at := range cores {
		xy, err := topo.Virtual(at)
		if err != nil {
			return nil, err
		}
		tile, err := core.Open(dev, xy)
		if err != nil {
			return nil, err
		}
		for _, p := range wanted {
			k, err := tile.Core(p)
			if err != nil {
				return nil, err
			}
			held, err := k.Reset()
			if err != nil {
				return nil, err
			}
			if !held && k.HasInterface() {
				all = append(all, gdb.Thread{Name: fmt.Sprintf("core %v %v", at, p), Core: k})
			}
		}
	}
	if len(all) == 0 {
		return nil, errors.New("gdb: all of these processors are in reset, or NCRISC, which has no debug interface")
	}
	return all, nil
}

// text returns the load offset of the first processor's kernel, and prints the others' places.
func (c *GdbCmd) text(dev *kmd.Device, k *core.Core, s cli.Streams) (uint32, error) {
	known, err := catalogue(dev.Arch(), c.ELF)
	if err != nil {
		return 0, err
	}
	xy := k.Tile().XY()
	space, err := known.Modules(abi.Own(dev.Arch()), func(a uint32, p []byte) error { return dev.Read(xy, uint64(a), p) }, k.Processor())
	if err != nil {
		return 0, err
	}
	if len(space) < 2 {
		return 0, nil
	}
	m := space[1]
	fmt.Fprintf(s.Out, "%v has %s at %#x\n", k.Processor(), m.Name, m.Start)
	return m.Start, nil // kernels are linked at 0
}
