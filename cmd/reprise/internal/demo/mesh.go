package demo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/cmd/reprise/internal/cli"
	"github.com/reprise-tt/reprise/examples/digits"
	"github.com/reprise-tt/reprise/hwtest/target"
	"github.com/reprise-tt/reprise/mesh"
	"github.com/reprise-tt/reprise/mesh/hosts"
	"github.com/reprise-tt/reprise/ops"
)

// meshResult is the demo's result on a machine of several chips.
type meshResult struct {
	Device      string      `json:"device"`
	Arch        string      `json:"arch"`
	Engine      string      `json:"engine"`
	Shape       []int       `json:"shape"`
	Images      int         `json:"images"`
	Batch       int         `json:"batch"` // of each chip
	Replays     int         `json:"replays"`
	Accuracy    float64     `json:"accuracy"`
	Measured    int         `json:"accuracy_images"`
	Mismatches  int         `json:"mismatches"`
	TraceBytes  int         `json:"trace_bytes"` // of each chip
	Streams     int         `json:"trace_streams"`
	HostBytes   int         `json:"trace_host_bytes"`
	ReplayNs    int64       `json:"replay_host_ns_p50"` // of all chips
	Seconds     float64     `json:"seconds"`
	OpenSeconds float64     `json:"open_seconds"`
	Hosts       int         `json:"hosts"`
	Chips       []meshShare `json:"chips"`

	rank int // of this process
}

// meshShare is the part of one chip.
type meshShare struct {
	Coord      []int  `json:"coord"`
	Name       string `json:"name"`
	Images     int    `json:"images"`
	Mismatches int    `json:"mismatches"`
}

// machineShape is the mesh of all linked chips, or if the links form none, of those with a PCI
// interface.
func machineShape(m *target.Machine, cards int) (mesh.Shape, []mesh.Option) {
	if m.Spec != nil {
		if s := mesh.Shape(m.Spec.Shape[:]); s.Size() == len(m.Spec.Chips) {
			return s, nil
		}
	}
	return mesh.Shape{cards}, []mesh.Option{mesh.Unlinked()}
}

// onMachine classifies the images on all chips of a machine with one trace over all chips.
func (c *Cmd) onMachine(ctx context.Context, who *cli.Process, images []digits.Image, measured int) (res *meshResult, err error) {
	start := time.Now()
	net, err := trained(c.Network)
	if err != nil {
		return nil, err
	}
	ctx, j, err := startJob(ctx, c.Hosts, who)
	if err != nil {
		return nil, err
	}
	defer func() { err = j.end(ctx, err) }()
	cards, end, err := j.open(ctx, c.machine, c.Links)
	if err != nil {
		return nil, cli.OpenError(c.Device, err)
	}
	defer func() { err = errors.Join(err, end()) }()
	shape, opts := machineShape(c.machine, len(cards)*j.Size())
	m, err := mesh.Open(ctx, mesh.Cards(cards...), shape,
		append(append(opts, j.options()...), mesh.WithDevice(c.Hangs.Options()...))...)
	if err != nil {
		return nil, cli.OpenError(c.Device, err)
	}
	defer func() { err = errors.Join(err, m.Close(ctx)) }()
	if len(m.Here()) == 0 {
		return nil, fmt.Errorf("the mesh of %v has no chip of this process: start fewer", shape)
	}
	group, err := hosts.Join(ctx, j, m)
	if err != nil {
		return nil, err
	}
	res = &meshResult{
		Device: c.Device, Arch: m.Here()[0].Device.Arch().String(), Engine: net.engine(), Shape: shape, Images: len(images),
		Batch: min(c.Batch, (len(images)+m.Size()-1)/m.Size()), Measured: measured, OpenSeconds: time.Since(start).Seconds(),
		Hosts: j.Size(), rank: j.Rank(),
	}
	for _, chip := range m.Chips() {
		res.Chips = append(res.Chips, meshShare{Coord: chip.Coord, Name: chip.Name})
	}
	if err := res.run(ctx, m, group, net, images); err != nil {
		return nil, err
	}
	if err := res.gather(ctx, j); err != nil {
		return nil, err
	}
	res.Accuracy /= float64(measured)
	res.Seconds = time.Since(start).Seconds()
	if res.Mismatches > 0 {
		return res, fmt.Errorf("%s from what the %s gives", differing(res.Mismatches, "result"), net.name())
	}
	return res, nil
}

