// Package streams has the cases of messages to and from running kernels, and of overlapping
// transfers.
package streams

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/dispatch"
	"github.com/reprise-tt/reprise/dispatch/cq"
	"github.com/reprise-tt/reprise/hwtest/internal/rig"
	"github.com/reprise-tt/reprise/kernels"
	"github.com/reprise-tt/reprise/stream"
	"github.com/reprise-tt/reprise/tracebuf"
)

// Cases are the cases of layer streams.
func Cases() rig.Table {
	var cs rig.Table
	rig.Pairs(&cs, "messages through rings of %d on %v",
		"what one end of a stream writes the other one reads, message by message, to the byte",
		streamEcho, []int{128, 1 << 10, 4 << 10, 64 << 10}, []chip.Processor{chip.BRISC, chip.NCRISC})
	rig.Each(&cs, "positions that wrap on NoC %d", "a stream's positions wrap after 4 GiB without a trace of it", streamWrap,
		chip.NOC0, chip.NOC1)
	cs.Add("host far ahead", "the host waits for room, and what it wrote before the program isn't lost", hostAhead)
	cs.Add("kernel far ahead", "a kernel waits for room until the host has read", kernelAhead)
	cs.Add("tries", "tries tell a full ring from an empty one, on both sides, and don't wait", streamTries)
	cs.Add("words", "words of 4 bytes go round between host and kernel, one at a time", streamWords)
	cs.Add("closed by the kernel", "the host reads all messages and then io.EOF, once for each run", kernelCloses)
	cs.Add("failed by the kernel", "an error of the kernel comes after its messages, with its code", kernelFails)
	cs.Add("stopped by the kernel", "writes fail once the kernel reads no more, until the stream is reset", kernelStops)
	cs.Add("closed by the host", "a kernel that waits for a message learns that there are no more", hostCloses)
	cs.Add("failed by the host", "a kernel gets an error of the host's after its messages, with its code", hostFails)
	cs.Add("stopped by the host", "a kernel that waits for room learns that nobody reads", hostStops)
	cs.Add("too long", "a message that doesn't fit is refused and loses nothing", tooLong)
	cs.Add("many in one host buffer", "streams beside each other don't touch each other", streamsShareMemory)
	cs.Add("two cores at once", "streams of two cores run at the same time, over the host", twoCores)
	cs.Add("from core to core", "a stream goes on where the last kernel has left it, on another core", streamMoves)
	cs.Add("two queues", "programs of two queues have streams of their own", twoQueues)
	cs.Add("in a trace", "a replayed program takes and gives messages of streams", inTrace)
	cs.Add("in a loop of a trace", "a loop takes inputs while it runs, and their end ends it", inLoop)
	cs.Add("in a loop that is aborted", "a loop whose stream nobody reads any more can be aborted, and runs again", inAbortedLoop)
	cs.Add("held by a trace", "memory that a trace uses isn't released, nor saved", streamHeld)
	cs.Add("context ends a read", "a wait for a message ends with its context, and the stream goes on", cancelled)
	cs.Add("released while a read waits", "Release ends a wait for a message", streamReleased)
	cs.AddHang("recover in the middle", "streams are stale after a recovery, and work once they are reset", streamRecover)
	return cs
}

func newStream(t *rig.T, c stream.Config) *stream.Stream {
	t.Helper()
	s, err := stream.New(t.Dev, c)
	if errors.Is(err, dispatch.ErrRemoteChip) {
		t.Skip("the chip reaches no memory of the host")
	}
	t.OK(err)
	t.Closing(s.Release)
	return s
}

func pair(t *rig.T, size int) (in, out *stream.Stream) {
	t.Helper()
	return newStream(t, stream.Config{Name: "in", Direction: stream.ToDevice, Size: size}),
		newStream(t, stream.Config{Name: "out", Size: size})
}

func streamRoom(t *rig.T, n int) *reprise.Buffer {
	t.Helper()
	return t.L1Buffer(n*t.Dev.Grid().Size(), n)
}

