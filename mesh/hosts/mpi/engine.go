package mpi

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/reprise-tt/reprise/dispatch"
	"github.com/reprise-tt/reprise/mesh/hosts"
)

// Options configures Open. The zero value is ready to use.
type Options struct {
	// Library is Open MPI's library; "": libmpi.so.40.
	Library string
	// Pace is how an exchange polls; the zero value spins for 200 µs.
	Pace dispatch.Pace
}

const (
	// ULFM tells all in milliseconds.
	newsTime       = 100 * time.Millisecond
	watchEvery     = 20 * time.Millisecond
	defaultLibrary = "libmpi.so.40" // Open MPI 4.0 to 5.0
	defaultSpin    = 200 * time.Microsecond
)

// Engine is a [hosts.Engine] on MPI. Its methods may be called from any goroutine; exchanges run
// one at a time.
type Engine struct {
	c      communicator
	pace   dispatch.Pace
	turn   chan struct{}
	frames []byte // this host's, then those of all hosts; the library's during an exchange

	near neighbours

	err    error // why the engine is broken
	closed bool
}

type communicator interface {
	rank() int
	size() int
	alloc(n int) ([]byte, error)
	free(b []byte)
	// start begins to collect in recv what every host sends, by rank, until test returns true.
	// counts is how many bytes each sends, nil if all send the same.
	start(send, recv []byte, counts []int) error
	test() (bool, error)
	faultTolerant() bool
	failed() []int
	revoke()
	finalize() error
}

var started atomic.Bool

// Open loads Open MPI, starts it (MPI_Init_thread) and returns this process's engine. It can be
// called once in a process. If ctx or another process of this machine ends while MPI_Init waits,
// Open returns an error and MPI goes on starting. Errors wrap ErrNoLibrary, ErrStarted, ErrThreads,
// a *hosts.LostError or an *Error.
func Open(ctx context.Context, o Options) (*Engine, error) {
	o.Library = cmp.Or(o.Library, defaultLibrary)
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("mpi: open: %w", err)
	}
	near := newNeighbours()
	near.find()
	fail := func(err error) (*Engine, error) {
		return nil, fmt.Errorf("mpi: open: %w", errors.Join(err, near.close()))
	}
	lib, err := load(o.Library)
	if err != nil {
		return fail(fmt.Errorf("%s: %w: install Open MPI (Debian: openmpi-bin), or name the library", o.Library, err))
	}
	if started.Swap(true) {
		return fail(fmt.Errorf("%w: use the engine that Open returned", ErrStarted))
	}
	type result struct {
		c   communicator
		err error
	}
	ready := make(chan result, 1)
	go func() {
		c, err := lib.start()
		ready <- result{c, err}
	}()
	var r result
	tick := time.NewTicker(watchEvery)
	defer tick.Stop()
	for r.c == nil && err == nil {
		select {
		case r = <-ready:
			err = r.err
		case <-tick.C:
			if gone := near.ended(); gone != nil {
				err = &hosts.LostError{Op: "start", Ranks: gone, Err: hosts.ErrGone}
			}
		case <-ctx.Done():
			err = fmt.Errorf("MPI_Init waits for the other processes: %w", context.Cause(ctx))
		}
		near.find()
	}
	var e *Engine
	if err == nil {
		e, err = newEngine(r.c, o.Pace)
	}
	if err != nil {
		return fail(err)
	}
	e.near = near
	return e, nil
}

func newEngine(c communicator, pace dispatch.Pace) (*Engine, error) {
	pace.Spin = cmp.Or(pace.Spin, defaultSpin)
	frames, err := c.alloc(frameSize * (c.size() + 1))
	if err != nil {
		return nil, fmt.Errorf("memory for %d hosts: %w", c.size(), err)
	}
	return &Engine{c: c, pace: pace, turn: make(chan struct{}, 1), frames: frames}, nil
}

// Rank implements hosts.Engine.
func (e *Engine) Rank() int { return e.c.rank() }

// Size implements hosts.Engine.
func (e *Engine) Size() int { return e.c.size() }

// FaultTolerant reports whether the job runs with ULFM, where the end of a process is an error on
// the others and not the end of the job.
func (e *Engine) FaultTolerant() bool { return e.c.faultTolerant() }

