package transformer_test

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/examples/words/transformer"
	"github.com/reprise-tt/reprise/examples/words/transformer/reference"
	"github.com/reprise-tt/reprise/internal/devtest"
	"github.com/reprise-tt/reprise/internal/effort"
	"github.com/reprise-tt/reprise/kmd"
	"github.com/reprise-tt/reprise/ops"
	"github.com/reprise-tt/reprise/sim"
)

// load returns the trained network on a device until the end of the test.
func load(t *testing.T, target kmd.Target, tokens int) (*reprise.Device, *transformer.Network, *transformer.Model) {
	n, err := transformer.Trained()
	devtest.Must(t, err)
	dev, err := reprise.Open(t.Context(), target)
	devtest.Must(t, err)
	d := ops.New(dev)
	m, err := transformer.Load(t.Context(), d, n, tokens)
	devtest.Must(t, err)
	t.Cleanup(func() {
		ctx := context.Background()
		devtest.Must(t, errors.Join(m.Close(ctx), m.Close(ctx), d.Release(ctx), dev.Close(ctx)))
	})
	return dev, n, m
}

func generate(t *testing.T, target kmd.Target, s transformer.Sampling, eager int) []uint8 {
	ctx := t.Context()
	dev, _, m := load(t, target, s.Tokens)
	devtest.Must(t, m.Start(ctx, s))
	for range eager {
		devtest.Must(t, m.Step(ctx))
	}
	trace, err := dev.Queue(0).Capture(ctx, "step", m.Record)
	devtest.Must(t, err)
	for range s.Tokens - eager + 1 { // one too many, which does nothing
		devtest.Must(t, trace.Replay(ctx))
	}
	end, err := m.State(ctx)
	devtest.Must(t, err)
	if end.Left != 0 || end.More != 0 || end.Count != uint32(s.Tokens) {
		t.Errorf("state after %d tokens: %+v", s.Tokens, end)
	}
	tokens, err := m.Tokens(ctx, 0, s.Tokens)
	devtest.Must(t, err)
	devtest.Must(t, trace.Release(ctx))
	return tokens
}

func TestStepsAndReplaysMakeTheSameTokens(t *testing.T) {
	effort.Long(t)
	s := transformer.Sampling{Seed: 1, Tokens: 12}
	want := generate(t, sim.Blackhole(), s, 12)
	if got := generate(t, sim.Wormhole(), s, 1); !slices.Equal(got, want) {
		t.Errorf("tokens %v, want %v", got, want)
	}
}

func TestWordsBegin(t *testing.T) {
	ctx := t.Context()
	s := transformer.Sampling{Seed: 6, Tokens: 15, Temperature: 4} // words of a few letters
	dev, n, m := load(t, sim.Blackhole(), s.Tokens)
	state := func() transformer.State {
		s, err := m.State(ctx)
		devtest.Must(t, err)
		return s
	}
	devtest.Must(t, m.Start(ctx, s))
	for state().Left != 0 {
		devtest.Must(t, m.Begin(ctx))
		if now := state(); now.More != 1 || now.Position != 0 {
			t.Fatalf("a word begins: %+v", now)
		}
		for state().More != 0 {
			devtest.Must(t, m.Step(ctx))
		}
		if now := state(); now.Token != 0 && now.Left != 0 {
			t.Fatalf("a word ends: %+v", now)
		}
	}
	got, err := m.Tokens(ctx, 0, s.Tokens)
	devtest.Must(t, err)
	want, err := reference.New(dev.Arch(), n, s)
	devtest.Must(t, err)
	for i, token := range got {
		if want.Step(); want.State().Token != uint32(token) {
			t.Fatalf("token %d is %d, want %d", i, token, want.State().Token)
		}
	}
}

func TestLoopMakesAllTokens(t *testing.T) {
	effort.Long(t)
	for name, target := range map[string]kmd.Target{"wormhole": sim.Wormhole(), "blackhole": sim.Blackhole()} {
		t.Run(name, func(t *testing.T) {
			ctx := t.Context()
			dev, n, m := load(t, target, 40)
			devtest.Must(t, m.Start(ctx, transformer.Sampling{Tokens: 1}))
			devtest.Must(t, m.Begin(ctx))
			devtest.Must(t, m.Step(ctx))
			trace, err := dev.Queue(0).Capture(ctx, "tokens", m.RecordAll)
			devtest.Must(t, err)
			for _, s := range []transformer.Sampling{{Seed: 8, Tokens: 20}, {Seed: 9}, {Seed: 10, Tokens: 3},
				{Seed: 11, Tokens: 17, Temperature: 8}} {
				devtest.Must(t, m.Start(ctx, s))
				devtest.Must(t, trace.Replay(ctx))
				want, err := reference.New(dev.Arch(), n, s)
				devtest.Must(t, err)
				var tokens []uint8
				for want.Step() {
					tokens = append(tokens, uint8(want.State().Token))
				}
				got, err := m.Tokens(ctx, 0, s.Tokens)
				devtest.Must(t, err)
				if !slices.Equal(got, tokens) {
					t.Errorf("seed %d: tokens %v, want %v", s.Seed, got, tokens)
				}
				state, err := m.State(ctx)
				devtest.Must(t, err)
				if state != want.State() {
					t.Errorf("seed %d: state %+v, want %+v", s.Seed, state, want.State())
				}
			}
			devtest.Must(t, trace.Release(ctx))
		})
	}
}
