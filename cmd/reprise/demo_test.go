package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/examples/digits"
	"github.com/reprise-tt/reprise/kmd"
	"github.com/reprise-tt/reprise/sim/ttsim"
)

// A device that computes one score of one image wrongly can't go unnoticed: the checker compares with the network on
// the host, names the first difference, and makes the demo fail. A zero of the other sign is a difference.
func TestCheckerFindsOneCorruptedScore(t *testing.T) {
	images, err := digits.Images()
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"bfloat16", "integer"} {
		net, err := trained(name)
		if err != nil {
			t.Fatal(err)
		}
		expected := net.forward(chip.Blackhole, images[:20])
		got := slices.Clone(expected)
		c := checker{network: net.name()}
		c.compare(0, "replayed", got, expected)
		if err := c.err(); err != nil || c.mismatches != 0 {
			t.Errorf("scores of the network itself: %d mismatches, %v", c.mismatches, err)
		}

		expected[11][0] = 0
		got[7][3]++
		got[11][0] = math.Copysign(0, -1)
		c.compare(4, "replayed", got, expected)
		var wrong *mismatchError
		if err := c.err(); !errors.As(err, &wrong) {
			t.Fatalf("two corrupted scores: %v", err)
		}
		what := [...]any{wrong.count, wrong.batch, wrong.index, wrong.how, wrong.got, wrong.expected}
		if diff := cmp.Diff([...]any{2, 4, 7, "replayed", got[7], expected[7]}, what); diff != "" {
			t.Errorf("mismatch (-want +got):\n%s", diff)
		}
		for _, part := range []string{"2 results differ", "image 7 of batch 4, replayed", fmt.Sprint(got[7]), fmt.Sprint(expected[7]),
			net.name()} {
			if !strings.Contains(wrong.Error(), part) {
				t.Errorf("%q doesn't say %q", wrong, part)
			}
		}
	}
}

// The exit code is what scripts act on: a mismatch fails, whatever was printed before.
func TestExitCodes(t *testing.T) {
	interrupted, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("interrupt signal received"))
	for _, tt := range []struct {
		name   string
		ctx    context.Context
		err    error
		code   int
		stderr string
	}{
		{"nothing wrong", t.Context(), nil, exitOK, ""},
		{
			"a mismatch", t.Context(), &mismatchError{count: 1, how: "replayed", network: "integer network"}, exitFailed,
			"reprise: 1 results differ; the first is image 0 of batch 0, replayed: the device gave the scores [0 0 0 0 0 0 0 0 0 0], the integer network gives [0 0 0 0 0 0 0 0 0 0]\n",
		},
		{"an error of package reprise", t.Context(), errors.New("reprise: wait for queue: the device is closed"), exitFailed, "reprise: wait for queue: the device is closed\n"},
		{"interrupted", interrupted, errors.New("whatever broke then"), exitInterrupted, "reprise: ended: interrupt signal received\n"},
	} {
		var b bytes.Buffer
		if code := conclude(tt.ctx, streams{err: &b}, tt.err); code != tt.code || b.String() != tt.stderr {
			t.Errorf("%s: exit code %d, %q, want %d, %q", tt.name, code, &b, tt.code, tt.stderr)
		}
	}
}

// A run that is interrupted ends at once, with a code of its own, and closes the device.
func TestInterruptedRun(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("interrupt signal received"))
	var out, errs bytes.Buffer
	if code := run(ctx, []string{"demo", "--json"}, streams{out: &out, err: &errs}); code != exitInterrupted || out.Len() != 0 {
		t.Errorf("exit code %d, %q, %q", code, &out, &errs)
	}
	if want := "reprise: ended: interrupt signal received\n"; errs.String() != want {
		t.Errorf("standard error %q, want %q", &errs, want)
	}
}

