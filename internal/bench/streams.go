package bench

import (
	"cmp"
	"context"
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

// streamSizes are the message sizes, in bytes, for which tt-metal publishes the rates of its
// device-host sockets.
var streamSizes = []int{1216, 39936}

// measureStreams measures messages between the host and a running kernel: a word's round trip, a
// word's way back, and back-to-back messages in either direction, each beside a queue read of as
// many bytes.
func measureStreams(ctx context.Context, s *session) error {
	for _, p := range paces[:2] {
		params := report.Params("bytes", streamWord, "pace", p.name)
		err := s.with(ctx, func() error {
			if err := s.roundTrip(ctx, params); err != nil {
				return err
			}
			if err := s.toGoroutine(ctx, params); err != nil {
				return err
			}
			return s.readBeside(ctx, streamWord, &measure.Job{Params: params, Burst: 16})
		}, reprise.WithPace(p.spin, p.longest))
		if errors.Is(err, dispatch.ErrRemoteChip) {
			s.leaveOut("streams", "", err.Error())
			return nil
		}
		if err != nil {
			return err
		}
	}
	return s.with(ctx, func() error {
		for _, n := range streamSizes {
			per := cmp.Or(s.config.iterations, streamBytes/n)
			for _, d := range []stream.Direction{stream.ToHost, stream.ToDevice} {
				if err := s.messages(ctx, d, n, per); err != nil {
					return err
				}
			}
			if err := s.readBeside(ctx, n, &measure.Job{Params: report.Params("bytes", n), PerSample: per}); err != nil {
				return err
			}
		}
		return nil
	})
}

// streamRing is a ring's size, streamBytes a sample's: so much more that what the ring holds at
// first counts for little.
const (
	streamRing  = 256 << 10
	streamBytes = 4 << 20
	streamWord  = 4 // bytes of the word of round trips
)

// clockKernel answers messages with its tile's clock.
const clockKernel = "stream_clock"

func (s *session) streamKernel(name string) (*kernels.Image, error) {
	if name != clockKernel {
		return kernels.Prebuilt(s.dev.Arch(), name)
	}
	file, err := prebuilt.ELF(s.dev.Arch(), name)
	if err != nil {
		return nil, err
	}
	return kernels.Load(file)
}

// streaming measures a job while a kernel with streams runs on a core. Closing the first stream
// ends the kernel.
func (s *session) streaming(ctx context.Context, kernel string, n int, args func(room uint32) []uint32, job *measure.Job,
	ss ...*stream.Stream) (err error) {
	defer func() {
		for _, t := range ss {
			err = errors.Join(err, t.Release(ctx))
		}
	}()
	room, err := s.dev.NewBuffer(reprise.BufferConfig{Kind: allocator.L1, Size: n * s.dev.Grid().Size(), PageSize: n, Name: "room"})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, room.Release()) }()
	q := s.dev.Queue(0)
	if err := q.Write(ctx, room, 0, make([]byte, room.Size())); err != nil {
		return err
	}
	im, err := s.streamKernel(kernel)
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
	x, err := s.dev.Load(ctx, p)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, x.Release(ctx)) }()
	if err := q.Run(ctx, x); err != nil {
		return err
	}
	return errors.Join(s.measure(ctx, "streams", job), ss[0].Close(ctx), q.Wait(ctx))
}

func (s *session) newStream(d stream.Direction, name string) (*stream.Stream, error) {
	return stream.New(s.dev, stream.Config{Name: name, Direction: d, Size: streamRing})
}

// pair makes a stream in each direction, and a function that sends a word there and back.
func (s *session) pair(ctx context.Context) (in, out *stream.Stream, exchange func(context.Context, []byte) error, err error) {
	if in, err = s.newStream(stream.ToDevice, "in"); err != nil {
		return nil, nil, nil, err
	}
	if out, err = s.newStream(stream.ToHost, "out"); err != nil {
		return nil, nil, nil, errors.Join(err, in.Release(ctx))
	}
	return in, out, func(ctx context.Context, word []byte) error {
		if err := in.Write(ctx, word); err != nil {
			return err
		}
		_, err := out.Read(ctx, word)
		return err
	}, nil
}