// run loads the network on every chip, captures one trace over all of them and replays it for all
// images.
func (res *meshResult) run(ctx context.Context, m *mesh.Mesh, group *hosts.Group, net network, images []digits.Image) (err error) {
	chips := m.Chips()
	// each calls f for this process's chips among the first n.
	each := func(n int, f func(int) error) error {
		var g errgroup.Group
		for i := range n {
			if chips[i].Device != nil {
				g.Go(func() error { return f(i) })
			}
		}
		return g.Wait()
	}
	write := func(q *reprise.Queue, to *reprise.Buffer, images []digits.Image) error {
		b, err := net.encode(images, res.Batch)
		if err != nil {
			return err
		}
		return q.Write(ctx, to, 0, b)
	}
	on, inputs := make([]deployed, len(chips)), make([]*reprise.Buffer, len(chips))
	input, err := net.input(res.Batch)
	if err != nil {
		return err
	}
	if err := each(len(chips), func(i int) (err error) {
		d := chips[i].Device
		if inputs[i], err = d.NewBuffer(input); err != nil {
			return err
		}
		if on[i], err = net.load(ctx, ops.New(d), inputs[i], res.Batch); err != nil {
			return err
		}
		// One run without a trace, because operations load their programs then.
		if err := write(d.Queue(0), inputs[i], images[:1]); err != nil {
			return err
		}
		return on[i].run(ctx)
	}); err != nil {
		return err
	}
	q := m.Queue(0)
	trace, err := q.Capture(ctx, "digits", func(ctx context.Context, r *mesh.Recorder) error {
		for i, c := range chips {
			if c.Device != nil {
				if err := on[i].record(ctx, r.On(c)); err != nil {
					return err
				}
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, trace.Release(context.WithoutCancel(ctx))) }()
	res.TraceBytes = trace.Parts()[0].Size
	res.Streams, res.HostBytes = trace.Streams()
	var times []time.Duration
	first := 0 // image of the round
	for round := range slices.Chunk(images, res.Batch*len(chips)) {
		parts := slices.Collect(slices.Chunk(round, res.Batch))
		if err := each(len(parts), func(i int) error { return write(q.On(chips[i]), inputs[i], parts[i]) }); err != nil {
			return err
		}
		start := time.Now()
		if err := group.Replay(ctx, trace); err != nil {
			return err
		}
		times = append(times, time.Since(start))
		got := make([][]scores, len(parts))
		if err := each(len(parts), func(i int) (err error) {
			last := on[i].results[len(on[i].results)-1]
			b := make([]byte, last.Size())
			if err = q.On(chips[i]).Read(ctx, last, 0, b); err == nil {
				got[i], err = net.decode(b, res.Batch)
			}
			return err
		}); err != nil {
			return err
		}
		for i, part := range parts {
			if chips[i].Device != nil {
				res.compare(&res.Chips[i], part, first+i*res.Batch, got[i], net.forward(chips[i].Device.Arch(), part))
			}
		}
		first += len(round)
		res.Replays++
	}
	res.ReplayNs = cli.Median(times)
	return group.Wait(ctx, q)
}

// gather adds up the processes' results.
func (res *meshResult) gather(ctx context.Context, j *job) error {
	mine, err := json.Marshal(res)
	if err != nil {
		return err
	}
	all, err := j.collect(ctx, "gather results", mine)
	if err != nil {
		return err
	}
	res.Accuracy, res.Mismatches = 0, 0
	for i := range res.Chips {
		res.Chips[i].Images, res.Chips[i].Mismatches = 0, 0
	}
	for rank, data := range all {
		var r meshResult
		if err := json.Unmarshal(data, &r); err != nil || len(r.Chips) != len(res.Chips) {
			return fmt.Errorf("results of process %d: %d chips: %w", rank, len(r.Chips), err)
		}
		res.Accuracy, res.Mismatches = res.Accuracy+r.Accuracy, res.Mismatches+r.Mismatches
		for i, c := range r.Chips {
			res.Chips[i].Images, res.Chips[i].Mismatches = res.Chips[i].Images+c.Images, res.Chips[i].Mismatches+c.Mismatches
		}
	}
	return nil
}

// compare compares a chip's scores with the host's. before is the number of earlier images; those
// that measure the accuracy come first.
func (res *meshResult) compare(c *meshShare, images []digits.Image, before int, got, expected []scores) {
	for i, m := range images {
		if !expected[i].same(got[i]) {
			c.Mismatches++
			res.Mismatches++
		}
		if before+i < res.Measured && got[i].best() == m.Label {
			res.Accuracy++
		}
	}
	c.Images += len(images)
}

func (res *meshResult) print(w cli.Text) {
	processes := ""
	if res.Hosts > 1 {
		processes = fmt.Sprintf(" over %d processes", res.Hosts)
	}
	w.F("%s: %s as a mesh of %v%s, open in %.2f s\n"+
		"%s, %d of each chip at a time, %s of one trace\n"+
		"accuracy %.2f %% of %s, %s from the network's\n"+
		"trace: %d B on each chip, %d B on the host in %s\n"+
		"a replay on all chips takes the host %v\n",
		res.Device, cli.Count(len(res.Chips), "chip"), mesh.Shape(res.Shape), processes, res.OpenSeconds,
		cli.Count(res.Images, "image"), res.Batch, cli.Count(res.Replays, "replay"), 100*res.Accuracy,
		cli.Count(res.Measured, "image"), differing(res.Mismatches, "result"), res.TraceBytes, res.HostBytes,
		cli.Count(res.Streams, "stream"), time.Duration(res.ReplayNs))
	for _, c := range res.Chips {
		w.F("  %v %s: %s\n", mesh.Coord(c.Coord), c.Name, cli.Count(c.Images, "image"))
	}
}
