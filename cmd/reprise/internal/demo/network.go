package demo

import (
	"context"
	"math"

	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/allocator"
	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/examples/digits"
	"github.com/reprise-tt/reprise/examples/digits/convnet"
	"github.com/reprise-tt/reprise/examples/digits/convnet/reference"
	"github.com/reprise-tt/reprise/examples/digits/deploy"
	"github.com/reprise-tt/reprise/ops"
)

// scores are the answer for an image; they are exact for every network.
type scores [digits.Classes]float64

// best returns the digit with the largest score, the lowest of several.
func (s scores) best() uint8 {
	best := 0
	for i, v := range s {
		if v > s[best] {
			best = i
		}
	}
	return uint8(best)
}

// same compares the bits.
func (s scores) same(o scores) bool {
	for i, v := range s {
		if math.Float64bits(v) != math.Float64bits(o[i]) {
			return false
		}
	}
	return true
}

// network is a trained network. room is the number of images that its buffers hold.
type network interface {
	name() string   // for people
	engine() string // for scripts
	input(room int) (reprise.BufferConfig, error)
	encode(images []digits.Image, room int) ([]byte, error)
	// load puts the network on the device of an input buffer.
	load(ctx context.Context, d *ops.Device, input *reprise.Buffer, room int) (deployed, error)
	// decode returns the scores in the content of the last result.
	decode(b []byte, room int) ([]scores, error)
	// forward computes on the host what a device of an architecture has to answer.
	forward(a chip.Arch, images []digits.Image) []scores
}

// deployed is a network on a device.
type deployed struct {
	run     func(ctx context.Context) error // on queue 0
	record  func(ctx context.Context, r *reprise.Recorder) error
	results []*reprise.Buffer // of the layers; the last one has the scores
	close   func(ctx context.Context) error
}

// tensorNetwork is the bfloat16 network of operations on the engines.
type tensorNetwork struct{ *convnet.Network }

func (tensorNetwork) name() string   { return "bfloat16 arithmetic of the engines" }
func (tensorNetwork) engine() string { return "tensix" }

func (n tensorNetwork) input(room int) (reprise.BufferConfig, error) {
	return n.InputSpec(room).BufferConfig("input")
}

func (n tensorNetwork) encode(images []digits.Image, room int) ([]byte, error) {
	return n.EncodeImages(images, room)
}

func (n tensorNetwork) load(ctx context.Context, d *ops.Device, input *reprise.Buffer, room int) (deployed, error) {
	t, err := d.FromBuffer(input, n.InputSpec(room))
	if err != nil {
		return deployed{}, err
	}
	m, err := convnet.Load(ctx, d, n.Network, room, t)
	if err != nil {
		return deployed{}, err
	}
	out := deployed{
		run:    m.Run,
		record: func(ctx context.Context, r *reprise.Recorder) error { return d.Record(ctx, r, m.Run) },
		close:  m.Close,
	}
	for _, t := range m.Results() {
		out.results = append(out.results, t.Buffer())
	}
	return out, nil
}

func (n tensorNetwork) decode(b []byte, room int) ([]scores, error) {
	all, err := n.DecodeScores(b, room)
	return exactly(all), err
}

func (n tensorNetwork) forward(a chip.Arch, images []digits.Image) []scores {
	return exactly(reference.Scores(a, n.Network, images))
}

func exactly(all []convnet.Scores) []scores {
	out := make([]scores, len(all))
	for i := range all {
		for k, v := range all[i] {
			out[i][k] = float64(v.Float())
		}
	}
	return out
}

// integerNetwork is the int8 network of kernels on the RISC-V cores.
type integerNetwork struct{ *digits.Network }

func (integerNetwork) name() string   { return "integer network" }
func (integerNetwork) engine() string { return "riscv" }

func (integerNetwork) input(room int) (reprise.BufferConfig, error) {
	return reprise.BufferConfig{Kind: allocator.DRAM, Size: room * digits.PageBytes, PageSize: digits.PageBytes, Name: "input"}, nil
}

func (integerNetwork) encode(images []digits.Image, room int) ([]byte, error) {
	return deploy.Bytes(images, room), nil
}

func (n integerNetwork) load(ctx context.Context, _ *ops.Device, input *reprise.Buffer, room int) (deployed, error) {
	d := input.Device()
	dep, err := deploy.NewWithInput(ctx, d, n.Network, room, d.Grid(), input)
	if err != nil {
		return deployed{}, err
	}
	out := deployed{
		run:    func(ctx context.Context) error { return dep.Run(ctx, d.Queue(0)) },
		record: dep.Record,
		close:  dep.Close,
	}
	for i := range dep.Layers() {
		out.results = append(out.results, dep.Pages(i+1))
	}
	return out, nil
}

func (integerNetwork) decode(b []byte, _ int) ([]scores, error) {
	var out []scores
	for _, s := range deploy.Scores(b) {
		out = append(out, wide(s))
	}
	return out, nil
}

func (n integerNetwork) forward(_ chip.Arch, images []digits.Image) []scores {
	out := make([]scores, len(images))
	for i, m := range images {
		out[i] = wide(n.Forward(m.Pixels))
	}
	return out
}

func wide(s [digits.Classes]int32) (out scores) {
	for i, v := range s {
		out[i] = float64(v)
	}
	return out
}

// trained returns the network that --network names.
func trained(name string) (network, error) {
	if name == "integer" {
		n, err := digits.Trained()
		return integerNetwork{n}, err
	}
	n, err := convnet.Trained()
	return tensorNetwork{n}, err
}