func (s *session) roundTrip(ctx context.Context, params []report.Param) error {
	in, out, exchange, err := s.pair(ctx)
	if err != nil {
		return err
	}
	const n = 64
	args := func(room uint32) []uint32 { return append(append(in.Args(), out.Args()...), room, n) }
	word := make([]byte, streamWord)
	job := &measure.Job{Name: "round_trip", Params: params, Burst: 16,
		Do: measure.Repeat(func(ctx context.Context) error { return exchange(ctx, word) })}
	return s.streaming(ctx, kernels.StreamEcho, n, args, job, in, out)
}

// toGoroutine measures from a kernel's push of a word to the return of the read that waits for it.
// The word is the low word of the tile's clock, which is placed between two readings of the queue's
// clock. On a card the two clocks differ by the time between the tiles' resets.
func (s *session) toGoroutine(ctx context.Context, params []report.Param) error {
	in, out, exchange, err := s.pair(ctx)
	if err != nil {
		return err
	}
	q, word := s.dev.Queue(0), make([]byte, streamWord)
	args := func(uint32) []uint32 { return append(in.Args(), out.Args()...) }
	job := &measure.Job{Name: "to_goroutine", Params: params, Burst: 16, Sample: func(ctx context.Context) (float64, error) {
		before, err := q.Clock()
		if err != nil {
			return 0, err
		}
		if err := exchange(ctx, word); err != nil {
			return 0, err
		}
		known := time.Now()
		after, err := q.Clock()
		if err != nil {
			return 0, err
		}
		passed := int32(binary.LittleEndian.Uint32(word) - uint32(before.Cycles)) // since before
		share := float64(passed) / float64(after.Cycles-before.Cycles)
		pushed := before.Host.Add(time.Duration(share * float64(after.Host.Sub(before.Host))))
		return float64(known.Sub(pushed)), nil
	}}
	return s.streaming(ctx, clockKernel, 64, args, job, in, out)
}

// messages measures messages of n bytes in one direction.
func (s *session) messages(ctx context.Context, d stream.Direction, n, per int) error {
	p := make([]byte, n)
	job := &measure.Job{Params: report.Params("bytes", n), PerSample: per, Bytes: float64(n)}
	if d == stream.ToHost {
		out, err := s.newStream(d, "out")
		if err != nil {
			return err
		}
		job.Name, job.Do = "to_host", measure.Repeat(func(ctx context.Context) error { _, err := out.Read(ctx, p); return err })
		args := func(room uint32) []uint32 { return append(out.Args(), room, uint32(n), 1<<32-1, 0, 0) }
		return s.streaming(ctx, kernels.StreamSource, n, args, job, out)
	}
	in, err := s.newStream(d, "in")
	if err != nil {
		return err
	}
	job.Name, job.Do = "to_device", measure.Repeat(func(ctx context.Context) error { return in.Write(ctx, p) })
	args := func(room uint32) []uint32 { return append(in.Args(), room, uint32(n), room, 0) }
	return s.streaming(ctx, kernels.StreamSink, n, args, job, in)
}

func (s *session) readBeside(ctx context.Context, n int, job *measure.Job) error {
	b, err := s.dev.NewBuffer(reprise.BufferConfig{Kind: allocator.DRAM, Size: n, Name: "read"})
	if err != nil {
		return err
	}
	q, p := s.dev.Queue(0), make([]byte, n)
	job.Name, job.Bytes = "queue_read", float64(n)
	job.Do = measure.Repeat(func(ctx context.Context) error { return q.Read(ctx, b, 0, p) })
	return errors.Join(s.measure(ctx, "streams", job), b.Release())
}
