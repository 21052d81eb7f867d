package stream

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"math/bits"
	"sync/atomic"

	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/allocator"
)

// Direction is which end the host has.
type Direction int

const (
	ToHost   Direction = iota // the host reads what a kernel pushes
	ToDevice                  // a kernel pops what the host writes
)

func (d Direction) String() string {
	switch d {
	case ToHost:
		return "to the host"
	case ToDevice:
		return "to the device"
	}
	return fmt.Sprintf("Direction(%d)", int(d))
}

// Sizes of rings.
const (
	DefaultSize = 64 << 10
	LeastSize   = 2 * line
	MostSize    = 1 << 30
)

// Config says what stream to make.
type Config struct {
	Name      string
	Direction Direction
	// Size is the bytes of the ring, a power of two; 0: DefaultSize. A message takes a line of 64
	// B, and with more than 48 B also its data, rounded up to 64 B.
	Size int
	// Memory, if not nil, is the caller's host memory, Bytes(Size) from byte Offset on, a multiple
	// of 64. Otherwise the stream pins one of the card's 16 ranges.
	Memory *reprise.HostBuffer
	Offset int
	// Queue paces the host's waits and ends them if it hangs; nil: queue 0.
	Queue *reprise.Queue
	// First is the position of the first message, a multiple of 64, for tests of wrapping counters.
	First uint32
}

// Bytes returns the host memory of a stream with a ring of some size.
func Bytes(size int) int { return ringAt + size }

// Stream is a ring of messages between the host and a kernel. Its methods may be called from any
// goroutine; reads, or writes, run one at a time.
type Stream struct {
	name string
	dir  Direction
	dev  *reprise.Device
	q    *reprise.Queue

	host    *reprise.HostBuffer
	own     bool
	scratch *reprise.Buffer
	offset  int
	size    int
	first   uint32

	turn     chan struct{}
	released atomic.Bool

	ring     ring
	addr     uint64 // NoC address of the stream
	tiles    [2]uint32
	restarts uint64
	op       operation
	poll     func() bool
}

type operation struct {
	write bool
	wait  bool
	what  kind
	code  uint32
	p     []byte

	n   int
	ok  bool
	err error
}

// New makes a stream. The error is a *ConfigError, or of [reprise.Device.NewHostBuffer] or
// NewBuffer.
func New(d *reprise.Device, c Config) (*Stream, error) {
	c.Size, c.Queue = cmp.Or(c.Size, DefaultSize), cmp.Or(c.Queue, d.Queue(0))
	if why := c.check(d); why != "" {
		return nil, &ConfigError{Stream: c.Name, Why: why}
	}
	s := &Stream{
		name: c.Name, dir: c.Direction, dev: d, q: c.Queue, host: c.Memory, offset: c.Offset, size: c.Size, first: c.First,
		turn: make(chan struct{}, 1),
	}
	s.poll = s.try
	if err := s.make(); err != nil {
		return nil, fmt.Errorf("stream: new %q: %w", c.Name, err)
	}
	return s, nil
}

func (c *Config) check(d *reprise.Device) string {
	switch {
	case c.Direction != ToHost && c.Direction != ToDevice:
		return fmt.Sprintf("%v is no direction", c.Direction)
	case c.Size < LeastSize || c.Size > MostSize || bits.OnesCount(uint(c.Size)) != 1:
		return fmt.Sprintf("a ring of %d B: the size must be a power of two from %d to %d", c.Size, LeastSize, MostSize)
	case c.Queue.Device() != d:
		return "the queue is another device's"
	case c.First%line != 0:
		return fmt.Sprintf("the first position is %d: it must be a multiple of %d", c.First, line)
	case c.Memory == nil && c.Offset != 0:
		return "an offset without memory"
	case c.Memory != nil && (c.Offset%line != 0 || c.Offset < 0 || c.Offset > len(c.Memory.Bytes())-Bytes(c.Size)):
		return fmt.Sprintf("%d B from byte %d on in memory of %d B: they must be inside, from a multiple of %d on", Bytes(c.Size), c.Offset,
			len(c.Memory.Bytes()), line)
	}
	return ""
}

