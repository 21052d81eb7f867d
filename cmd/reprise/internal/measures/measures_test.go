package measures

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/cmd/reprise/internal/cli"
	"github.com/reprise-tt/reprise/hwtest"
	"github.com/reprise-tt/reprise/internal/devtest"
	"github.com/reprise-tt/reprise/internal/writertest"
	"github.com/reprise-tt/reprise/kernels"
	"github.com/reprise-tt/reprise/sim"
)

func TestQueueExecuted(t *testing.T) {
	for _, arch := range []chip.Arch{chip.Wormhole, chip.Blackhole} {
		t.Run(arch.String(), func(t *testing.T) {
			ctx := t.Context()
			card := sim.Blackhole(sim.Synchronous(), sim.Seed(1))
			if arch == chip.Wormhole {
				card = sim.Wormhole(sim.Synchronous(), sim.Seed(1))
			}
			d, err := reprise.Open(ctx, card)
			devtest.Must(t, err)
			defer d.Close(ctx)
			queueExecuted(card) // from here on
			im, err := kernels.Prebuilt(arch, kernels.Blank)
			devtest.Must(t, err)
			x, err := d.Load(ctx, &reprise.Program{Name: "nothing", Kernels: []reprise.Kernel{{
				Name: "nothing", Image: im, Processor: chip.BRISC, Cores: []chip.Range{chip.Single(0, 0)},
			}}})
			devtest.Must(t, err)
			devtest.Must(t, errors.Join(d.Queue(0).Run(ctx, x), d.Queue(0).Wait(ctx)))
			ran := queueExecuted(card)
			for i, n := range ran {
				if n == 0 {
					t.Errorf("%s executed nothing", []string{"prefetcher", "dispatcher", "subordinate"}[i])
				}
			}
			if again := queueExecuted(card); again != ran {
				t.Errorf("%v without work, after %v", again, ran)
			}
		})
	}
}

func TestSuiteText(t *testing.T) {
	bad := hwtest.Result{Device: "dev", Layer: "cq", Name: "a write", Protects: "bytes arrive", Outcome: hwtest.Fail, Seconds: 1.5,
		Log: []string{"x.go:1: wrong\nvery"}}
	var b bytes.Buffer
	printResult(&b, bad)
	if want := "fail     1.500s  dev  cq/a write\n      protects: bytes arrive\n      x.go:1: wrong\n        very\n"; b.String() != want {
		t.Errorf("printed\n%s\nwant\n%s", &b, want)
	}
	rep := hwtest.Report{Seconds: 4}
	rep.Add(hwtest.Result{Device: "dev", Layer: "kmd", Name: "identity", Outcome: hwtest.Pass, Seconds: 1})
	rep.Add(bad)
	rep.Add(hwtest.Result{Device: "dev", Layer: "cq", Name: "other", Outcome: hwtest.Skip, Reason: "needs more"})
	b.Reset()
	suite := func(w io.Writer) error { return cli.Print(w, func(t cli.Text) { printSuite(t, &rep) }) }
	devtest.Must(t, suite(&b))
	for _, want := range []string{
		"dev     kmd         1       0        0  1.0 s\n",
		"dev     cq          0       1        1  1.5 s\n",
		"        all         1       1        1  4.0 s\n",
		"\nfailed: dev cq/a write\n  protects: bytes arrive\n",
	} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("lacks %q:\n%s", want, &b)
		}
	}
	if strings.Contains(b.String(), "cut short") {
		t.Errorf("a whole run is cut short:\n%s", &b)
	}
	rep.Ended = "ended after 3 of 9 cases of dev: enough"
	b.Reset()
	devtest.Must(t, suite(&b))
	if want := "\ncut short: ended after 3 of 9 cases of dev: enough\n"; !strings.Contains(b.String(), want) {
		t.Errorf("lacks %q:\n%s", want, &b)
	}
	writertest.EveryWrite(t, suite)
}

func TestSuiteFindsCards(t *testing.T) {
	two := func() []string { return []string{"/dev/tenstorrent/0", "/dev/tenstorrent/1"} }
	none := func() []string { return nil }
	for _, c := range []struct {
		device string
		cards  func() []string
		want   string
	}{
		{"", two, "/dev/tenstorrent/0 /dev/tenstorrent/1"},
		{"", none, "emu:wormhole emu:blackhole"},
		{"emu:blackhole", two, "emu:blackhole"},
	} {
		cmd := HwtestCmd{Device: c.device}
		if got := strings.Join(cmd.devices(c.cards), " "); got != c.want {
			t.Errorf("--device %q tests %s, want %s", c.device, got, c.want)
		}
	}
}
