// Command train makes the weights of the networks that read digits: it trains one on a part of the digits, converts it to the
// numbers that the device computes with, and reports the accuracy on digits that it was not trained on, as the device computes it.
//
//	go run ./examples/digits/train                  the convolutional network: train, write convnet/weights.safetensors, report
//	go run ./examples/digits/train integer          the integer network: train, write weights.bin, report
//	go run ./examples/digits/train [integer] -cv    cross-validate inside the training part, write nothing
//
// The same weights come out on every architecture: the arithmetic is float64 in a fixed order without fused operations.
// The held-out digits are used for the report only; every choice was made with -cv.
package main

import (
	"flag"
	"fmt"
	"io"
	"os"

	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/examples/digits"
	"github.com/reprise-tt/reprise/examples/digits/convnet/reference"
)

func main() {
	r, args := convolutional, os.Args[1:]
	if len(args) > 0 && args[0] == integer.name {
		r, args = integer, args[1:]
	}
	o := r.options
	f := flag.NewFlagSet("train "+r.name, flag.ExitOnError)
	out := f.String("o", r.file, "file to write")
	cv := f.Bool("cv", false, "cross-validate inside the training part and write nothing")
	f.Uint64Var(&o.seed, "seed", o.seed, "of initial weights, order and augmentation")
	f.IntVar(&o.epochs, "epochs", o.epochs, "passes over the training part")
	f.IntVar(&o.batch, "batch", o.batch, "images a step")
	f.Float64Var(&o.rate, "rate", o.rate, "learning rate at the start")
	f.Float64Var(&o.momentum, "momentum", o.momentum, "momentum")
	f.Float64Var(&o.decay, "decay", o.decay, "weight decay")
	f.Float64Var(&o.shift, "shift", o.shift, "augmentation: displacement in pixels")
	f.Float64Var(&o.bend, "bend", o.bend, "augmentation: relative scale, slant and turn")
	_ = f.Parse(args) // exits on an error
	run := func() error {
		if *cv {
			return r.validate(os.Stdout, o)
		}
		return r.write(os.Stdout, *out, o)
	}
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "train:", err)
		os.Exit(1)
	}
}

// recipe is how a network is trained.
type recipe struct {
	name    string
	file    string // of the weights, below the module's root
	options options
	train   func([]digits.Image, options) (trained, error)
}

// trained is a trained network.
type trained struct {
	float    learner                      // as it was trained
	weights  []byte                       // the file, converted
	classify func([]digits.Image) []uint8 // as the device computes
}

var convolutional = recipe{"bfloat16", "examples/digits/convnet/weights.safetensors", convDefaults(),
	func(images []digits.Image, o options) (trained, error) {
		m := trainConv(images, o)
		n, err := m.bfloat()
		if err != nil {
			return trained{}, err
		}
		file, err := n.Encode()
		return trained{m, file, func(images []digits.Image) (said []uint8) {
			for _, s := range reference.Scores(chip.Blackhole, n, images) {
				said = append(said, s.Best())
			}
			return said
		}}, err
	}}

var integer = recipe{"integer", "examples/digits/weights.bin", defaults(), func(images []digits.Image, o options) (trained, error) {
	m := train(images, o)
	n, err := quantise(m, images)
	if err != nil {
		return trained{}, err
	}
	return trained{m, n.Encode(), func(images []digits.Image) (said []uint8) {
		for _, m := range images {
			said = append(said, n.Classify(m.Pixels))
		}
		return said
	}}, nil
}}

// write trains on the training part, writes the file and reports.
func (r recipe) write(w io.Writer, path string, o options) error {
	images, err := digits.Images()
	if err != nil {
		return err
	}
	training, heldOut := digits.Split(images)
	t, err := r.train(training, o)
	if err != nil {
		return err
	}
	if err := os.WriteFile(path, t.weights, 0o644); err != nil {
		return err
	}
	fmt.Fprintf(w, "wrote %s, %d bytes\n", path, len(t.weights))
	fmt.Fprintf(w, "training part: %v\n", measure(t, training))
	fmt.Fprintf(w, "held out:      %v\n", measure(t, heldOut))
	return nil
}

// validate trains on four fifths of the training part and measures on the other, for each fifth.
func (r recipe) validate(w io.Writer, o options) error {
	images, err := digits.Images()
	if err != nil {
		return err
	}
	training, _ := digits.Split(images)
	const folds = 5
	var inFloat, converted tally
	for f := range folds {
		var fit, test []digits.Image
		for i, m := range training {
			if i%folds == f {
				test = append(test, m)
			} else {
				fit = append(fit, m)
			}
		}
		t, err := r.train(fit, o)
		if err != nil {
			return err
		}
		inFloat = inFloat.plus(measureFloat(t.float, test))
		converted = converted.plus(measure(t, test))
	}
	fmt.Fprintf(w, "cross-validation: float64 %v, %s %v\n", inFloat, r.name, converted)
	return nil
}

// tally counts right answers.
type tally struct{ right, total int }

func (t tally) plus(u tally) tally { return tally{t.right + u.right, t.total + u.total} }

func (t tally) String() string {
	return fmt.Sprintf("%d of %d right, %.2f %%", t.right, t.total, 100*float64(t.right)/float64(t.total))
}

func measure(t trained, images []digits.Image) tally {
	count := tally{total: len(images)}
	for i, said := range t.classify(images) {
		if said == images[i].Label {
			count.right++
		}
	}
	return count
}

func measureFloat(m learner, images []digits.Image) tally {
	t := tally{total: len(images)}
	x := make([]float64, digits.Pixels)
	for _, img := range images {
		for j, p := range img.Pixels {
			x[j] = float64(p) / digits.MaxPixel
		}
		best := 0
		scores := m.forward(x)
		for i, s := range scores {
			if s > scores[best] {
				best = i
			}
		}
		if uint8(best) == img.Label {
			t.right++
		}
	}
	return t
}
