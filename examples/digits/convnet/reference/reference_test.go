package reference_test

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/examples/digits"
	"github.com/reprise-tt/reprise/examples/digits/convnet"
	"github.com/reprise-tt/reprise/examples/digits/convnet/reference"
	"github.com/reprise-tt/reprise/internal/devtest"
	"github.com/reprise-tt/reprise/internal/effort"
	"github.com/reprise-tt/reprise/internal/expect"
	"github.com/reprise-tt/reprise/kmd"
	"github.com/reprise-tt/reprise/ops"
	"github.com/reprise-tt/reprise/sim"
	"github.com/reprise-tt/reprise/sim/ttsim"
	"github.com/reprise-tt/reprise/sim/ttsim/ttsimtest"
)

func TestMain(m *testing.M) { ttsimtest.Main(m) }

func trained(t *testing.T) (*convnet.Network, []digits.Image) {
	t.Helper()
	n, err := convnet.Trained()
	devtest.Must(t, err)
	images := expect.Value(digits.Images())(t)
	return n, images
}

func TestAccuracy(t *testing.T) {
	n, images := trained(t)
	_, heldOut := digits.Split(images)
	for _, a := range []chip.Arch{chip.Wormhole, chip.Blackhole} {
		right := 0
		for i, s := range reference.Scores(a, n, heldOut) {
			if s.Best() == heldOut[i].Label {
				right++
			}
		}
		if accuracy := 100 * float64(right) / float64(len(heldOut)); accuracy < 98.5 {
			t.Errorf("%v: %d of %d right, %.2f %%, want at least 98.5 %%", a, right, len(heldOut), accuracy)
		}
	}
}

func TestBatchesAreTheSame(t *testing.T) {
	n, images := trained(t)
	all := reference.Scores(chip.Blackhole, n, images[:40])
	var apart []convnet.Scores
	for batch := range slices.Chunk(images[:40], 7) {
		apart = append(apart, reference.Scores(chip.Blackhole, n, batch)...)
	}
	expect.NoDiff(t, apart, all, "in batches of 7")
}

func TestDevicesAgreeBitForBit(t *testing.T) {
	effort.Long(t)
	for name, target := range map[string]func(t *testing.T) kmd.Target{
		"wormhole":         func(*testing.T) kmd.Target { return sim.Wormhole() },
		"blackhole":        func(*testing.T) kmd.Target { return sim.Blackhole() },
		"strict wormhole":  func(*testing.T) kmd.Target { return sim.Wormhole(sim.Strict(21)) },
		"strict blackhole": func(*testing.T) kmd.Target { return sim.Blackhole(sim.Strict(22)) },
		"ttsim wormhole": func(t *testing.T) kmd.Target {
			return ttsim.Library(ttsimtest.Path(t, ttsimtest.Wormhole), ttsimtest.Server())
		},
		"ttsim blackhole": func(t *testing.T) kmd.Target {
			return ttsim.Library(ttsimtest.Path(t, ttsimtest.Blackhole), ttsimtest.Server())
		},
	} {
		t.Run(name, func(t *testing.T) { agrees(t, target(t)) })
	}
}

func agrees(t *testing.T, target kmd.Target) {
	ctx := t.Context()
	n, images := trained(t)
	dev, err := reprise.Open(ctx, target)
	devtest.Must(t, err)
	defer func() { devtest.Must(t, dev.Close(context.WithoutCancel(ctx))) }()
	d := ops.New(dev)
	defer func() { devtest.Must(t, d.Release(context.WithoutCancel(ctx))) }()

	const room = 13 // a part of a tile
	input, err := d.Empty(ctx, n.InputSpec(room))
	devtest.Must(t, err)
	m, err := convnet.Load(ctx, d, n, room, input)
	devtest.Must(t, err)
	q := dev.Queue(0)
	check := func(how string, images []digits.Image, run func(context.Context) error) {
		t.Helper()
		pages, err := n.EncodeImages(images, room)
		devtest.Must(t, err)
		devtest.Must(t, q.Write(ctx, input.Buffer(), 0, pages))
		devtest.Must(t, run(ctx))
		results := m.Results()
		b := results[len(results)-1].Buffer()
		pages = make([]byte, b.Size())
		devtest.Must(t, q.Read(ctx, b, 0, pages))
		got, err := n.DecodeScores(pages, room)
		devtest.Must(t, err)
		expect.NoDiff(t, got[:len(images)], reference.Scores(dev.Arch(), n, images), "%s", how)
	}
	check("run", images[:room], m.Run)
	trace, err := d.Capture(ctx, "digits", m.Run)
	devtest.Must(t, err)
	check("replayed", images[100:100+room-2], trace.Replay)
	devtest.Must(t, trace.Release(ctx))
	devtest.Must(t, m.Close(ctx))
	devtest.Must(t, d.Deallocate(input))
}

func ExampleScores() {
	n, err := convnet.Trained()
	if err != nil {
		fmt.Println(err)
		return
	}
	images, err := digits.Images()
	if err != nil {
		fmt.Println(err)
		return
	}
	for i, s := range reference.Scores(chip.Blackhole, n, images[:3]) {
		fmt.Printf("%d looks like %d\n", images[i].Label, s.Best())
	}
	// Output:
	// 0 looks like 0
	// 1 looks like 1
	// 2 looks like 2
}
