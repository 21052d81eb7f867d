package reference_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/examples/words/transformer"
	"github.com/reprise-tt/reprise/examples/words/transformer/reference"
	"github.com/reprise-tt/reprise/internal/devtest"
	"github.com/reprise-tt/reprise/internal/effort"
	"github.com/reprise-tt/reprise/kmd"
	"github.com/reprise-tt/reprise/ops"
	"github.com/reprise-tt/reprise/sim"
	"github.com/reprise-tt/reprise/sim/ttsim"
	"github.com/reprise-tt/reprise/sim/ttsim/ttsimtest"
)

func TestMain(m *testing.M) { ttsimtest.Main(m) }

func network(t *testing.T) *transformer.Network {
	t.Helper()
	n, err := transformer.Trained()
	devtest.Must(t, err)
	return n
}

func agrees(t *testing.T, a chip.Arch, target kmd.Target, samplings ...transformer.Sampling) {
	ctx, n := t.Context(), network(t)
	dev, err := reprise.Open(ctx, target)
	devtest.Must(t, err)
	d := ops.New(dev)
	m, err := transformer.Load(ctx, d, n, 300)
	devtest.Must(t, err)
	var trace *reprise.Trace
	for _, s := range samplings {
		want, err := reference.New(a, n, s)
		devtest.Must(t, err)
		devtest.Must(t, m.Start(ctx, s))
		for i := range s.Tokens {
			if trace == nil {
				devtest.Must(t, m.Step(ctx))
				trace, err = dev.Queue(0).Capture(ctx, "step", m.Record)
				devtest.Must(t, err)
			} else {
				devtest.Must(t, trace.Replay(ctx))
			}
			want.Step()
			scores, err := m.Scores(ctx)
			devtest.Must(t, err)
			if diff := cmp.Diff(want.Scores(), scores); diff != "" {
				t.Fatalf("seed %d, token %d: logits (-host +device):\n%s", s.Seed, i, diff)
			}
			state, err := m.State(ctx)
			devtest.Must(t, err)
			if diff := cmp.Diff(want.State(), state); diff != "" {
				t.Fatalf("seed %d, token %d: state (-host +device):\n%s", s.Seed, i, diff)
			}
		}
	}
	devtest.Must(t, trace.Release(ctx))
	devtest.Must(t, m.Close(ctx))
	devtest.Must(t, d.Release(ctx))
	devtest.Must(t, dev.Close(ctx))
}

func TestEmulatorsAgreeBitForBit(t *testing.T) {
	effort.Long(t)
	s := []transformer.Sampling{{Seed: 1, Tokens: 25}, {Seed: 2, Tokens: 15, Temperature: 0.5}, {Seed: 3, Tokens: 10, Temperature: 2}}
	t.Run("wormhole", func(t *testing.T) { agrees(t, chip.Wormhole, sim.Wormhole(), s...) })
	t.Run("blackhole", func(t *testing.T) { agrees(t, chip.Blackhole, sim.Blackhole(), s...) })
}

func TestStrict(t *testing.T) {
	effort.Long(t)
	s := transformer.Sampling{Seed: 4, Tokens: effort.Of(1, 1, 40)}
	t.Run("wormhole", func(t *testing.T) { agrees(t, chip.Wormhole, sim.Wormhole(sim.Strict(11)), s) })
	t.Run("blackhole", func(t *testing.T) { agrees(t, chip.Blackhole, sim.Blackhole(sim.Strict(12)), s) })
}

func TestVendorsSimulatorAgreesBitForBit(t *testing.T) {
	for a, library := range map[chip.Arch]string{chip.Wormhole: ttsimtest.Wormhole, chip.Blackhole: ttsimtest.Blackhole} {
		t.Run(library, func(t *testing.T) {
			agrees(t, a, ttsim.Library(ttsimtest.Path(t, library), ttsimtest.Server()), transformer.Sampling{Seed: 1, Tokens: 4})
		})
	}
}
