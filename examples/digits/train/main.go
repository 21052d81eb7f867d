// Command train makes the weights of the networks that read digits: it trains a network on a part
// of the digits, converts it to the device's numbers, and reports the accuracy on held-out digits
// as a device computes it.
//
//	go run ./examples/digits/train                  the convolutional network: train, write convnet/weights.safetensors, report
//	go run ./examples/digits/train integer          the integer network: train, write weights.bin, report
//	go run ./examples/digits/train [integer] -cv    cross-validate inside the training part, write nothing
//
// The same weights come out on every architecture: the arithmetic is float64 in a fixed order
// without fused operations. Choices were made with -cv; held-out digits are used for the report
// only.
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
	f := flag.NewFlagSet("train "+r.name, flag.ExitOnError)
	out := f.String("o", r.file, "file to write")
	cv := f.Bool("cv", false, "cross-validate inside the training part and write nothing")
	_ = f.Parse(args) // exits on an error
	run := func() error {
		if *cv {
			return r.validate(os.Stdout)
		}
		return r.write(os.Stdout, *out)
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
	float    *model                       // as it was trained
	weights  []byte                       // the file, converted
	classify func([]digits.Image) []uint8 // as the device computes
}

var convolutional = recipe{"bfloat16", "examples/digits/convnet/weights.safetensors",
	options{seed: 1998, epochs: 30, batch: 16, rate: 0.05, momentum: 0.9, decay: 1e-3, shift: 0.5, bend: 0.1},
	func(images []digits.Image, o options) (trained, error) {
		m := train(images, o, newConvModel)
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

var integer = recipe{"integer", "examples/digits/weights.bin",
	options{seed: 1998, epochs: 100, batch: 16, rate: 0.05, momentum: 0.9, decay: 3e-4, shift: 0.5, bend: 0.1},
	func(images []digits.Image, o options) (trained, error) {
		m := train(images, o, newIntegerModel)
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
func (r recipe) write(w io.Writer, path string) error {
	images, err := digits.Images()
	if err != nil {
		return err
	}
	training, heldOut := digits.Split(images)
	t, err := r.train(training, r.options)
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
func (r recipe) validate(w io.Writer) error {
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
		t, err := r.train(fit, r.options)
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

func measureFloat(m *model, images []digits.Image) tally {
	t := tally{total: len(images)}
	x := make([]float64, digits.Pixels)
	for _, img := range images {
		ink(x, &img)
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

// ink writes an image's ink, from 0 to 1.
func ink(dst []float64, m *digits.Image) {
	for i, p := range m.Pixels {
		dst[i] = float64(p) / digits.MaxPixel
	}
}
