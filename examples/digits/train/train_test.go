package main

import (
	"bytes"
	"io"
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/reprise-tt/reprise/examples/digits"
	"github.com/reprise-tt/reprise/examples/internal/rng"
	"github.com/reprise-tt/reprise/internal/devtest"
	"github.com/reprise-tt/reprise/internal/effort"
)

// The committed trainer makes the committed weights, on every architecture that runs this test.
func TestTrainingGivesTheCommittedWeights(t *testing.T) {
	effort.Long(t)
	if testing.Short() {
		t.Skip("one goroutine, and slow under the race detector")
	}
	for _, r := range []recipe{convolutional, integer} {
		path := filepath.Join(t.TempDir(), "weights")
		devtest.Must(t, r.write(io.Discard, path))
		got, err := os.ReadFile(path)
		devtest.Must(t, err)
		want, err := os.ReadFile(filepath.Join("../../..", r.file))
		devtest.Must(t, err)
		if !bytes.Equal(got, want) {
			t.Errorf("%d bytes that differ from the %d of %s; run go run ./examples/digits/train", len(got), len(want), r.file)
		}
	}
}

// checkGradients trains a model a little and lets it learn from one more image. It compares
// gradients of weights with how the loss changes: in each layer of the first, the middle and the
// last weight, and another one.
func checkGradients(t *testing.T, newModel func(*rng.Source) *model, other int) {
	images, err := digits.Images()
	devtest.Must(t, err)
	m := train(images[:40], options{seed: 3, epochs: 1, batch: 8, rate: 0.01, shift: 0, bend: 0}, newModel)
	x := make([]float64, digits.Pixels)
	ink(x, &images[7])
	label := images[7].Label
	loss := func() float64 {
		p := make([]float64, digits.Classes)
		softmax(p, m.forward(x))
		return -math.Log(p[label])
	}
	m.learn(x, label)
	const h = 1e-6
	for layer := range m.stages {
		d := m.dense(layer)
		if d == nil {
			continue
		}
		for _, i := range []int{0, other, len(d.w) / 2, len(d.w) - 1} {
			w := d.w[i]
			d.w[i] = w + h
			up := loss()
			d.w[i] = w - h
			down := loss()
			d.w[i] = w
			if slope := (up - down) / (2 * h); math.Abs(slope-d.gw[i]) > 1e-6 {
				t.Errorf("layer %d weight %d: gradient %g, the loss changes by %g", layer, i, d.gw[i], slope)
			}
		}
	}
}

func TestGradientIsTheDerivativeOfTheLoss(t *testing.T) {
	checkGradients(t, newIntegerModel, 17)
	checkGradients(t, newConvModel, 8)
}

func TestExp(t *testing.T) {
	for x := 0.0; x > -750; x -= 0.37 {
		if want, got := math.Exp(x), exp(x); math.Abs(got-want) > 1e-13*want+1e-304 {
			t.Errorf("exp(%g) = %g, want %g", x, got, want)
		}
	}
}

func TestWarpWithoutLimitsIsTheImage(t *testing.T) {
	images, err := digits.Images()
	devtest.Must(t, err)
	src := rng.Source(1)
	x := make([]float64, digits.Pixels)
	warp(x, &images[0], 0, 0, &src)
	for i, p := range images[0].Pixels {
		if x[i] != float64(p)/digits.MaxPixel {
			t.Fatalf("pixel %d is %g, was %d", i, x[i], p)
		}
	}
}

func TestRatioIsCloseAndShort(t *testing.T) {
	for _, f := range []float64{0.9999, 0.5, 0.25, 0.0168, 0.00405, 1.0 / 3, 1e-5} {
		m, s := ratio(f)
		if got := float64(m) / float64(uint64(1)<<s); math.Abs(got-f) > f/1024 || m > 1024 {
			t.Errorf("ratio(%g) = %d / 2^%d = %g", f, m, s, got)
		}
	}
}