// streamArgs are the arguments of kernels with two streams and a page of memory.
func streamArgs(in, out *stream.Stream, room *reprise.Buffer, more ...uint32) []uint32 {
	return slices.Concat(in.Args(), out.Args(), []uint32{room.Addr(), uint32(room.PageSize())}, more)
}

func streamProgram(k reprise.Kernel, room *reprise.Buffer, in, out *stream.Stream, more ...uint32) *reprise.Program {
	k.Args = rig.Args(streamArgs(in, out, room, more...)...)
	p := rig.OneKernel(k, room)
	in.AddTo(p)
	out.AddTo(p)
	return p
}

func echo(t *rig.T, in, out *stream.Stream, k reprise.Kernel) *reprise.Executable {
	t.Helper()
	room := streamRoom(t, max(in.Longest(), 64))
	k.Name, k.Image = "echo", t.Kernel(kernels.StreamEcho)
	return t.Load(streamProgram(k, room, in, out))
}

func echoOn(t *rig.T, in, out *stream.Stream, x, y int) *reprise.Executable {
	t.Helper()
	return echo(t, in, out, reprise.Kernel{Cores: rig.On(x, y)})
}

// step is one of a script: see kernels/stream.c.
type step struct{ what, x, y uint32 }

const (
	stepPush = 1 + iota
	stepTryPush
	stepPop
	stepTryPop
	stepWords
	stepClose
	stepFail
	stepStop
	stepWaitStop
	stepFirstTries
)

// Results of the kernel's functions: enum stream_result.
const (
	streamOK = iota
	streamWait
	streamEnd
	streamFailed
	streamStopped
	streamTooLongResult
)

// script loads a program with steps, and returns a function that reads their results.
func script(t *rig.T, in, out *stream.Stream, at chip.Core, steps ...step) (*reprise.Executable, func() []uint32) {
	t.Helper()
	x, results := scriptWith(t, in, out, at, steps...)
	return x, func() []uint32 {
		t.Helper()
		all := t.ReadAll(results)[t.WorkerIndex(at)*results.PageSize():]
		got := make([]uint32, len(steps))
		for i := range got {
			got[i] = rig.Word(all[4*i:])
		}
		return got
	}
}

func scriptWith(t *rig.T, in, out *stream.Stream, at chip.Core, steps ...step) (*reprise.Executable, *reprise.Buffer) {
	t.Helper()
	room, results := t.PerWorker(4096), t.PerWorker(64)
	args := []uint32{results.Addr()}
	for _, s := range steps {
		args = append(args, s.what, s.x, s.y)
	}
	k := reprise.Kernel{Name: "script", Image: t.Own("stream"), Cores: []chip.Range{at.Range()}}
	p := streamProgram(k, room, in, out, append(args, 0)...)
	p.Buffers = append(p.Buffers, results)
	return t.Load(p), results
}

func wantSteps(t *rig.T, got []uint32, want ...uint32) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("the kernel's results are %d, want %d", got, want)
	}
}

// kernelError checks the error of a stream whose kernel has failed or stopped.
func kernelError(t *rig.T, err error, code uint32, stopped bool) {
	t.Helper()
	e := rig.As[*stream.KernelError](t, err)
	rig.Equal(t, e.Code, code, "the kernel's code")
	rig.Equal(t, e.Stopped, stopped, "whether the kernel has stopped")
}

func beside(t *rig.T, fn func() error) (wait func()) {
	done := make(chan error, 1)
	go func() { done <- fn() }()
	return func() { t.Helper(); t.OK(<-done) }
}

func wordsOf(words ...uint32) []byte {
	return rig.MakeWords(4*len(words), func(i int) uint32 { return words[i] })
}

func readStream(t *rig.T, s *stream.Stream) []byte {
	t.Helper()
	p := make([]byte, s.Longest())
	n, err := s.Read(t.Ctx, p)
	t.OK(err)
	return p[:n]
}

func empty(t *rig.T, s *stream.Stream) {
	t.Helper()
	if _, ok, err := s.TryRead(nil); ok || err != nil {
		t.Errorf("of an empty ring: %v, %v", ok, err)
	}
}

