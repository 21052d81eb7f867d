package cli

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"syscall"
	"testing"
	"time"

	"github.com/alecthomas/kong"

	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/internal/devtest"
	"github.com/reprise-tt/reprise/internal/writertest"
	"github.com/reprise-tt/reprise/kmd"
	"github.com/reprise-tt/reprise/sim/ttsim"
)

func TestChecksWritten(t *testing.T) {
	checks := []kmd.Check{{Name: "driver", Found: "is loaded"}, {Name: "open", Device: "card", Found: "no", Fix: "open it"}}
	writertest.EveryWrite(t, func(w io.Writer) error { return Streams{Out: w}.PrintChecks(false, checks) })
}

func TestOpenErrors(t *testing.T) {
	open := func(err error) error {
		return fmt.Errorf("reprise: open: %w", &kmd.OpError{Op: "open", Path: "/dev/tenstorrent/7", Err: err})
	}
	for _, tt := range []struct {
		err  error
		want string
	}{
		{fmt.Errorf("%w (%w): is the driver loaded?", kmd.ErrNoDevice, syscall.ENOENT),
			`no such device (no such file or directory): is the driver loaded?; emu:blackhole and emu:wormhole need no card; to check the machine: reprise doctor`},
		{fmt.Errorf("%w (%w): join the group", kmd.ErrPermission, syscall.EACCES),
			`no permission for the device (permission denied): join the group`},
		{fmt.Errorf("%w (%w)", kmd.ErrNotDevice, syscall.ENOTTY),
			`not a Tenstorrent device (inappropriate ioctl for device); give a node that the driver made, such as /dev/tenstorrent/0`},
		{kmd.ErrUnsupportedSystem, `no Tenstorrent driver on this operating system; emu:blackhole and emu:wormhole need no card; to check the machine: reprise doctor`},
		{&ttsim.LibraryError{Path: "lib.so", Err: fs.ErrNotExist, Hint: "give another"}, `file does not exist; give another`},
		{&kmd.UnknownDeviceError{Vendor: 0x1e52, Device: 0xfaca},
			`PCI device 1e52:faca: want Tenstorrent's 1e52:401e (Wormhole) or 1e52:b140 (Blackhole)`},
	} {
		was := open(tt.err)
		err := OpenError("/dev/tenstorrent/7", was)
		if want := `--device "/dev/tenstorrent/7": ` + tt.want; err.Error() != want {
			t.Errorf("%v\nbecomes %v\nwant    %s", was, err, want)
		}
		if !errors.Is(err, errors.Unwrap(was)) {
			t.Errorf("%v loses its cause", err)
		}
	}
	other := errors.New("dispatch: bring-up: something else")
	if err := OpenError("/dev/tenstorrent/7", other); err != other {
		t.Errorf("%v becomes %v", other, err)
	}
}

func TestTargets(t *testing.T) {
	for device, want := range map[string]string{
		"emu:blackhole":      "emulated blackhole 0",
		"emu:wormhole":       "emulated wormhole 0",
		"/dev/tenstorrent/1": "/dev/tenstorrent/1",
		"./node":             "./node",
		"ttsim:lib.so":       "lib.so",
	} {
		target, err := ParseTarget(device)
		if err != nil || target.String() != want {
			t.Errorf("%q is %v, %v, want %v", device, target, err, want)
		}
	}
	if _, err := ParseTarget("emu:grayskull"); !errors.Is(err, chip.ErrUnknownArch) {
		t.Errorf("an emulator that doesn't exist: %v", err)
	}
}

func TestHangTimeout(t *testing.T) {
	for _, c := range []struct {
		env  string
		args []string
		want time.Duration
		bad  bool
	}{
		{"", nil, 0, false},
		{"30", nil, 30 * time.Second, false},
		{"2.5", nil, 2500 * time.Millisecond, false},
		{"30", []string{"--hang-timeout=1"}, time.Second, false},
		{"soon", nil, 0, true},
		{"-1", nil, 0, true},
		{"1e30", nil, 0, true},
		{"NaN", nil, 0, true},
	} {
		if c.env != "" {
			t.Setenv("TT_METAL_OPERATION_TIMEOUT_SECONDS", c.env)
		}
		var flags Hangs
		p, err := kong.New(&flags, kong.Vars{"temp_dir": t.TempDir()})
		devtest.Must(t, err)
		if _, err := p.Parse(c.args); (err != nil) != c.bad || time.Duration(flags.HangTimeout) != c.want {
			t.Errorf("%q, %v: %v, %v", c.env, c.args, time.Duration(flags.HangTimeout), err)
		}
	}
}
