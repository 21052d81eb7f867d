package demo

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/cmd/reprise/internal/cli"
	"github.com/reprise-tt/reprise/examples/digits"
	"github.com/reprise-tt/reprise/examples/digits/convnet"
	"github.com/reprise-tt/reprise/examples/digits/convnet/reference"
	"github.com/reprise-tt/reprise/hwtest/target"
	"github.com/reprise-tt/reprise/internal/tables"
	"github.com/reprise-tt/reprise/kmd"
	"github.com/reprise-tt/reprise/mesh"
	"github.com/reprise-tt/reprise/mesh/hosts"
	"github.com/reprise-tt/reprise/ops"
	"github.com/reprise-tt/reprise/sim"
)

type meshResult struct {
	Outcome
	Shape     []int       `json:"shape"`
	Streams   int         `json:"trace_streams"`
	HostBytes int         `json:"trace_host_bytes"`
	Hosts     int         `json:"hosts"`
	Chips     []meshShare `json:"chips"`

	rank int
}

type meshShare struct {
	Coord      []int  `json:"coord"`
	Name       string `json:"name"`
	Images     int    `json:"images"`
	Mismatches int    `json:"mismatches"`
}

func (c *Cmd) onMachine(ctx context.Context, who *cli.Process, images []digits.Image, measured int) (res *meshResult, err error) {
	start := time.Now()
	net, err := convnet.Trained()
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
	shape, opts := mesh.Shape{len(cards) * j.Size()}, []mesh.Option{mesh.WithDevice(c.Hangs.Options()...)}
	if spec := c.machine.Spec; spec != nil && mesh.Shape(spec.Shape[:]).Size() == len(spec.Chips) {
		shape = spec.Shape[:]
	} else {
		opts = append(opts, mesh.Unlinked())
	}
	if j.Size() > 1 {
		opts = append(opts, mesh.Across(j))
	}
	m, err := mesh.Open(ctx, mesh.Cards(cards...), shape, opts...)
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
		Outcome: Outcome{Device: c.Device, Arch: m.Here()[0].Device.Arch().String(), Images: len(images), Measured: measured,
			Batch: min(c.Batch, (len(images)+m.Size()-1)/m.Size()), OpenSeconds: time.Since(start).Seconds()},
		Shape: shape, Hosts: j.Size(), rank: j.Rank(),
		Chips: cli.Map(m.Chips(), func(c *mesh.Chip) meshShare { return meshShare{Coord: c.Coord, Name: c.Name} }),
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
		return res, fmt.Errorf("%s from what the "+arithmetic+" gives", differing(res.Mismatches, "result"))
	}
	return res, nil
}

