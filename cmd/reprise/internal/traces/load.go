package traces

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/cmd/reprise/internal/cli"
	"github.com/reprise-tt/reprise/tracebuf"
)

// programsOf are the programs of a trace, by the numbers that steps have.
func programsOf(t *reprise.Trace) []programAt {
	var out []programAt
	for i, s := range t.Debug().Programs() {
		out = append(out, programAt{Step: i, Name: s.Name, Queue: s.Queue})
	}
	return out
}

// loadFlags name a trace file and a device that it is loaded into.
type loadFlags struct {
	File     string `arg:"" help:"Trace file." type:"existingfile"`
	Device   string `help:"${device_help}; the emulator of the file's chip if not given." placeholder:"DEVICE"`
	Firmware string `help:"Folder with the base firmware of tt-metal that the trace's kernels need." placeholder:"DIR"`
}

func (c *loadFlags) Validate() (err error) {
	if c.Device != "" {
		_, err = cli.ParseTarget(c.Device)
	}
	return err
}

// read reads the trace file, and fills in the device.
func (c *loadFlags) read(ctx context.Context) (*tracebuf.File, error) {
	file, err := cli.Until(ctx, func() (*tracebuf.File, error) { return decodeTraceFile(c.File) })
	if err == nil && c.Device == "" {
		c.Device = "emu:" + file.Target.Arch.String()
	}
	return file, err
}

// load loads the trace file into the device, which isn't opened for a bad file and gets the queues
// that the trace needs.
func (c *loadFlags) load(ctx context.Context, opts ...reprise.Option) (*reprise.Trace, *reprise.Device, error) {
	file, err := c.read(ctx)
	if err != nil {
		return nil, nil, err
	}
	if c.Firmware != "" {
		opts = append(opts, reprise.WithFirmware(c.Firmware))
	}
	t, dev, err := loadInto(ctx, c.File, c.Device, opts)
	var other *tracebuf.TargetError
	if errors.As(err, &other) && other.What == "grid of workers" {
		// A device of the right kind can have these workers.
		opts = append(opts, reprise.WithQueues(len(file.Others)+1))
		for i, p := range file.Parts() {
			opts = append(opts, reprise.WithQueueWorkers(i, p.Target.Workers))
		}
		t, dev, err = loadInto(ctx, c.File, c.Device, opts)
	}
	return t, dev, err
}

func loadInto(ctx context.Context, path, device string, opts []reprise.Option) (*reprise.Trace, *reprise.Device, error) {
	target, err := cli.ParseTarget(device)
	if err != nil {
		return nil, nil, err
	}
	f, err := cli.Until(ctx, func() (*os.File, error) { return os.Open(path) })
	if err != nil {
		return nil, nil, fmt.Errorf("trace: %w", err)
	}
	defer f.Close()
	// A read of a pipe ends with ctx, so that the device is closed.
	defer context.AfterFunc(ctx, func() { _ = f.Close() })()
	dev, err := reprise.Open(ctx, target, opts...)
	if err != nil {
		return nil, nil, cli.OpenError(device, err)
	}
	t, err := dev.LoadTrace(ctx, bufio.NewReaderSize(f, 1<<16))
	if err != nil {
		return nil, nil, errors.Join(fmt.Errorf("%s: %w", path, err), dev.Close(ctx))
	}
	return t, dev, nil
}

func decodeTraceFile(path string) (*tracebuf.File, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("trace: %w", err)
	}
	defer f.Close()
	file, err := tracebuf.Decode(bufio.NewReaderSize(f, 1<<16))
	if err != nil {
		return nil, fmt.Errorf("trace: %s: %w", path, err)
	}
	return file, nil
}