// Progress is drawn on terminals only, because in files and pipes it is noise.
func TestProgress(t *testing.T) {
	work := func(p *progress) {
		p.begin("eager", 2)
		p.step()
		p.step()
		p.end()
	}
	var b bytes.Buffer
	work(newProgress(&b, false))
	if b.Len() != 0 {
		t.Errorf("without a terminal: %q", &b)
	}
	if isTerminal(&b) {
		t.Error("a buffer is taken for a terminal")
	}
	work(newProgress(&b, true))
	empty, half, full := strings.Repeat("░", 40), strings.Repeat("█", 20)+strings.Repeat("░", 20), strings.Repeat("█", 40)
	want := "\reager   " + empty + " 0/2 batches" +
		"\reager   " + half + " 1/2 batches" +
		"\reager   " + full + " 2/2 batches" +
		"\r" + strings.Repeat(" ", len("eager   ")+40+len(" 2/2 batches")) + "\r"
	if diff := cmp.Diff(want, b.String()); diff != "" {
		t.Errorf("on a terminal (-want +got):\n%s", diff)
	}
	b.Reset()
	newProgress(&b, true).end()
	if b.Len() != 0 {
		t.Errorf("a bar that was never drawn is removed: %q", &b)
	}
}

// Every reason why a device can't be opened says in one line which device, what was found and what to do.
func TestOpenErrors(t *testing.T) {
	open := func(err error) error {
		return fmt.Errorf("reprise: open: %w", &kmd.OpError{Op: "open", Path: "/dev/tenstorrent/7", Err: err})
	}
	other := errors.New("dispatch: bring-up: something else")
	for _, tt := range []struct {
		err  error
		want string
	}{
		{
			open(fmt.Errorf("%w (%w): is the driver loaded?", kmd.ErrNoDevice, syscall.ENOENT)),
			`--device "/dev/tenstorrent/7": no such device (no such file or directory): is the driver loaded?; emu:blackhole and emu:wormhole need no card`,
		},
		{
			open(fmt.Errorf("%w (%w): join the group", kmd.ErrPermission, syscall.EACCES)),
			`--device "/dev/tenstorrent/7": no permission for the device (permission denied): join the group`,
		},
		{
			open(fmt.Errorf("%w (%w)", kmd.ErrNotDevice, syscall.ENOTTY)),
			`--device "/dev/tenstorrent/7": not a Tenstorrent device (inappropriate ioctl for device); give a node that the driver made, such as /dev/tenstorrent/0`,
		},
		{
			open(kmd.ErrUnsupportedSystem),
			`--device "/dev/tenstorrent/7": no Tenstorrent driver on this operating system; emu:blackhole and emu:wormhole need no card`,
		},
		{
			open(&ttsim.LibraryError{Path: "lib.so", Err: fs.ErrNotExist, Hint: "give another"}),
			`--device "/dev/tenstorrent/7": file does not exist; give another`,
		},
		{open(&kmd.UnknownDeviceError{Vendor: 0x1e52, Device: 0xfaca}), `--device "/dev/tenstorrent/7": PCI device 1e52:faca: want Tenstorrent's 1e52:401e (Wormhole) or 1e52:b140 (Blackhole)`},
		{other, other.Error()},
	} {
		err := openError("/dev/tenstorrent/7", tt.err)
		if err.Error() != tt.want {
			t.Errorf("%v\nbecomes %v\nwant    %s", tt.err, err, tt.want)
		}
		if !errors.Is(err, errors.Unwrap(tt.err)) && err != tt.err {
			t.Errorf("%v loses its cause", err)
		}
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
		target, err := parseTarget(device)
		if err != nil || target.String() != want {
			t.Errorf("%q is %v, %v, want %v", device, target, err, want)
		}
	}
	_, err := parseTarget("emu:grayskull")
	if !errors.Is(err, chip.ErrUnknownArch) {
		t.Errorf("an emulator that doesn't exist: %v", err)
	}
}

// The picture shows the network's one mistake, when there is any among what it measured.
func TestSamples(t *testing.T) {
	var r demoResult
	right, wrong := digits.Image{Label: 3}, digits.Image{Label: 5}
	for range 10 {
		r.sample(right, 3)
	}
	r.sample(wrong, 9)
	r.sample(digits.Image{Label: 6}, 7)
	if len(r.samples) != maxSamples || r.samples[maxSamples-1].image.Label != 5 {
		t.Errorf("samples %+v, want %d with the first mistake last", r.samples, maxSamples)
	}
	var b bytes.Buffer
	r.Arch, r.bankSize = "blackhole", 1<<30
	if err := r.print(&b); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(b.String(), "  says 3            says 3            says 3            says 9, is 5    \n") {
		t.Errorf("verdicts are missing:\n%s", &b)
	}
}
