// Command train makes the weights of the transformer that invents words: it trains it on a part of
// the list, rounds it to bfloat16, and reports the loss on words that it was not trained on.
//
//	go run ./examples/words/train        train, write transformer/weights.safetensors, report
//
// The same weights come out on every machine: the arithmetic is float32 in a fixed order without
// fused operations.
package main

import (
	"flag"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/reprise-tt/reprise/examples/words"
)

// file has the weights, below the module's root.
const file = "examples/words/transformer/weights.safetensors"

func main() {
	out := flag.String("o", file, "file to write")
	flag.Parse()
	if err := run(os.Stdout, *out, defaults()); err != nil {
		fmt.Fprintln(os.Stderr, "train:", err)
		os.Exit(1)
	}
}

// run trains on the training part, writes the file and reports.
func run(w io.Writer, path string, o options) error {
	all, err := words.All()
	if err != nil {
		return err
	}
	training, heldBack := words.Split(all)
	start := time.Now()
	m, err := train(training, o, func(epoch int, loss float64) {
		fmt.Fprintf(w, "epoch %d: mean loss %.4f, %v\n", epoch+1, loss, time.Since(start).Round(time.Second))
	})
	if err != nil {
		return err
	}
	n, err := m.network()
	if err != nil {
		return err
	}
	b, err := n.Encode()
	if err != nil {
		return err
	}
	if err := os.WriteFile(path, b, 0o644); err != nil {
		return err
	}
	fmt.Fprintf(w, "wrote %s, %d bytes, %d parameters\n", path, len(b), n.Parameters())
	loss, err := measure(fromNetwork(n), heldBack)
	if err != nil {
		return err
	}
	fmt.Fprintf(w, "held back: mean loss %.4f nats a token\n", loss)
	return nil
}
