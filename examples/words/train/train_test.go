package main

import (
	"bytes"
	"math"
	"runtime"
	"testing"

	"github.com/reprise-tt/reprise/examples/internal/rng"
	"github.com/reprise-tt/reprise/examples/words"
	"github.com/reprise-tt/reprise/internal/devtest"
)

func split(t *testing.T) (training, heldBack []string) {
	t.Helper()
	all, err := words.All()
	devtest.Must(t, err)
	return words.Split(all)
}

func TestGradientIsTheDerivativeOfTheLoss(t *testing.T) {
	src := rng.Source(5)
	m := newModel(&src)
	samples, err := newSamples([]string{"zebra", "a", "transformer"})
	devtest.Must(t, err)
	p := newPass(m)
	p.learn(samples)
	loss := func() float64 {
		q := newPass(m)
		q.forward(samples)
		return q.loss
	}
	const h = 1.0 / 256
	for i, tensor := range m.tensors {
		for _, at := range []int{64, len(tensor.w) / 2, len(tensor.w)/3 + 7} {
			set := func(v float32) {
				tensor.w[at] = v
				transpose(tensor.t, tensor.w, tensor.rows, tensor.columns)
			}
			w := tensor.w[at]
			set(w + h)
			up := loss()
			set(w - h)
			down := loss()
			set(w)
			if slope, got := (up-down)/(2*h), float64(p.gradients[i][at]); math.Abs(slope-got) > 2e-3+0.02*math.Abs(slope) {
				t.Errorf("%s, weight %d: gradient %g, the loss changes by %g", tensor.name, at, got, slope)
			}
		}
	}
}

// The weights depend on the options alone, not on the number of processors.
func TestTrainingIsDeterministic(t *testing.T) {
	training, _ := split(t)
	o := defaults()
	o.epochs, o.limit, o.batch = 1, 4, 32
	var files [2][]byte
	for i := range files {
		if i == 1 {
			defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
		}
		m, err := train(training, o, func(int, float64) {})
		devtest.Must(t, err)
		n, err := m.network()
		devtest.Must(t, err)
		if files[i], err = n.Encode(); err != nil {
			t.Fatal(err)
		}
	}
	if !bytes.Equal(files[0], files[1]) {
		t.Error("other weights on one processor")
	}
}

func TestExp(t *testing.T) {
	for x := float32(0); x > -90; x -= 0.37 {
		if want, got := math.Exp(float64(x)), float64(exp(x)); math.Abs(got-want) > 1e-6*want+1e-34 {
			t.Errorf("exp(%g) = %g, want %g", x, got, want)
		}
	}
}