func streamLengths(size int) []int {
	var out []int
	for _, n := range []int{0, 1, 4, 47, 48, 49, 64, 65, 127, 1216, 4000, size - 64} {
		if n <= size-64 {
			out = append(out, n)
		}
	}
	return out
}

func writeAll(t *rig.T, in *stream.Stream, from, n int, length func(i int) int) error {
	for i := range n {
		if err := in.Write(t.Ctx, rig.Pattern(uint32(from+i), length(i))); err != nil {
			return err
		}
	}
	return in.Close(t.Ctx)
}

func echoAll(t *rig.T, in, out *stream.Stream, rounds int) {
	t.Helper()
	lengths := streamLengths(in.Size())
	length := func(i int) int { return lengths[i%len(lengths)] }
	n := rounds * len(lengths)
	wait := beside(t, func() error { return writeAll(t, in, 0, n, length) })
	for i := range n {
		t.Same(rig.Pattern(uint32(i), length(i)), readStream(t, out), "message %d of %d B", i, length(i))
	}
	rig.Equal(t, rig.Error(out.Read(t.Ctx, nil)), io.EOF, "after the last message")
	wait()
}

func streamEcho(t *rig.T, size int, p chip.Processor) {
	in, out := pair(t, size)
	x := echo(t, in, out, reprise.Kernel{Processor: p, Cores: rig.On(2, 1)})
	for range 2 {
		t.Start(x)
		echoAll(t, in, out, t.Size(4, 1))
		t.Wait()
	}
}

func streamWrap(t *rig.T, noc chip.NOC) {
	const size = 4 << 10
	for _, before := range []uint32{64, 1024, 4096 + 64} {
		in := newStream(t, stream.Config{Name: "in", Direction: stream.ToDevice, Size: size, First: -before})
		out := newStream(t, stream.Config{Name: "out", Size: size, First: -(2 * before)})
		x := echo(t, in, out, reprise.Kernel{NOC: noc, Cores: rig.On(1, 0)})
		t.Start(x)
		echoAll(t, in, out, 2)
		t.Wait()
		t.Release(x)
		t.Release(in)
		t.Release(out)
	}
}

func hostAhead(t *rig.T) {
	in, out := pair(t, 1<<10)
	written := 0
	for {
		ok, err := in.TryWrite(rig.Pattern(uint32(written), 100))
		t.OK(err)
		if !ok {
			break
		}
		written++
	}
	rig.Equal(t, written, 1024/192, "messages that fit")
	x := echoOn(t, in, out, 0, 0)
	t.Start(x)
	const more = 20
	wait := beside(t, func() error { return writeAll(t, in, written, more, func(int) int { return 100 }) })
	for i := range written + more {
		t.Same(rig.Pattern(uint32(i), 100), readStream(t, out), "message %d", i)
	}
	wait()
	t.Wait()
}

func kernelAhead(t *rig.T) {
	in, out := pair(t, 1<<10)
	const n = 40
	fill, filled := script(t, in, out, chip.Core{X: 3}, step{what: stepTryPush, x: 100})
	t.RunAndWait(fill)
	wantSteps(t, filled(), 1024/192)
	x, results := script(t, in, out, chip.Core{X: 3}, step{stepPush, 100, n}, step{what: stepClose})
	t.Start(x)
	time.Sleep(time.Duration(t.Size(20, 5)) * time.Millisecond)
	for _, messages := range []int{1024 / 192, n} {
		for i := range messages {
			got := readStream(t, out)
			rig.Equal(t, len(got), 100, "bytes of message %d of %d", i, messages)
			rig.Equal(t, rig.Word(got), uint32(i), "number of message %d of %d", i, messages)
		}
	}
	t.Fails("after the last message", rig.Error(out.Read(t.Ctx, nil)), io.EOF)
	t.Wait()
	wantSteps(t, results(), streamOK, streamOK)
}