// Exchange implements hosts.Engine. Of an operation's name 256 B count. Errors are a
// *hosts.LostError, or wrap hosts.ErrOrder, hosts.ErrBroken, hosts.ErrClosed, ErrTooLarge, ErrFrame
// or an *Error. ErrOrder and ErrTooLarge leave the engine usable.
func (e *Engine) Exchange(ctx context.Context, op string, mine []byte) ([][]byte, error) {
	fail := func(err error) ([][]byte, error) { return nil, fmt.Errorf("hosts: %s: %w", op, err) }
	if err := ctx.Err(); err != nil {
		return fail(err)
	}
	select {
	case e.turn <- struct{}{}:
		defer func() { <-e.turn }()
	case <-ctx.Done():
		return fail(context.Cause(ctx))
	}
	switch {
	case e.closed:
		return fail(hosts.ErrClosed)
	case errors.Is(e.err, hosts.ErrClosed):
		return fail(e.err)
	case e.err != nil:
		return fail(fmt.Errorf("%w: %w", hosts.ErrBroken, e.err))
	}
	out, err := e.exchange(ctx, op, mine)
	if lost := (*hosts.LostError)(nil); err != nil && !errors.As(err, &lost) {
		return fail(err)
	}
	return out, err
}

func (e *Engine) exchange(ctx context.Context, op string, mine []byte) ([][]byte, error) {
	n := e.c.size()
	own := newFrame(op, mine)
	own.put(e.frames[:frameSize])
	if err := e.gather(ctx, op, e.frames[:frameSize], e.frames[frameSize:], nil); err != nil {
		return nil, err
	}
	frames := make([]frame, n)
	for i := range frames {
		var err error
		if frames[i], err = getFrame(e.frames[frameSize*(i+1):][:frameSize]); err != nil {
			return nil, e.broken(fmt.Errorf("host %d: %w", i, err))
		}
	}
	p := newPlan(frames)
	switch {
	case p.names:
		names, err := e.collect(ctx, op, []byte(op)[:own.Op], p.sizes(frames))
		if err != nil {
			return nil, err
		}
		return nil, order(names)
	case p.refused != nil:
		return nil, fmt.Errorf("%w: hosts %v have more than %d B", ErrTooLarge, p.refused, MaxData)
	case p.data:
		data, err := e.collect(ctx, op, mine, p.sizes(frames))
		if err != nil {
			return nil, err
		}
		for i, d := range data {
			if h := sha256.Sum256(d); !slices.Equal(h[:hashSize], frames[i].Hash[:]) {
				return nil, e.broken(fmt.Errorf("%w: the data of host %d are damaged", ErrFrame, i))
			}
		}
		return data, nil
	}
	out := make([][]byte, n)
	for i := range frames {
		if f := &frames[i]; f.inlined() {
			out[i] = slices.Clone(f.Inline[:f.Size])
		} else {
			out[i] = slices.Clone(mine)
		}
	}
	return out, nil
}

func order(names [][]byte) error {
	i := slices.IndexFunc(names, func(name []byte) bool { return string(name) != string(names[0]) })
	if i < 0 {
		return fmt.Errorf("%w: their names differ after %d B", hosts.ErrOrder, maxOp)
	}
	return fmt.Errorf("%w: host 0 is to %s, host %d to %s", hosts.ErrOrder, names[0], i, names[i])
}

func (e *Engine) collect(ctx context.Context, op string, mine []byte, sizes []int) ([][]byte, error) {
	total := 0
	for _, n := range sizes {
		total += n
	}
	memory, err := e.c.alloc(len(mine) + total)
	if err != nil {
		return nil, e.broken(fmt.Errorf("memory for %d B of all hosts: %w", total, err))
	}
	copy(memory, mine)
	recv := memory[len(mine):]
	if err := e.gather(ctx, op, memory[:len(mine)], recv, sizes); err != nil {
		return nil, err // the library may still write to the memory
	}
	out, all := make([][]byte, len(sizes)), slices.Clone(recv[:total])
	e.c.free(memory)
	for i, n := range sizes {
		out[i], all = all[:n:n], all[n:]
	}
	return out, nil
}