func (s *Stream) make() error {
	var err error
	if s.host == nil {
		s.own = true
		if s.host, err = s.dev.NewHostBuffer(reprise.HostBufferConfig{Size: Bytes(s.size), Name: s.name}); err != nil {
			return err
		}
	}
	cores := s.dev.Grid().Size()
	s.scratch, err = s.dev.NewBuffer(reprise.BufferConfig{Kind: allocator.L1, Size: cores * scratch, PageSize: scratch,
		Name: s.name + " scratch"})
	if err == nil {
		if err = s.place(); err != nil {
			err = errors.Join(err, s.scratch.Release())
		}
	}
	if err != nil && s.own {
		err = errors.Join(err, s.host.Release(context.Background()))
	}
	return err
}

func (s *Stream) place() error {
	v, err := s.host.View()
	if err != nil {
		return err
	}
	addr := v.Addr + uint64(s.offset)
	if addr>>32 != (addr+uint64(Bytes(s.size))-1)>>32 {
		return &ConfigError{Stream: s.name, Why: fmt.Sprintf("the memory at NoC address %#x crosses a multiple of 4 GiB", addr)}
	}
	s.addr, s.tiles, s.restarts = addr, v.Tile, v.Restarts
	s.ring = ring{words: &v, base: s.offset, mem: s.host.Bytes()[s.offset+ringAt:][:s.size]}
	s.ring.reset(s.first)
	return nil
}

// Name returns the stream's name.
func (s *Stream) Name() string { return s.name }

// Direction returns which end the host has.
func (s *Stream) Direction() Direction { return s.dir }

// Size returns the bytes of the ring.
func (s *Stream) Size() int { return s.size }

// Longest returns the bytes of the longest message.
func (s *Stream) Longest() int { return s.size - line }

// ID is the stream's number in the waypoints SPOP and SPSH of a hang dump.
func (s *Stream) ID() uint32 { return uint32(s.addr) }

// Args returns the five runtime arguments of the kernel's stream_open, for any core and either NoC.
func (s *Stream) Args() []uint32 {
	return []uint32{s.tiles[0] | s.tiles[1]<<16, uint32(s.addr), uint32(s.addr >> 32), uint32(s.size), s.scratch.Addr()}
}

// AddTo makes a program use the stream, whose memory then can't be released while the program is
// loaded or part of a trace.
func (s *Stream) AddTo(p *reprise.Program) {
	p.Buffers = append(p.Buffers, s.scratch)
	p.HostBuffers = append(p.HostBuffers, s.host)
}

// Read waits for the next message of a kernel, copies it to p and returns its length. It allocates
// nothing. The error is io.EOF after the kernel has closed the stream and a *KernelError after it
// has failed, once each: another Read waits for the kernel's next run. A *SizeError leaves the
// message in the ring. Otherwise the wait ends with ctx, a hung queue, a lost device, or
// reprise.ErrTimeout if nothing on the device moves for its hang timeout; then Read may be called
// again. After a recovery the error is a *StaleError.
func (s *Stream) Read(ctx context.Context, p []byte) (int, error) {
	n, _, err := s.do(ctx, "read", operation{wait: true, p: p})
	return n, err
}

// TryRead is Read without a wait: false if there is no message.
func (s *Stream) TryRead(p []byte) (n int, ok bool, err error) {
	return s.do(context.Background(), "read", operation{p: p})
}

// Messages returns the messages up to the end of the stream, each valid until the next one. The
// last one may come with an error of Read other than io.EOF.
func (s *Stream) Messages(ctx context.Context) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		p := make([]byte, s.Longest())
		for {
			n, err := s.Read(ctx, p)
			if err == io.EOF || !yield(p[:n], err) || err != nil {
				return
			}
		}
	}
}

// Write waits until the ring has room for a message and copies p, of at most Longest bytes, into
// it. It allocates nothing. The error is a *SizeError for a message that never fits and a
// *KernelError when the kernel reads no more, until Reset. The wait ends as Read's.
func (s *Stream) Write(ctx context.Context, p []byte) error {
	_, _, err := s.do(ctx, "write", operation{write: true, wait: true, p: p})
	return err
}