func streamTries(t *rig.T) {
	in, out := pair(t, 256)
	p := make([]byte, 256)
	empty(t, out)
	x, results := script(t, in, out, chip.Core{X: 1, Y: 1}, step{what: stepFirstTries}, step{what: stepTryPop},
		step{what: stepTryPush, x: 4})
	t.RunAndWait(x)
	wantSteps(t, results(), streamWait, 0, 3)
	for i := range 4 {
		if n, ok, err := out.TryRead(p); !ok || err != nil || n != 4 {
			t.Errorf("message %d: %d B, %v, %v", i, n, ok, err)
		}
	}
	for i := range 5 {
		ok, err := in.TryWrite(p[:8])
		t.OK(err)
		rig.Equal(t, ok, i < 4, "write %d into a ring of four", i)
	}
	t.RunAndWait(x)
	wantSteps(t, results(), streamOK, 3, 3)
	if _, ok, _ := out.TryRead(p); !ok {
		t.Error("nothing of the second run")
	}
}

func streamWords(t *rig.T) {
	in, out := pair(t, 128)
	n := t.Size(300, 20)
	x, results := script(t, in, out, chip.Core{Y: 2}, step{stepWords, 1000, uint32(n)})
	t.Start(x)
	p, word := make([]byte, 4), uint32(7)
	for i := range n {
		rig.PutWord(p, word)
		t.OK(in.Write(t.Ctx, p))
		k, err := out.Read(t.Ctx, p)
		t.OK(err)
		if got := rig.Word(p); k != 4 || got != word+1000 {
			t.Fatalf("word %d: %d of %d B, want %d", i, got, k, word+1000)
		}
		word = word*1664525 + 1013904223
	}
	t.Wait()
	wantSteps(t, results(), uint32(n))
}

func kernelCloses(t *rig.T) {
	in, out := pair(t, 512)
	x, _ := script(t, in, out, chip.Core{X: 1, Y: 3}, step{stepPush, 4, 2}, step{what: stepClose}, step{stepPush, 8, 1},
		step{what: stepClose})
	for range 3 {
		t.Start(x)
		var lengths []int
		for range 2 {
			for m, err := range out.Messages(t.Ctx) {
				t.OK(err)
				lengths = append(lengths, len(m))
			}
			lengths = append(lengths, -1)
		}
		rig.Equal(t, fmt.Sprint(lengths), "[4 4 -1 8 -1]", "messages and ends")
	}
	t.Wait()
}

func kernelFails(t *rig.T) {
	in, out := pair(t, 512)
	x, _ := script(t, in, out, chip.Core{X: 2, Y: 2}, step{stepPush, 60, 1}, step{what: stepFail, x: 1234})
	t.Start(x)
	rig.Equal(t, len(readStream(t, out)), 60, "bytes of the message")
	_, err := out.Read(t.Ctx, nil)
	kernelError(t, err, 1234, false)
	t.Says(err, "out", "kernel failed", "1234")
	t.Wait()
}

func kernelStops(t *rig.T) {
	in, out := pair(t, 128)
	x, results := script(t, in, out, chip.Core{X: 2, Y: 3}, step{stepPop, 64, 0}, step{what: stepStop, x: 77})
	t.Start(x)
	var err error
	for i := 0; i < 10 && err == nil; i++ { // the ring has room for two
		err = in.Write(t.Ctx, wordsOf(1))
	}
	kernelError(t, err, 77, true)
	t.Wait()
	wantSteps(t, results(), 4<<4, 0)
	rig.As[*stream.KernelError](t, in.Close(t.Ctx))
	t.OK(in.Reset(t.Ctx), in.Write(t.Ctx, wordsOf(1, 2)))
	t.RunAndWait(x)
	wantSteps(t, results(), 8<<4, 0)
}

func hostCloses(t *rig.T) {
	in, out := pair(t, 512)
	x, results := script(t, in, out, chip.Core{X: 3, Y: 3}, step{stepPop, 64, 0}, step{stepPop, 64, 0}, step{stepPop, 64, 0})
	t.Start(x)
	t.OK(in.Write(t.Ctx, wordsOf(1, 2, 3)), in.Close(t.Ctx), in.Write(t.Ctx, wordsOf(4)))
	t.Wait()
	wantSteps(t, results(), 12<<4, streamEnd, 4<<4)
}

