// Ttnn-digits reads handwritten digits with a trace that TT-NN recorded: no Python, no TT-NN.
// docs/ttnn.md records the trace.
package main

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"os"
	"slices"

	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/examples/digits"
	"github.com/reprise-tt/reprise/hwtest/target"
	"github.com/reprise-tt/reprise/ops"
)

const batch = 128 // images of a replay

func classify(ctx context.Context, w io.Writer, dev *reprise.Device, trace io.Reader) error {
	t, err := dev.LoadTrace(ctx, trace)
	if err != nil {
		return err
	}
	d := ops.New(dev)
	m, err := d.LoadedModel(t)
	if err != nil {
		return err
	}
	out, err := m.Tensor("scores") // a variable of the script
	images, err2 := digits.Images()
	if err := errors.Join(err, err2); err != nil {
		return err
	}
	right, digest := 0, sha256.New()
	for part := range slices.Chunk(images, batch) {
		pixels := make([]float32, batch*digits.Pixels)
		for i, image := range part {
			for k, p := range image.Pixels {
				pixels[i*digits.Pixels+k] = float32(p) / digits.MaxPixel
			}
		}
		if err := ops.Set(ctx, m, "images", pixels); err != nil {
			return err
		}
		if err := m.Replay(ctx); err != nil {
			return err
		}
		h, err := d.ToHost(ctx, out)
		if err != nil {
			return err
		}
		scores := ops.Values[float32](h)
		_ = binary.Write(digest, binary.LittleEndian, scores) // a hash takes all
		for i, image := range part {
			of := scores[i*digits.Classes:][:digits.Classes]
			if best := slices.Index(of, slices.Max(of)); best == int(image.Label) {
				right++
			} else {
				fmt.Fprintf(w, "%s  says %d, is %d\n\n", digits.Render(image), best, image.Label)
			}
		}
	}
	_, err = fmt.Fprintf(w, "%d of %d digits right, scores %x\n", right, len(images), digest.Sum(nil)[:8])
	return err
}

func main() {
	device := flag.String("device", "emu:blackhole", "device, such as emu:blackhole or /dev/tenstorrent/0")
	firmware := flag.String("firmware", "", "folder of TT-NN's base firmware, as reprise ttnn record prints it")
	flag.Parse()
	ctx := context.Background()
	at, err := target.Parse(*device, nil)
	if err != nil {
		log.Fatal(err)
	}
	trace, err := os.Open(flag.Arg(0))
	if err != nil {
		log.Fatal(err)
	}
	dev, err := reprise.Open(ctx, at.Open(), reprise.WithFirmware(*firmware))
	if err != nil {
		log.Fatal(err)
	}
	if err := errors.Join(classify(ctx, os.Stdout, dev, trace), dev.Close(ctx)); err != nil {
		log.Fatal(err)
	}
}
