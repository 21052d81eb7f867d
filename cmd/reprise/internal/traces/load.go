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

// withFirmware adds the base firmware of a folder, if one is given, to options.
func withFirmware(dir string, opts ...reprise.Option) []reprise.Option {
	if dir != "" {
		opts = append(opts, reprise.WithFirmware(dir))
	}
	return opts
}

// loadTrace loads a trace file into a device, which isn't opened for a bad file. An empty name
// stands for the emulator of the file's chip, and is filled in. The device gets the queues that the
// trace needs.
func loadTrace(ctx context.Context, path string, device *string, opts ...reprise.Option) (*reprise.Trace, *reprise.Device, error) {
	file, err := readTraceFile(ctx, path)
	if err != nil {
		return nil, nil, err
	}
	if *device == "" {
		*device = "emu:" + file.Target.Arch.String()
	}
	t, dev, err := loadInto(ctx, path, *device, opts)
	var other *tracebuf.TargetError
	if errors.As(err, &other) && other.What == "grid of workers" {
		// The device is of the right kind, so it can have these workers.
		opts = append(opts, reprise.WithQueues(len(file.Others)+1))
		for i, p := range file.Parts() {
			opts = append(opts, reprise.WithQueueWorkers(i, p.Target.Workers))
		}
		t, dev, err = loadInto(ctx, path, *device, opts)
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
	// A read of a pipe ends with that, so that the device is closed.
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

// readTraceFile reads a trace file, without a device.
func readTraceFile(ctx context.Context, path string) (*tracebuf.File, error) {
	return cli.Until(ctx, func() (*tracebuf.File, error) { return decodeTraceFile(path) })
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