func hostFails(t *rig.T) {
	in, out := pair(t, 512)
	x := echoOn(t, in, out, 3, 1)
	t.Start(x)
	t.OK(in.Write(t.Ctx, wordsOf(5)), in.Fail(t.Ctx, 4321))
	t.Same(wordsOf(5), readStream(t, out), "the message before")
	kernelError(t, rig.Error(out.Read(t.Ctx, nil)), 4321, false) // echo hands the code on
	t.Wait()
	t.Fails("Fail of a stream that the host reads", out.Fail(t.Ctx, 1), stream.ErrDirection)
}

func hostStops(t *rig.T) {
	in, out := pair(t, 256)
	x, results := script(t, in, out, chip.Core{Y: 1}, step{what: stepWaitStop, x: 16}, step{what: stepClose})
	t.Start(x)
	for i := range 3 {
		rig.Equal(t, rig.Word(readStream(t, out)), uint32(i), "message %d", i)
	}
	t.OK(out.Close(t.Ctx))
	t.Wait()
	wantSteps(t, results(), streamStopped, streamStopped)
	t.OK(out.Reset(t.Ctx))
	empty(t, out)
}

func tooLong(t *rig.T) {
	in, out := pair(t, 1<<10)
	x, results := script(t, in, out, chip.Core{X: 1}, step{stepPush, 1024 - 60, 1}, step{stepPush, 1024 - 64, 1},
		step{stepPop, 96, 0}, step{stepPop, 100, 0}, step{stepPop, 100, 0})
	long := rig.As[*stream.SizeError](t, in.Write(t.Ctx, make([]byte, in.Longest()+1)))
	rig.Equal(t, long.Most, 1024-64, "the longest message of a ring of 1 KiB")
	t.OK(in.Write(t.Ctx, rig.Pattern(1, 100)), in.Write(t.Ctx, rig.Pattern(2, 8)))
	t.RunAndWait(x)
	wantSteps(t, results(), streamTooLongResult, streamOK, streamTooLongResult|100<<4, 100<<4, 8<<4)
	long = rig.As[*stream.SizeError](t, rig.Error(out.Read(t.Ctx, make([]byte, 959))))
	if long.Size != 960 || long.Most != 959 {
		t.Errorf("into a short slice: %v", long)
	}
	rig.Equal(t, len(readStream(t, out)), 960, "bytes of the message")
}

func streamsShareMemory(t *rig.T) {
	const size, n = 512, 3
	h := t.Pinned(reprise.HostBufferConfig{Size: 2 * n * stream.Bytes(size)})
	at := 0
	next := func(d stream.Direction) *stream.Stream {
		s := newStream(t, stream.Config{Name: fmt.Sprintf("at %d", at), Direction: d, Size: size, Memory: h, Offset: at})
		at += stream.Bytes(size)
		return s
	}
	var ins, outs []*stream.Stream
	for i := range n {
		in, out := next(stream.ToDevice), next(stream.ToHost)
		ins, outs = append(ins, in), append(outs, out)
		x := echo(t, in, out, reprise.Kernel{Processor: chip.Processor(i % 2), Cores: rig.On(i, i%2)})
		t.Start(x)
		echoAll(t, in, out, 1)
	}
	t.Wait()
	for i := range n {
		t.Release(ins[i])
		t.Release(outs[i])
	}
}

func twoCores(t *rig.T) {
	in, middle := pair(t, 1<<10)
	second, out := pair(t, 1<<10)
	room := streamRoom(t, 1024)
	p := &reprise.Program{Name: "both", Buffers: []*reprise.Buffer{room}}
	for i, s := range [2][2]*stream.Stream{{in, middle}, {second, out}} {
		p.Kernels = append(p.Kernels, reprise.Kernel{Name: fmt.Sprintf("echo %d", i), Image: t.Kernel(kernels.StreamEcho), NOC: chip.NOC(i),
			Cores: rig.On(1+2*i, i), Args: rig.Args(streamArgs(s[0], s[1], room)...)})
		s[0].AddTo(p)
		s[1].AddTo(p)
	}
	t.Start(t.Load(p))
	wait := beside(t, func() error {
		for m, err := range middle.Messages(t.Ctx) {
			if err == nil {
				err = second.Write(t.Ctx, m)
			}
			if err != nil {
				return err
			}
		}
		return second.Close(t.Ctx)
	})
	echoAll(t, in, out, t.Size(3, 1))
	wait()
	t.Wait()
}

