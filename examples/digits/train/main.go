// Command train makes examples/digits/weights.bin: it trains a small network on a part of the digits, quantises it to
// int8 and reports the accuracy of the integer network on digits that it was not trained on.
//
//	go run ./examples/digits/train                  train, write weights.bin, report
//	go run ./examples/digits/train -cv              cross-validate inside the training part, write nothing
//
// The same weights come out on every architecture: the arithmetic is float64 in a fixed order without fused operations.
// The held-out digits are used for the report only; every choice was made with -cv.
package main

import (
	"flag"
	"fmt"
	"io"
	"os"

	"github.com/reprise-tt/reprise/examples/digits"
)

func main() {
	o := defaults()
	out := flag.String("o", "examples/digits/weights.bin", "file to write")
	tensors := flag.String("tensors", "examples/digits/convnet/weights.safetensors", "file to write for the network in bfloat16")
	cv := flag.Bool("cv", false, "cross-validate inside the training part and write nothing")
	flag.Uint64Var(&o.seed, "seed", o.seed, "of initial weights, order and augmentation")
	flag.IntVar(&o.epochs, "epochs", o.epochs, "passes over the training part")
	flag.IntVar(&o.batch, "batch", o.batch, "images a step")
	flag.Float64Var(&o.rate, "rate", o.rate, "learning rate at the start")
	flag.Float64Var(&o.momentum, "momentum", o.momentum, "momentum")
	flag.Float64Var(&o.decay, "decay", o.decay, "weight decay")
	flag.Float64Var(&o.shift, "shift", o.shift, "augmentation: displacement in pixels")
	flag.Float64Var(&o.bend, "bend", o.bend, "augmentation: relative scale, slant and turn")
	flag.Parse()
	run := func() error {
		if *cv {
			return validate(os.Stdout, o)
		}
		return write(os.Stdout, *out, *tensors, o)
	}
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "train:", err)
		os.Exit(1)
	}
}

// write trains on the training part, writes the files of the two networks and reports.
func write(w io.Writer, path, tensors string, o options) error {
	images, err := digits.Images()
	if err != nil {
		return err
	}
	training, heldOut := digits.Split(images)
	m := train(training, o)
	n, err := quantise(m, training)
	if err != nil {
		return err
	}
	b := n.Encode()
	if err := os.WriteFile(path, b, 0o644); err != nil {
		return err
	}
	c, err := bfloat(m)
	if err != nil {
		return err
	}
	if err := os.WriteFile(tensors, c.Encode(), 0o644); err != nil {
		return err
	}
	fmt.Fprintf(w, "wrote %s, %d bytes\n", path, len(b))
	for i, l := range n.Layers() {
		fmt.Fprintf(w, "layer %d: %v\n", i, l)
	}
	fmt.Fprintf(w, "training part: %v\n", measure(n, training))
	fmt.Fprintf(w, "held out:      %v\n", measure(n, heldOut))
	return nil
}

// validate trains on four fifths of the training part and measures on the other, for each fifth.
func validate(w io.Writer, o options) error {
	images, err := digits.Images()
	if err != nil {
		return err
	}
	training, _ := digits.Split(images)
	const folds = 5
	var inFloat, inInt tally
	for f := range folds {
		var fit, test []digits.Image
		for i, m := range training {
			if i%folds == f {
				test = append(test, m)
			} else {
				fit = append(fit, m)
			}
		}
		m := train(fit, o)
		n, err := quantise(m, fit)
		if err != nil {
			return err
		}
		inFloat = inFloat.plus(measureFloat(m, test))
		inInt = inInt.plus(measure(n, test))
	}
	fmt.Fprintf(w, "cross-validation: float64 %v, int8 %v\n", inFloat, inInt)
	return nil
}

// tally counts right answers.
type tally struct{ right, total int }

func (t tally) plus(u tally) tally { return tally{t.right + u.right, t.total + u.total} }

func (t tally) String() string {
	return fmt.Sprintf("%d of %d right, %.2f %%", t.right, t.total, 100*float64(t.right)/float64(t.total))
}

func measure(n *digits.Network, images []digits.Image) tally {
	t := tally{total: len(images)}
	for _, m := range images {
		if n.Classify(m.Pixels) == m.Label {
			t.right++
		}
	}
	return t
}

func measureFloat(m model, images []digits.Image) tally {
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
