package cli

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/hwtest/target"
	"github.com/reprise-tt/reprise/kmd"
	"github.com/reprise-tt/reprise/sim/ttsim"
)

const ServeCommand = "ttsim-serve"

const DeviceHelp = target.Help

// ParseTarget parses --device.
func ParseTarget(s string) (kmd.Target, error) {
	d, err := ParseDevice("--device", s)
	if err != nil {
		return nil, err
	}
	return d.Open(), nil
}

func ParseDevice(flag, s string) (*target.Device, error) {
	d, err := ParseDevices(flag, s)
	if err == nil && d.Several() {
		return nil, Wrong(flag, s, "it names several device nodes, and the command takes one", "give one of them")
	}
	return d, err
}

// ParseDevices allows several nodes, of which the device is the first.
func ParseDevices(flag, s string) (*target.Device, error) { return parse(flag, s, target.Parse) }

func ParseMachine(flag, s string) (*target.Machine, error) {
	return parse(flag, s, target.ParseMachine)
}

func parse[T any](flag, s string, f func(string, ttsim.Option) (*T, error)) (*T, error) {
	server, err := Server()
	if err != nil {
		return nil, fmt.Errorf("%s %q: %w", flag, s, err)
	}
	d, err := f(s, server)
	var wrong *target.Error
	if errors.As(err, &wrong) {
		return nil, Wrong(flag, s, wrong.Why, wrong.Hint).By(wrong.Err)
	}
	return d, err
}

// Server is this program as the server of the vendor's simulator.
func Server() (ttsim.Option, error) {
	self, err := os.Executable()
	if err != nil {
		err = fmt.Errorf("find this program to start it as the simulator's server: %w", err)
	}
	return ttsim.Server(self, ServeCommand), err
}

// Processors are those for which ok returns true.
func Processors(ok func(chip.Processor) bool) (ps []chip.Processor) {
	for p := range chip.Processor(chip.NumProcessors) {
		if ok(p) {
			ps = append(ps, p)
		}
	}
	return ps
}

// ParseProcessors returns the values of --processor; all without names.
func ParseProcessors(names []string) ([]chip.Processor, error) {
	for _, name := range names {
		if len(Processors(func(p chip.Processor) bool { return strings.EqualFold(name, p.String()) })) == 0 {
			return nil, Wrong("--processor", name, "there is no such processor", "use brisc, ncrisc, trisc0, trisc1 or trisc2")
		}
	}
	return Processors(func(p chip.Processor) bool {
		return len(names) == 0 || slices.ContainsFunc(names, func(name string) bool { return strings.EqualFold(name, p.String()) })
	}), nil
}

func OpenChip(ctx context.Context, t kmd.Target, opts ...kmd.Option) (*kmd.Device, *chip.Chip, error) {
	d, err := kmd.Open(ctx, t, opts...)
	if err != nil {
		return nil, nil, err
	}
	h, err := d.Harvesting(ctx)
	if err != nil {
		return nil, nil, errors.Join(err, d.Close())
	}
	ch, err := chip.New(d.Arch(), h)
	if err != nil {
		return nil, nil, errors.Join(err, d.Close())
	}
	return d, ch, nil
}

type FlagError struct {
	Flag, Value string
	Why, Hint   string
	Err         error // the cause, for errors.Is; may be nil
}

func (e *FlagError) Error() string {
	s := fmt.Sprintf("%s %q: %s", e.Flag, e.Value, e.Why)
	if e.Hint != "" {
		s += "; " + e.Hint
	}
	return s
}

// Wrong says what to do about a flag's value.
func Wrong(flag string, value any, why, hint string) *FlagError {
	return &FlagError{flag, fmt.Sprint(value), why, hint, nil}
}

func (e *FlagError) By(err error) *FlagError {
	e.Err = err
	return e
}

func (e *FlagError) Unwrap() error { return e.Err }

// OpenError explains why a device can't be opened. Errors of every device stay unchanged.
func OpenError(device string, err error) error {
	e := &FlagError{Flag: "--device", Value: device, Err: err}
	var lib *ttsim.LibraryError
	var op *kmd.OpError
	switch {
	case errors.As(err, &lib):
		e.Why, e.Hint = lib.Err.Error(), lib.Hint
	case !errors.As(err, &op) || op.Op != "open":
		return err
	case errors.Is(err, kmd.ErrNotDevice):
		e.Why, e.Hint = op.Err.Error(), "give a node that the driver made, such as /dev/tenstorrent/0"
	case errors.Is(err, kmd.ErrNoDevice), errors.Is(err, kmd.ErrUnsupportedSystem):
		e.Why, e.Hint = op.Err.Error(), "emu:blackhole and emu:wormhole need no card"
	default:
		e.Why = op.Err.Error()
	}
	return e
}

func Cause(err error) error {
	for {
		inner := errors.Unwrap(err)
		if inner == nil {
			return err
		}
		err = inner
	}
}

const (
	ExitOK          = 0
	ExitFailed      = 1 // one line on standard error says why
	ExitUsage       = 2
	ExitInterrupted = 130 // ended by SIGINT, SIGTERM or SIGHUP
)

// ExitStatus is that of a program that has reported its error itself.
type ExitStatus int

func (e ExitStatus) Error() string { return fmt.Sprintf("the program exited with status %d", int(e)) }

type Hangs struct {
	DumpDir     string  `help:"Directory for the dump of a hang, for reprise inspect." default:"${temp_dir}" placeholder:"DIR"`
	HangTimeout Seconds `help:"How long a queue may make no progress before it counts as hung; by default 10 seconds." env:"TT_METAL_OPERATION_TIMEOUT_SECONDS" placeholder:"SECONDS"`
}

func (h *Hangs) Options() []reprise.Option {
	return []reprise.Option{reprise.WithDumpDir(h.DumpDir), reprise.WithHangTimeout(time.Duration(h.HangTimeout))}
}

// Seconds is a time limit as in TT-NN's variable; 0 is the default.
type Seconds time.Duration

// UnmarshalText allows a fraction.
func (s *Seconds) UnmarshalText(text []byte) error {
	n, err := strconv.ParseFloat(string(text), 64)
	if err != nil || !(n >= 0 && n <= math.MaxInt64/1e9) {
		return fmt.Errorf("%q is no number of seconds", text)
	}
	*s = Seconds(n * float64(time.Second))
	return nil
}