func (e *Engine) gather(ctx context.Context, op string, send, recv []byte, counts []int) error {
	err := e.c.start(send, recv, counts)
	if err == nil {
		err = e.pace.Poll(ctx, e.arrived())
	}
	if err == nil {
		return nil
	}
	lost := &hosts.LostError{Op: op, Err: err}
	if errors.Is(err, hosts.ErrGone) {
		lost.Ranks = e.near.ended()
		return e.broken(lost)
	}
	if code := (*Error)(nil); errors.As(err, &code) {
		if !e.c.faultTolerant() {
			return e.broken(err)
		}
		lost.Err = fmt.Errorf("%w: %w", hosts.ErrGone, err)
		lost.Ranks = e.failed(ctx)
	}
	return e.broken(lost)
}

// arrived returns a poll of the all-gather, which fails with hosts.ErrGone when a neighbour has
// ended.
func (e *Engine) arrived() func() (bool, error) {
	next := time.Now().Add(watchEvery)
	return func() (bool, error) {
		done, err := e.c.test()
		if done || err != nil {
			return done, err
		}
		if now := time.Now(); now.After(next) {
			next = now.Add(watchEvery)
			if e.near.ended() != nil {
				return false, hosts.ErrGone
			}
		}
		return false, nil
	}
}

func (e *Engine) failed(ctx context.Context) (ranks []int) {
	ctx, cancel := context.WithTimeout(ctx, newsTime)
	defer cancel()
	_ = e.pace.Poll(ctx, func() (bool, error) {
		ranks = e.c.failed()
		return ranks != nil, nil
	})
	return ranks
}

// broken ends the engine, since the hosts no longer agree which exchange is next, and tells hosts
// that wait.
func (e *Engine) broken(err error) error {
	e.err = err
	e.c.revoke()
	return err
}

// Watch returns a context that ends when another process has ended, with a *hosts.LostError as its
// cause. Without fault tolerance it covers this machine only: for others mpirun ends the job. Call
// stop before Close.
func (e *Engine) Watch(ctx context.Context) (watched context.Context, stop func()) {
	watched, cancel := context.WithCancelCause(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(watchEvery)
		defer tick.Stop()
		for {
			select {
			case <-watched.Done():
				return
			case <-tick.C:
			}
			if err := e.news(); err != nil {
				cancel(err)
				return
			}
		}
	}()
	return watched, func() {
		cancel(nil)
		<-done
	}
}

// news returns an error if another process has ended, and breaks the engine. A running exchange
// learns of it by itself.
func (e *Engine) news() error {
	select {
	case e.turn <- struct{}{}:
		defer func() { <-e.turn }()
	default:
		return nil
	}
	if e.err != nil || e.closed {
		return nil
	}
	ranks := e.near.ended()
	if ranks == nil {
		ranks = e.c.failed()
	}
	if ranks == nil {
		return nil
	}
	return e.broken(&hosts.LostError{Op: "watch", Ranks: ranks, Err: hosts.ErrGone})
}

// Leave tells the other hosts that this one takes part in no more exchanges: with fault tolerance
// theirs fail soon. A program that ends because of an error calls it first.
func (e *Engine) Leave() {
	e.turn <- struct{}{}
	defer func() { <-e.turn }()
	if e.err == nil && !e.closed {
		_ = e.broken(hosts.ErrClosed)
	}
}

// Close ends MPI (MPI_Finalize), which waits for the other processes. Give it a deadline: after the
// end of a process Open MPI 5.0.7 was seen to wait for ever. After a failed exchange without fault
// tolerance MPI stays as it is, so that mpirun ends the job when this process ends.
func (e *Engine) Close(ctx context.Context) error {
	select {
	case e.turn <- struct{}{}:
		defer func() { <-e.turn }()
	case <-ctx.Done():
		return fmt.Errorf("mpi: close: an exchange is running: %w", context.Cause(ctx))
	}
	if e.closed {
		return nil
	}
	e.closed = true
	if err := e.near.close(); err != nil {
		return fmt.Errorf("mpi: close: descriptors of other processes: %w", err)
	}
	if e.err != nil && !e.c.faultTolerant() {
		return nil
	}
	done := make(chan error, 1)
	go func() { done <- e.c.finalize() }()
	select {
	case err := <-done:
		if err != nil {
			return fmt.Errorf("mpi: close: %w", err)
		}
		if e.err == nil {
			e.c.free(e.frames)
		}
		return nil
	case <-ctx.Done():
		return fmt.Errorf("mpi: close: MPI_Finalize waits for the other processes: %w", context.Cause(ctx))
	}
}