func streamMoves(t *rig.T) {
	in, out := pair(t, 256)
	for i := range t.Size(12, 4) {
		x := echo(t, in, out, reprise.Kernel{Processor: chip.Processor(i % 2), Cores: rig.On(i%3, i%4)})
		t.Start(x)
		echoAll(t, in, out, 1)
	}
	t.Wait()
}

func twoQueues(t *rig.T) {
	var waits []func()
	for i, q := range t.Both() {
		in := newStream(t, stream.Config{Name: "in", Direction: stream.ToDevice, Size: 1 << 10, Queue: q})
		out := newStream(t, stream.Config{Name: "out", Size: 1 << 10, Queue: q})
		x := echoOn(t, in, out, 2*i, 1)
		t.OK(q.Run(t.Ctx, x))
		waits = append(waits, beside(t, func() error {
			return writeAll(t, in, 0, 10, func(k int) int { return 50 * k })
		}), beside(t, func() error {
			k := 0
			for m, err := range out.Messages(t.Ctx) {
				if err != nil {
					return err
				}
				if !bytes.Equal(m, rig.Pattern(uint32(k), 50*k)) {
					return fmt.Errorf("queue %d: message %d isn't what was written", i, k)
				}
				k++
			}
			if k != 10 {
				return fmt.Errorf("queue %d: %d messages", i, k)
			}
			return nil
		}))
	}
	for _, wait := range waits {
		wait()
	}
	t.FinishBoth()
}

func inTrace(t *rig.T) {
	in, out := pair(t, 512)
	tr := t.Capture("stream", echoOn(t, in, out, 1, 2))
	n := t.Size(8, 3)
	for range n {
		t.Replay(tr)
	}
	for range n {
		echoAll(t, in, out, 1)
	}
	t.Wait()
}

func inLoop(t *rig.T) {
	in, out := pair(t, 256)
	at := chip.Core{X: 1, Y: 2}
	x, results := scriptWith(t, in, out, at, step{stepPop, 8, 0}, step{stepPush, 8, 1}) // hands the second word on
	// 8 B, and streamOK, which is 0.
	popped := reprise.Cond{Buffer: results, Offset: t.WorkerIndex(at) * results.PageSize(), Is: cq.Equal, Value: 8 << 4}
	tr := t.Trace("loop", func(r *reprise.Recorder) error {
		return errors.Join(r.Run(x), r.While(popped, 1000, func() error { return r.Run(x) }))
	})
	for _, n := range []uint32{3, 0, 5} {
		t.Replay(tr)
		for i := range n {
			t.OK(in.Write(t.Ctx, wordsOf(1, 10*n+i)))
			t.Same(wordsOf(0, 10*n+i), readStream(t, out), "message %d of %d", i, n)
		}
		t.OK(in.Close(t.Ctx))
		readStream(t, out) // after the end
		t.Wait()
	}
}

func inAbortedLoop(t *rig.T) {
	in, out := pair(t, 256)
	x, _ := script(t, in, out, chip.Core{X: 2, Y: 1}, step{stepPush, 8, 1})
	tr := t.Trace("endless", func(r *reprise.Recorder) error {
		return r.Loop(rig.ManyTimes, func() error { return r.Run(x) })
	})
	for range 2 {
		t.Replay(tr)
		for range 20 {
			rig.Equal(t, len(readStream(t, out)), 8, "bytes of the message")
		}
		t.OK(out.Close(t.Ctx))
		t.Ended(1)
		t.Wait()
		t.OK(out.Reset(t.Ctx))
	}
}