// TryWrite is Write without a wait: false if there is no room.
func (s *Stream) TryWrite(p []byte) (ok bool, err error) {
	_, ok, err = s.do(context.Background(), "write", operation{write: true, p: p})
	return ok, err
}

// Close ends the host's end. A kernel that pops gets STREAM_END after the messages before; Close
// waits for room as Write does, and another Write begins anew. A kernel that pushes gets
// STREAM_STOPPED as soon as it finds no room, until Reset.
func (s *Stream) Close(ctx context.Context) error {
	push := s.dir == ToDevice
	_, _, err := s.do(ctx, "close", operation{write: push, wait: push, what: end})
	return err
}

// Fail is Close of a stream to the device with an error: the kernel gets STREAM_FAILED and the
// code.
func (s *Stream) Fail(ctx context.Context, code uint32) error {
	_, _, err := s.do(ctx, "fail", operation{write: true, wait: true, what: failure, code: code})
	return err
}

func (s *Stream) do(ctx context.Context, name string, op operation) (int, bool, error) {
	if op.write != (s.dir == ToDevice) {
		return 0, false, s.named(name, ErrDirection)
	}
	if err := s.enter(ctx); err != nil {
		return 0, false, s.named(name, err)
	}
	defer s.leave()
	if err := s.current(); err != nil {
		return 0, false, s.named(name, err)
	}
	s.op = op
	// In WaitFunc the device can't be closed.
	err := s.q.WaitFunc(ctx, s.poll)
	op = s.op
	s.op = operation{}
	if err == nil {
		err = op.err
	}
	if err == io.EOF {
		return 0, true, io.EOF
	}
	return op.n, op.ok, s.named(name, err)
}

func (s *Stream) try() bool {
	o := &s.op
	switch {
	case s.released.Load():
		o.err = reprise.ErrReleased
	case o.write:
		o.ok, o.err = s.ring.write(o.what, o.code, o.p)
	case o.what == end:
		s.ring.stop()
	default:
		o.n, o.ok, o.err = s.ring.read(o.p)
	}
	return o.ok || o.err != nil || !o.wait
}

func (s *Stream) enter(ctx context.Context) error {
	select {
	case s.turn <- struct{}{}:
		return nil
	default:
	}
	select {
	case s.turn <- struct{}{}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (s *Stream) leave() { <-s.turn }

func (s *Stream) current() error {
	if s.released.Load() {
		return reprise.ErrReleased
	}
	v, err := s.host.View()
	if err != nil {
		return err
	}
	if v.Restarts != s.restarts {
		return &StaleError{Stream: s.name}
	}
	return nil
}

// Reset empties the stream and opens both ends again. It waits for the device's queues: close the
// stream before if a kernel may be waiting. The error is a *MovedError if the arguments have
// changed.
func (s *Stream) Reset(ctx context.Context) error {
	if err := s.reset(ctx); err != nil {
		if moved := new(MovedError); errors.As(err, &moved) {
			return err
		}
		return s.named("reset", err)
	}
	return nil
}

func (s *Stream) reset(ctx context.Context) error {
	if err := s.enter(ctx); err != nil {
		return err
	}
	defer s.leave()
	if s.released.Load() {
		return reprise.ErrReleased
	}
	for i := range s.dev.Queues() {
		if err := s.dev.Queue(i).Wait(ctx); err != nil {
			return err
		}
	}
	was := s.addr
	if err := s.place(); err != nil {
		return err
	}
	if s.addr != was {
		return &MovedError{Stream: s.name, Was: was, Now: s.addr}
	}
	return nil
}

// Release ends waits on the stream in reprise.ErrReleased and frees its memory. It waits for the
// device's queues: Close the stream before if a kernel may be waiting. The error is a
// *dispatch.HeldError, and nothing was released, while a program that was given the stream is
// loaded or part of a trace.
func (s *Stream) Release(ctx context.Context) error {
	if s.released.Swap(true) {
		return s.named("release", reprise.ErrReleased)
	}
	err := s.enter(ctx)
	if err == nil {
		defer s.leave()
		if s.own {
			err = s.host.Release(ctx)
		}
	}
	if err != nil {
		s.released.Store(false)
		return s.named("release", err)
	}
	if err := s.scratch.Release(); err != nil {
		return s.named("release", err)
	}
	return nil
}
