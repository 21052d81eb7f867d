package bench

import (
	"cmp"
	"encoding/binary"
	"errors"
	"time"

	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/allocator"
	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/dispatch"
	"github.com/reprise-tt/reprise/internal/bench/measure"
	"github.com/reprise-tt/reprise/internal/bench/report"
	"github.com/reprise-tt/reprise/kernels"
	"github.com/reprise-tt/reprise/stream"
)

// streamSizes are sizes in bytes for which tt-metal publishes the rates of its sockets.
var streamSizes = []int{1216, 39936}

// measureStreams puts a queue read of as many bytes beside each.
func measureStreams(s *session) error {
	for _, p := range paces[:2] {
		params := report.Params("bytes", streamWord, "pace", p.name)
		err := s.with(func() error {
			if err := s.roundTrip(params); err != nil {
				return err
			}
			return errors.Join(s.toGoroutine(params), s.readBeside(streamWord, &measure.Job{Params: params, Burst: 16}))
		}, reprise.WithPace(p.spin, p.longest))
		if errors.Is(err, dispatch.ErrRemoteChip) {
			s.leaveOut("streams", "", err.Error())
			return nil
		}
		if err != nil {
			return err
		}
	}
	return s.with(func() error {
		for _, n := range streamSizes {
			per := cmp.Or(s.config.iterations, streamBytes/n)
			if err := errors.Join(s.messages(stream.ToHost, n, per), s.messages(stream.ToDevice, n, per),
				s.readBeside(n, &measure.Job{Params: report.Params("bytes", n), PerSample: per})); err != nil {
				return err
			}
		}
		return nil
	})
}

const (
	streamRing  = 256 << 10
	streamBytes = 4 << 20 // of a sample: so many that the bytes that the ring holds at first count for little
	streamWord  = 4
)

// clockKernel answers messages with its tile's clock.
const clockKernel = "stream_clock"

// streaming measures a job while a kernel runs that the end of the first stream ends.
func (s *session) streaming(kernel string, n int, args func(room uint32) []uint32, job *measure.Job, ss ...*stream.Stream) (err error) {
	defer func() {
		for _, t := range ss {
			err = errors.Join(err, t.Release(s.ctx))
		}
	}()
	room, err := s.dev.NewBuffer(reprise.BufferConfig{Kind: allocator.L1, Size: n * s.dev.Grid().Size(), PageSize: n, Name: "room"})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, room.Release()) }()
	q := s.queue()
	if err := q.Write(s.ctx, room, 0, make([]byte, room.Size())); err != nil {
		return err
	}
	image := kernels.Prebuilt
	if kernel == clockKernel {
		image = ownKernel
	}
	im, err := image(s.dev.Arch(), kernel)
	if err != nil {
		return err
	}
	a := args(room.Addr())
	p := &reprise.Program{Name: kernel, Buffers: []*reprise.Buffer{room}, Kernels: []reprise.Kernel{{
		Name: kernel, Image: im, Processor: chip.BRISC, Cores: []chip.Range{q.Workers().Start.Range()},
		Args: func(chip.Core) []uint32 { return a },
	}}}
	for _, t := range ss {
		t.AddTo(p)
	}
	x, err := s.dev.Load(s.ctx, p)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, x.Release(s.ctx)) }()
	if err := q.Run(s.ctx, x); err != nil {
		return err
	}
	return errors.Join(s.measure("streams", job), ss[0].Close(s.ctx), q.Wait(s.ctx))
}

func (s *session) newStream(d stream.Direction, name string) (*stream.Stream, error) {
	return stream.New(s.dev, stream.Config{Name: name, Direction: d, Size: streamRing})
}

// pair makes a stream in each direction; exchange sends a word there and back.
func (s *session) pair() (in, out *stream.Stream, exchange func([]byte) error, err error) {
	if in, err = s.newStream(stream.ToDevice, "in"); err != nil {
		return nil, nil, nil, err
	}
	if out, err = s.newStream(stream.ToHost, "out"); err != nil {
		return nil, nil, nil, errors.Join(err, in.Release(s.ctx))
	}
	ctx := s.ctx
	return in, out, func(word []byte) error {
		if err := in.Write(ctx, word); err != nil {
			return err
		}
		_, err := out.Read(ctx, word)
		return err
	}, nil
}

func (s *session) roundTrip(params []report.Param) error {
	in, out, exchange, err := s.pair()
	if err != nil {
		return err
	}
	const n = 64
	args := func(room uint32) []uint32 { return append(append(in.Args(), out.Args()...), room, n) }
	word := make([]byte, streamWord)
	job := &measure.Job{Name: "round_trip", Params: params, Burst: 16, Do: measure.Repeat(func() error { return exchange(word) })}
	return s.streaming(kernels.StreamEcho, n, args, job, in, out)
}

// toGoroutine measures from a kernel's push of a word, its tile's clock, to the return of the
// waiting read. On a card the clocks differ by the time between the tiles' resets.
func (s *session) toGoroutine(params []report.Param) error {
	in, out, exchange, err := s.pair()
	if err != nil {
		return err
	}
	q, word := s.queue(), make([]byte, streamWord)
	args := func(uint32) []uint32 { return append(in.Args(), out.Args()...) }
	job := &measure.Job{Name: "to_goroutine", Params: params, Burst: 16, Sample: func() (float64, error) {
		before, err := q.Clock()
		if err != nil {
			return 0, err
		}
		if err := exchange(word); err != nil {
			return 0, err
		}
		known := time.Now()
		after, err := q.Clock()
		if err != nil {
			return 0, err
		}
		passed := int32(binary.LittleEndian.Uint32(word) - uint32(before.Cycles))
		share := float64(passed) / float64(after.Cycles-before.Cycles)
		pushed := before.Host.Add(time.Duration(share * float64(after.Host.Sub(before.Host))))
		return float64(known.Sub(pushed)), nil
	}}
	return s.streaming(clockKernel, 64, args, job, in, out)
}

func (s *session) messages(d stream.Direction, n, per int) error {
	t, err := s.newStream(d, d.String())
	if err != nil {
		return err
	}
	ctx, b := s.ctx, make([]byte, n)
	job := &measure.Job{Params: report.Params("bytes", n), PerSample: per, Bytes: float64(n)}
	if d == stream.ToHost {
		job.Name, job.Do = "to_host", measure.Repeat(func() error { _, err := t.Read(ctx, b); return err })
		args := func(room uint32) []uint32 { return append(t.Args(), room, uint32(n), 1<<32-1, 0, 0) }
		return s.streaming(kernels.StreamSource, n, args, job, t)
	}
	job.Name, job.Do = "to_device", measure.Repeat(func() error { return t.Write(ctx, b) })
	args := func(room uint32) []uint32 { return append(t.Args(), room, uint32(n), room, 0) }
	return s.streaming(kernels.StreamSink, n, args, job, t)
}

func (s *session) readBeside(n int, job *measure.Job) error {
	b, err := s.dev.NewBuffer(reprise.BufferConfig{Kind: allocator.DRAM, Size: n, Name: "read"})
	if err != nil {
		return err
	}
	ctx, q, p := s.ctx, s.queue(), make([]byte, n)
	job.Name, job.Bytes = "queue_read", float64(n)
	job.Do = measure.Repeat(func() error { return q.Read(ctx, b, 0, p) })
	return errors.Join(s.measure("streams", job), b.Release())
}