func streamHeld(t *rig.T) {
	in, out := pair(t, 256)
	x, _ := script(t, in, out, chip.Core{}, step{stepPush, 4, 1})
	tr := t.Capture("held", x)
	held := func(what string) {
		t.Helper()
		t.Says(rig.As[*dispatch.HeldError](t, out.Release(t.Ctx)), what)
	}
	held("program")
	t.Release(x)
	held("trace")
	t.Fails("save", tr.Save(t.Ctx, io.Discard), tracebuf.ErrHostMemory)
	t.Replay(tr)
	t.Same(wordsOf(0), readStream(t, out), "after all that")
	t.Release(tr)
	t.Release(out)
	t.AllFail(reprise.ErrReleased, map[string]error{"after Release": rig.Error(out.Read(t.Ctx, nil)), "second Release": out.Release(t.Ctx)})
}

func cancelled(t *rig.T) {
	in, out := pair(t, 128)
	x := echoOn(t, in, out, 1, 1)
	t.Start(x)
	mine := errors.New("a cause of the caller's")
	for _, read := range []bool{true, false} {
		ctx, cancel := context.WithCancelCause(t.Ctx)
		wait := make(chan error, 1)
		go func() {
			var err error
			for err == nil {
				if read {
					_, err = out.Read(ctx, make([]byte, 64))
				} else {
					err = in.Write(ctx, wordsOf(1)) // the rings and the kernel hold five
				}
			}
			wait <- err
		}()
		time.Sleep(10 * time.Millisecond)
		cancel(mine)
		t.Fails("the call", <-wait, mine)
	}
	closed := beside(t, func() error { return in.Close(t.Ctx) })
	for m, err := range out.Messages(t.Ctx) {
		t.OK(err)
		t.Same(wordsOf(1), m, "a message from before")
	}
	closed()
	t.Wait()
}

func streamReleased(t *rig.T) {
	_, out := pair(t, 128)
	wait := make(chan error, 1)
	go func() { wait <- rig.Error(out.Read(t.Ctx, nil)) }()
	time.Sleep(5 * time.Millisecond)
	t.Release(out)
	t.Fails("the call", <-wait, reprise.ErrReleased)
}

func streamRecover(t *rig.T) {
	u := t.Short()
	in, out := pair(u, 256)
	at := chip.Core{X: 2, Y: 2}
	x := echo(u, in, out, reprise.Kernel{Cores: []chip.Range{at.Range()}})
	u.Start(x)
	t.OK(in.Write(u.Ctx, wordsOf(1, 2)))
	t.Same(wordsOf(1, 2), readStream(u, out), "before it hangs")
	hang := t.Hung(u.Queue.Wait(u.Ctx))
	for _, c := range hang.Cores {
		if c.Core != at {
			continue
		}
		if s := c.Processors[chip.BRISC]; s.Waypoint != "SPOP" || s.Detail != in.ID() {
			t.Errorf("it is at %s(%#x), want SPOP(%#x)", s.Waypoint, s.Detail, in.ID())
		}
		if why := c.Explain(chip.BRISC); !strings.Contains(why, "message of the host") {
			t.Errorf("the report says that it %s", why)
		}
	}
	t.Hung(rig.Error(out.Read(u.Ctx, nil)))
	t.OK(u.Dev.Recover(u.Ctx))
	t.AllFail(stream.ErrStale, map[string]error{
		"a read after the recovery": rig.Error(out.Read(u.Ctx, nil)), "a write after the recovery": in.Write(u.Ctx, nil),
	})
	var moved *stream.MovedError
	for _, s := range []*stream.Stream{in, out} {
		if err := s.Reset(u.Ctx); err != nil && !errors.As(err, &moved) {
			t.Fatal(err)
		}
	}
	if moved != nil {
		t.Log(moved)
		u.Release(x)
		x = echo(u, in, out, reprise.Kernel{Cores: []chip.Range{at.Range()}})
	}
	u.Start(x)
	echoAll(u, in, out, 1)
	u.Wait()
	u.Release(x)
	u.Release(in)
	u.Release(out)
}