func (res *meshResult) run(ctx context.Context, m *mesh.Mesh, group *hosts.Group, net *convnet.Network, images []digits.Image) (err error) {
	chips := m.Chips()
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
		b, err := net.EncodeImages(images, res.Batch)
		if err != nil {
			return err
		}
		return q.Write(ctx, to, 0, b)
	}
	on, inputs := make([]*convnet.Model, len(chips)), make([]*reprise.Buffer, len(chips))
	input, err := net.InputSpec(res.Batch).BufferConfig("input")
	if err != nil {
		return err
	}
	if err := each(len(chips), func(i int) (err error) {
		d := chips[i].Device
		if inputs[i], err = d.NewBuffer(input); err != nil {
			return err
		}
		if on[i], err = load(ctx, ops.New(d), net, inputs[i], res.Batch); err != nil {
			return err
		}
		// One run without a trace, because operations load their programs then.
		if err := write(d.Queue(0), inputs[i], images[:1]); err != nil {
			return err
		}
		return on[i].Run(ctx)
	}); err != nil {
		return err
	}
	q := m.Queue(0)
	trace, err := q.Capture(ctx, "digits", func(ctx context.Context, r *mesh.Recorder) error {
		for i, c := range chips {
			if c.Device != nil {
				if err := on[i].Record(ctx, r.On(c)); err != nil {
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
	first := 0
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
		got := make([][]convnet.Scores, len(parts))
		if err := each(len(parts), func(i int) (err error) {
			last := scoresOf(on[i])
			b := make([]byte, last.Size())
			if err = q.On(chips[i]).Read(ctx, last, 0, b); err == nil {
				got[i], err = net.DecodeScores(b, res.Batch)
			}
			return err
		}); err != nil {
			return err
		}
		for i, part := range parts {
			if chips[i].Device != nil {
				res.compare(&res.Chips[i], part, first+i*res.Batch, got[i], reference.Scores(chips[i].Device.Arch(), net, part))
			}
		}
		first += len(round)
		res.Replays++
	}
	res.ReplayNs = cli.Median(times)
	return group.Wait(ctx, q)
}

func (res *meshResult) gather(ctx context.Context, j *job) error {
	all, err := collectJSON(ctx, j, "gather results", res)
	if err != nil {
		return err
	}
	for rank, r := range all {
		if rank == j.Rank() {
			continue
		}
		if len(r.Chips) != len(res.Chips) {
			return fmt.Errorf("results of process %d: %d chips", rank, len(r.Chips))
		}
		res.Accuracy += r.Accuracy
		res.Mismatches += r.Mismatches
		for i, c := range r.Chips {
			res.Chips[i].Images += c.Images
			res.Chips[i].Mismatches += c.Mismatches
		}
	}
	return nil
}

// compare takes the number of earlier images.
func (res *meshResult) compare(c *meshShare, images []digits.Image, before int, got, expected []convnet.Scores) {
	for i, m := range images {
		if expected[i] != got[i] {
			c.Mismatches++
			res.Mismatches++
		}
		if before+i < res.Measured && got[i].Best() == m.Label {
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
	w.F("%s: %s as a mesh of %v%s, open in %s\n"+
		"%s, %d of each chip at a time, %s of one trace\n"+
		"accuracy %.2f %% of %s, %s from the network's\n"+
		"trace: %d B on each chip, %d B on the host in %s\n"+
		"a replay on all chips takes the host %s\n",
		res.Device, cli.Count(len(res.Chips), "chip"), mesh.Shape(res.Shape), processes, tables.Duration(1e9*res.OpenSeconds),
		cli.Count(res.Images, "image"), res.Batch, cli.Count(res.Replays, "replay"), 100*res.Accuracy,
		cli.Count(res.Measured, "image"), differing(res.Mismatches, "result"), res.TraceBytes, res.HostBytes,
		cli.Count(res.Streams, "stream"), tables.Duration(res.ReplayNs))
	for _, c := range res.Chips {
		w.F("  %v %s: %s\n", mesh.Coord(c.Coord), c.Name, cli.Count(c.Images, "image"))
	}
}

// job is a group of processes of mpirun, or this one.
type job struct {
	hosts.Engine
	watch func(context.Context) (context.Context, func())
	leave func()
	close func(context.Context) error

	stop func()
	left atomic.Bool
}

// leaveTime bounds a process's cleanup after another's end.
const leaveTime = 250 * time.Millisecond

// startJob joins the processes that --hosts names. The returned context ends when another one ends.
func startJob(ctx context.Context, engine string, who *cli.Process) (context.Context, *job, error) {
	if engine == "mpi" {
		j, err := startMPI(ctx)
		if err != nil {
			return nil, nil, err
		}
		who.Set(j.Rank(), j.Size())
		ctx, j.stop = j.watch(ctx)
		if who != nil && who.Quit != nil {
			context.AfterFunc(ctx, func() {
				time.AfterFunc(leaveTime, func() {
					if !j.left.Load() {
						who.Quit(context.Cause(ctx))
					}
				})
			})
		}
		return ctx, j, nil
	}
	one, err := hosts.InProcess(1)
	if err != nil {
		return nil, nil, err
	}
	return ctx, &job{Engine: one[0], leave: func() {}, close: func(context.Context) error { return one[0].Close() }, stop: func() {}}, nil
}

// end leaves the job and tells the others of an error.
func (j *job) end(ctx context.Context, err error) error {
	j.stop()
	if lost := (*hosts.LostError)(nil); err != nil && errors.As(context.Cause(ctx), &lost) {
		err = lost
	}
	ctx = context.WithoutCancel(ctx)
	if err == nil {
		defer j.left.Store(true)
		return j.close(ctx)
	}
	j.leave()
	// MPI_Finalize waits for processes that may never come; the exit code tells mpirun enough.
	ctx, cancel := context.WithTimeout(ctx, 300*time.Millisecond)
	defer cancel()
	_ = j.close(ctx)
	return err
}

func (j *job) open(ctx context.Context, m *target.Machine, network string) ([]kmd.Target, func() error, error) {
	if j.Size() == 1 || m.Spec == nil {
		return m.Open()
	}
	conns, err := j.meet(ctx, network)
	if err != nil {
		return nil, nil, err
	}
	return m.OpenPart(sim.Part{Index: j.Rank(), Count: j.Size(), Conns: conns})
}

// An exchange takes 1 MiB of each process; larger results are split.
const (
	pieceSize    = 512 << 10
	maxCollected = 32 << 20 // bytes of a process; a million tokens take about 3 MB of JSON
)

func (j *job) collect(ctx context.Context, op string, mine []byte) ([][]byte, error) {
	out := make([][]byte, j.Size())
	for more := true; more; {
		piece := mine[:min(len(mine), pieceSize)]
		mine = mine[len(piece):]
		all, err := j.Exchange(ctx, op, piece)
		if err != nil {
			return nil, err
		}
		more = false
		for rank, b := range all {
			if out[rank] = append(out[rank], b...); len(b) > pieceSize || len(out[rank]) > maxCollected {
				return nil, fmt.Errorf("%s: process %d gave %d B, %d together, want at most %d and %d: is it another version?", op, rank,
					len(b), len(out[rank]), pieceSize, maxCollected)
			}
			more = more || len(b) == pieceSize // a shorter piece is the last one
		}
	}
	return out, nil
}

// collectJSON returns what each process has.
func collectJSON[T any](ctx context.Context, j *job, op string, mine *T) ([]T, error) {
	b, err := json.Marshal(mine)
	if err != nil {
		return nil, err
	}
	all, err := j.collect(ctx, op, b)
	out := make([]T, len(all))
	for rank, data := range all {
		if bad := json.Unmarshal(data, &out[rank]); bad != nil {
			return nil, fmt.Errorf("%s: process %d: %w", op, rank, bad)
		}
	}
	return out, err
}

type endpoint struct {
	Address string
	Key     []byte
}

// meet connects emulated links by TCP, with the key of process 0.
func (j *job) meet(ctx context.Context, network string) ([]net.Conn, error) {
	at, err := ownAddress(network)
	if err != nil {
		return nil, err
	}
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", netip.AddrPortFrom(at, 0).String())
	if err != nil {
		return nil, fmt.Errorf("listen for the links of other processes: %w", err)
	}
	mine := endpoint{Address: l.Addr().String(), Key: make([]byte, 32)}
	_, _ = rand.Read(mine.Key) // never fails
	all, err := collectJSON(ctx, j, "connect links", &mine)
	if err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return sim.Meet(ctx, l, j.Rank(), cli.Map(all, func(e endpoint) string { return e.Address }), all[0].Key)
}

// ownAddress returns this machine's first address in a network, or else the source address of the
// default route, any off the loopback interface, or the loopback address.
func ownAddress(network string) (netip.Addr, error) {
	var own []netip.Addr
	addrs, err := net.InterfaceAddrs()
	if err != nil {
		return netip.Addr{}, fmt.Errorf("addresses of this machine: %w", err)
	}
	for _, a := range addrs {
		if n, ok := a.(*net.IPNet); ok {
			if ip, ok := netip.AddrFromSlice(n.IP); ok {
				own = append(own, ip.Unmap())
			}
		}
	}
	if network != "" {
		prefix, err := netip.ParsePrefix(network)
		if err != nil {
			return netip.Addr{}, linksError(network, "it isn't a network", err)
		}
		if i := slices.IndexFunc(own, prefix.Contains); i >= 0 {
			return own[i], nil
		}
		return netip.Addr{}, linksError(network, fmt.Sprintf("this machine has no address in it, only %v", own), nil)
	}
	// This sends nothing; the address is for documentation.
	if c, err := net.Dial("udp4", "198.51.100.1:9"); err == nil {
		from, ok := c.LocalAddr().(*net.UDPAddr)
		_ = c.Close()
		if ok && !from.IP.IsLoopback() {
			return from.AddrPort().Addr().Unmap(), nil
		}
	}
	if i := slices.IndexFunc(own, func(a netip.Addr) bool { return a.Is4() && a.IsGlobalUnicast() }); i >= 0 {
		return own[i], nil
	}
	return netip.AddrFrom4([4]byte{127, 0, 0, 1}), nil
}

func linksError(network, why string, err error) error {
	return cli.Wrong("--links", network, why, "give the network that the hosts share, such as 10.1.0.0/16").By(err)
}
