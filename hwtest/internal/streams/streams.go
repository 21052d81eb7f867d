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
	"github.com/reprise-tt/reprise/hwtest/rig"
	"github.com/reprise-tt/reprise/kernels"
	"github.com/reprise-tt/reprise/stream"
	"github.com/reprise-tt/reprise/tracebuf"
)

// Cases are the cases of layer streams.
func Cases() (cs rig.Table) {
	rig.Pairs(&cs, "messages through rings of %d on %v",
		"what one end of a stream writes the other one reads, message by message, to the byte",
		streamEcho, []int{128, 1 << 10, 4 << 10, 64 << 10}, []chip.Processor{chip.BRISC, chip.NCRISC})
	rig.Each(&cs, "positions that wrap on NoC %d", "a stream's positions wrap after 4 GiB without a trace of it", streamWrap,
		chip.NOC0, chip.NOC1)
	cs.Add("host far ahead", "the host waits for room, and what it wrote before the program isn't lost", with(1<<10, hostAhead))
	cs.Add("kernel far ahead", "a kernel waits for room until the host has read", with(1<<10, kernelAhead))
	cs.Add("tries", "tries tell a full ring from an empty one, on both sides, and don't wait", with(256, streamTries))
	cs.Add("words", "words of 4 bytes go round between host and kernel, one at a time", with(128, streamWords))
	cs.Add("closed by the kernel", "the host reads all messages and then io.EOF, once for each run", with(512, kernelCloses))
	cs.Add("failed by the kernel", "an error of the kernel comes after its messages, with its code", with(512, kernelFails))
	cs.Add("stopped by the kernel", "writes fail once the kernel reads no more, until the stream is reset", with(128, kernelStops))
	cs.Add("closed by the host", "a kernel that waits for a message learns that there are no more", with(512, hostCloses))
	cs.Add("failed by the host", "a kernel gets an error of the host's after its messages, with its code", with(512, hostFails))
	cs.Add("stopped by the host", "a kernel that waits for room learns that the host has stopped reading", with(256, hostStops))
	cs.Add("too long", "a message that doesn't fit is refused and loses nothing", with(1<<10, tooLong))
	cs.Add("many in one host buffer", "streams beside each other don't touch each other", streamsShareMemory)
	cs.Add("two cores at once", "streams of two cores run at the same time, over the host", twoCores)
	cs.Add("from core to core", "a stream goes on where the last kernel has left it, on another core", with(256, streamMoves))
	cs.Add("two queues", "programs of two queues have streams of their own", twoQueues)
	cs.Add("in a trace", "a replayed program takes and gives messages of streams", with(512, inTrace))
	cs.Add("in a loop of a trace", "a loop takes inputs while it runs, and their end ends it", with(256, inLoop))
	cs.Add("in a loop that is aborted", "a loop whose stream has lost its reader can be aborted, and runs again", with(256, inAbortedLoop))
	cs.Add("held by a trace", "memory that a trace uses isn't released, nor saved", with(256, streamHeld))
	cs.Add("context ends a read", "a wait for a message ends with its context, and the stream goes on", with(128, cancelled))
	cs.Add("released while a read waits", "Release ends a wait for a message", with(128, streamReleased))
	cs.AddHang("recover in the middle", "streams are stale after a recovery, and work once they are reset", streamRecover)
	return cs
}

func newStream(t *rig.T, c stream.Config) *stream.Stream {
	s, err := stream.New(t.Dev, c)
	if errors.Is(err, dispatch.ErrRemoteChip) {
		t.Skip("the chip reaches no memory of the host")
	}
	t.OK(err)
	t.Closing(s.Release)
	return s
}

// ends are the host's ends of a stream to a kernel and of one from it.
type ends struct {
	*rig.T
	in, out *stream.Stream
}

func pair(t *rig.T, size int) *ends {
	return pairOf(t, stream.Config{Size: size}, stream.Config{Size: size})
}

func pairOf(t *rig.T, in, out stream.Config) *ends {
	in.Name, in.Direction, out.Name = "in", stream.ToDevice, "out"
	return &ends{t, newStream(t, in), newStream(t, out)}
}

// with passes a case two streams with rings of a size.
func with(size int, fn func(*ends)) func(*rig.T) {
	return func(t *rig.T) { fn(pair(t, size)) }
}

func streamRoom(t *rig.T, n int) *reprise.Buffer {
	return t.L1Buffer(n*t.Dev.Grid().Size(), n)
}

// args are the arguments of kernels with two streams and a page of memory.
func (t *ends) args(room *reprise.Buffer, more ...uint32) func(chip.Core) []uint32 {
	return rig.Args(slices.Concat(t.in.Args(), t.out.Args(), []uint32{room.Addr(), uint32(room.PageSize())}, more)...)
}

func (t *ends) addTo(p *reprise.Program) {
	t.in.AddTo(p)
	t.out.AddTo(p)
}

func (t *ends) program(k reprise.Kernel, room *reprise.Buffer, more ...uint32) *reprise.Program {
	k.Args = t.args(room, more...)
	p := rig.OneKernel(k, room)
	t.addTo(p)
	return p
}

func (t *ends) release() {
	t.Release(t.in)
	t.Release(t.out)
}

func (t *ends) echo(k reprise.Kernel) *reprise.Executable {
	room := streamRoom(t.T, max(t.in.Longest(), 64))
	k.Name, k.Image = "echo", t.Kernel(kernels.StreamEcho)
	return t.Load(t.program(k, room))
}

func (t *ends) echoOn(x, y int) *reprise.Executable {
	return t.echo(reprise.Kernel{Cores: rig.On(x, y)})
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

// script loads a program with steps, and returns what compares their results.
func (t *ends) script(at chip.Core, steps ...step) (x *reprise.Executable, check func(want ...uint32)) {
	x, results := t.scriptWith(at, steps...)
	return x, func(want ...uint32) {
		all := t.ReadAll(results)[t.WorkerIndex(at)*results.PageSize():]
		got := make([]uint32, len(steps))
		for i := range got {
			got[i] = rig.Word(all[4*i:])
		}
		if !slices.Equal(got, want) {
			t.Errorf("the kernel's results are %d, want %d", got, want)
		}
	}
}

func (t *ends) scriptWith(at chip.Core, steps ...step) (x *reprise.Executable, results *reprise.Buffer) {
	room, results := t.PerWorker(4096), t.PerWorker(64)
	args := []uint32{results.Addr()}
	for _, s := range steps {
		args = append(args, s.what, s.x, s.y)
	}
	k := reprise.Kernel{Name: "script", Image: t.Own("stream"), Cores: []chip.Range{at.Range()}}
	p := t.program(k, room, append(args, 0)...)
	p.Buffers = append(p.Buffers, results)
	return t.Load(p), results
}

// kernelError checks the error of a stream whose kernel has failed or stopped.
func kernelError(t *ends, err error, code uint32, stopped bool) {
	e := rig.As[*stream.KernelError](t, err)
	rig.Equal(t, e.Code, code, "the kernel's code")
	rig.Equal(t, e.Stopped, stopped, "whether the kernel has stopped")
}

func (t *ends) beside(fn func() error) (wait func()) {
	done := make(chan error, 1)
	go func() { done <- fn() }()
	return func() { t.OK(<-done) }
}

func (t *ends) read() []byte {
	p := make([]byte, t.out.Longest())
	n, err := t.out.Read(t.Ctx, p)
	t.OK(err)
	return p[:n]
}

func (t *ends) readError() error { return rig.Error(t.out.Read(t.Ctx, nil)) }

func (t *ends) write(words ...uint32) error { return t.in.Write(t.Ctx, rig.WordsOf(words...)) }

func (t *ends) empty() {
	if _, ok, err := t.out.TryRead(nil); ok || err != nil {
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

func (t *ends) writeAll(from, n int, length func(i int) int) error {
	for i := range n {
		if err := t.in.Write(t.Ctx, rig.Pattern(from+i, length(i))); err != nil {
			return err
		}
	}
	return t.in.Close(t.Ctx)
}

func (t *ends) echoAll(rounds int) {
	lengths := streamLengths(t.in.Size())
	length := func(i int) int { return lengths[i%len(lengths)] }
	n := rounds * len(lengths)
	wait := t.beside(func() error { return t.writeAll(0, n, length) })
	for i := range n {
		t.Same(rig.Pattern(i, length(i)), t.read(), "message %d of %d B", i, length(i))
	}
	rig.Equal(t, t.readError(), io.EOF, "after the last message")
	wait()
}

func streamEcho(u *rig.T, size int, p chip.Processor) {
	t := pair(u, size)
	x := t.echo(reprise.Kernel{Processor: p, Cores: rig.On(2, 1)})
	for range 2 {
		t.Start(x)
		t.echoAll(t.Size(4, 1))
		t.Wait()
	}
}

func streamWrap(u *rig.T, noc chip.NOC) {
	const size = 4 << 10
	for _, before := range []uint32{64, 1024, 4096 + 64} {
		t := pairOf(u, stream.Config{Size: size, First: -before}, stream.Config{Size: size, First: -(2 * before)})
		x := t.echo(reprise.Kernel{NOC: noc, Cores: rig.On(1, 0)})
		t.Start(x)
		t.echoAll(2)
		t.Wait()
		t.Release(x)
		t.release()
	}
}

func hostAhead(t *ends) {
	written := 0
	for {
		ok, err := t.in.TryWrite(rig.Pattern(written, 100))
		t.OK(err)
		if !ok {
			break
		}
		written++
	}
	rig.Equal(t, written, 1024/192, "messages that fit")
	t.Start(t.echoOn(0, 0))
	const more = 20
	wait := t.beside(func() error { return t.writeAll(written, more, func(int) int { return 100 }) })
	for i := range written + more {
		t.Same(rig.Pattern(i, 100), t.read(), "message %d", i)
	}
	wait()
	t.Wait()
}

func kernelAhead(t *ends) {
	const n = 40
	fill, filled := t.script(chip.Core{X: 3}, step{what: stepTryPush, x: 100})
	t.RunAndWait(fill)
	filled(1024 / 192)
	x, results := t.script(chip.Core{X: 3}, step{stepPush, 100, n}, step{what: stepClose})
	t.Start(x)
	time.Sleep(time.Duration(t.Size(20, 5)) * time.Millisecond)
	for _, messages := range []int{1024 / 192, n} {
		for i := range messages {
			got := t.read()
			rig.Equal(t, len(got), 100, "bytes of message %d of %d", i, messages)
			rig.Equal(t, rig.Word(got), uint32(i), "number of message %d of %d", i, messages)
		}
	}
	t.Fails("after the last message", t.readError(), io.EOF)
	t.Wait()
	results(streamOK, streamOK)
}

func streamTries(t *ends) {
	p := make([]byte, 256)
	t.empty()
	x, results := t.script(chip.Core{X: 1, Y: 1}, step{what: stepFirstTries}, step{what: stepTryPop},
		step{what: stepTryPush, x: 4})
	t.RunAndWait(x)
	results(streamWait, 0, 3)
	for i := range 4 {
		if n, ok, err := t.out.TryRead(p); !ok || err != nil || n != 4 {
			t.Errorf("message %d: %d B, %v, %v", i, n, ok, err)
		}
	}
	for i := range 5 {
		ok, err := t.in.TryWrite(p[:8])
		t.OK(err)
		rig.Equal(t, ok, i < 4, "write %d into a ring of four", i)
	}
	t.RunAndWait(x)
	results(streamOK, 3, 3)
	if _, ok, _ := t.out.TryRead(p); !ok {
		t.Error("nothing of the second run")
	}
}

func streamWords(t *ends) {
	n := t.Size(300, 20)
	x, results := t.script(chip.Core{Y: 2}, step{stepWords, 1000, uint32(n)})
	t.Start(x)
	p, word := make([]byte, 4), uint32(7)
	for i := range n {
		rig.PutWord(p, word)
		t.OK(t.in.Write(t.Ctx, p))
		k, err := t.out.Read(t.Ctx, p)
		t.OK(err)
		if got := rig.Word(p); k != 4 || got != word+1000 {
			t.Fatalf("word %d: %d of %d B, want %d", i, got, k, word+1000)
		}
		word = word*1664525 + 1013904223
	}
	t.Wait()
	results(uint32(n))
}

func kernelCloses(t *ends) {
	x, _ := t.script(chip.Core{X: 1, Y: 3}, step{stepPush, 4, 2}, step{what: stepClose}, step{stepPush, 8, 1},
		step{what: stepClose})
	for range 3 {
		t.Start(x)
		var lengths []int
		for range 2 {
			for m, err := range t.out.Messages(t.Ctx) {
				t.OK(err)
				lengths = append(lengths, len(m))
			}
			lengths = append(lengths, -1)
		}
		rig.Equal(t, fmt.Sprint(lengths), "[4 4 -1 8 -1]", "messages and ends")
	}
	t.Wait()
}

func kernelFails(t *ends) {
	x, _ := t.script(chip.Core{X: 2, Y: 2}, step{stepPush, 60, 1}, step{what: stepFail, x: 1234})
	t.Start(x)
	rig.Equal(t, len(t.read()), 60, "bytes of the message")
	_, err := t.out.Read(t.Ctx, nil)
	kernelError(t, err, 1234, false)
	t.Says(err, "out", "kernel failed", "1234")
	t.Wait()
}

func kernelStops(t *ends) {
	x, results := t.script(chip.Core{X: 2, Y: 3}, step{stepPop, 64, 0}, step{what: stepStop, x: 77})
	t.Start(x)
	var err error
	for i := 0; i < 10 && err == nil; i++ { // the ring has room for two
		err = t.write(1)
	}
	kernelError(t, err, 77, true)
	t.Wait()
	results(4<<4, 0)
	rig.As[*stream.KernelError](t, t.in.Close(t.Ctx))
	t.OK(t.in.Reset(t.Ctx), t.write(1, 2))
	t.RunAndWait(x)
	results(8<<4, 0)
}

func hostCloses(t *ends) {
	x, results := t.script(chip.Core{X: 3, Y: 3}, step{stepPop, 64, 0}, step{stepPop, 64, 0}, step{stepPop, 64, 0})
	t.Start(x)
	t.OK(t.write(1, 2, 3), t.in.Close(t.Ctx), t.write(4))
	t.Wait()
	results(12<<4, streamEnd, 4<<4)
}

func hostFails(t *ends) {
	x := t.echoOn(3, 1)
	t.Start(x)
	t.OK(t.write(5), t.in.Fail(t.Ctx, 4321))
	t.Same(rig.WordsOf(5), t.read(), "the message before")
	kernelError(t, t.readError(), 4321, false) // echo hands the code on
	t.Wait()
	t.Fails("Fail of a stream that the host reads", t.out.Fail(t.Ctx, 1), stream.ErrDirection)
}

func hostStops(t *ends) {
	x, results := t.script(chip.Core{Y: 1}, step{what: stepWaitStop, x: 16}, step{what: stepClose})
	t.Start(x)
	for i := range 3 {
		rig.Equal(t, rig.Word(t.read()), uint32(i), "message %d", i)
	}
	t.OK(t.out.Close(t.Ctx))
	t.Wait()
	results(streamStopped, streamStopped)
	t.OK(t.out.Reset(t.Ctx))
	t.empty()
}

func tooLong(t *ends) {
	x, results := t.script(chip.Core{X: 1}, step{stepPush, 1024 - 60, 1}, step{stepPush, 1024 - 64, 1},
		step{stepPop, 96, 0}, step{stepPop, 100, 0}, step{stepPop, 100, 0})
	long := rig.As[*stream.SizeError](t, t.in.Write(t.Ctx, make([]byte, t.in.Longest()+1)))
	rig.Equal(t, long.Most, 1024-64, "the longest message of a ring of 1 KiB")
	t.OK(t.in.Write(t.Ctx, rig.Pattern(1, 100)), t.in.Write(t.Ctx, rig.Pattern(2, 8)))
	t.RunAndWait(x)
	results(streamTooLongResult, streamOK, streamTooLongResult|100<<4, 100<<4, 8<<4)
	long = rig.As[*stream.SizeError](t, rig.Error(t.out.Read(t.Ctx, make([]byte, 959))))
	if long.Size != 960 || long.Most != 959 {
		t.Errorf("into a short slice: %v", long)
	}
	rig.Equal(t, len(t.read()), 960, "bytes of the message")
}

func streamsShareMemory(t *rig.T) {
	const size, n = 512, 3
	h := t.Pinned(reprise.HostBufferConfig{Size: 2 * n * stream.Bytes(size)})
	at := func(i int) stream.Config { return stream.Config{Size: size, Memory: h, Offset: i * stream.Bytes(size)} }
	var all []*ends
	for i := range n {
		e := pairOf(t, at(2*i), at(2*i+1))
		all = append(all, e)
		e.Start(e.echo(reprise.Kernel{Processor: chip.Processor(i % 2), Cores: rig.On(i, i%2)}))
		e.echoAll(1)
	}
	t.Wait()
	for _, e := range all {
		e.release()
	}
}

func twoCores(t *rig.T) {
	first, second := pair(t, 1<<10), pair(t, 1<<10)
	room := streamRoom(t, 1024)
	p := &reprise.Program{Name: "both", Buffers: []*reprise.Buffer{room}}
	for i, e := range []*ends{first, second} {
		p.Kernels = append(p.Kernels, reprise.Kernel{Name: fmt.Sprintf("echo %d", i), Image: t.Kernel(kernels.StreamEcho), NOC: chip.NOC(i),
			Cores: rig.On(1+2*i, i), Args: e.args(room)})
		e.addTo(p)
	}
	t.Start(t.Load(p))
	wait := first.beside(func() error {
		for m, err := range first.out.Messages(t.Ctx) {
			if err == nil {
				err = second.in.Write(t.Ctx, m)
			}
			if err != nil {
				return err
			}
		}
		return second.in.Close(t.Ctx)
	})
	(&ends{t, first.in, second.out}).echoAll(t.Size(3, 1))
	wait()
	t.Wait()
}

func streamMoves(t *ends) {
	for i := range t.Size(12, 4) {
		t.Start(t.echo(reprise.Kernel{Processor: chip.Processor(i % 2), Cores: rig.On(i%3, i%4)}))
		t.echoAll(1)
	}
	t.Wait()
}

func twoQueues(u *rig.T) {
	var waits []func()
	for i, q := range u.Both() {
		c := stream.Config{Size: 1 << 10, Queue: q}
		t := pairOf(u.On(q), c, c)
		t.Start(t.echoOn(2*i, 1))
		waits = append(waits, t.beside(func() error {
			return t.writeAll(0, 10, func(k int) int { return 50 * k })
		}), t.beside(func() error {
			k := 0
			for m, err := range t.out.Messages(t.Ctx) {
				if err != nil {
					return err
				}
				if !bytes.Equal(m, rig.Pattern(k, 50*k)) {
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
	u.FinishBoth()
}

func inTrace(t *ends) {
	tr := t.Capture("stream", t.echoOn(1, 2))
	n := t.Size(8, 3)
	for range n {
		t.Replay(tr)
	}
	for range n {
		t.echoAll(1)
	}
	t.Wait()
}

func inLoop(t *ends) {
	at := chip.Core{X: 1, Y: 2}
	x, results := t.scriptWith(at, step{stepPop, 8, 0}, step{stepPush, 8, 1}) // hands the second word on
	// 8 B, and streamOK, which is 0.
	popped := reprise.Cond{Buffer: results, Offset: t.WorkerIndex(at) * results.PageSize(), Is: cq.Equal, Value: 8 << 4}
	tr := t.Trace("loop", func(r *reprise.Recorder) {
		r.Run(x)
		r.While(popped, 1000, func() error { return r.Run(x) })
	})
	for _, n := range []uint32{3, 0, 5} {
		t.Replay(tr)
		for i := range n {
			t.OK(t.write(1, 10*n+i))
			t.Same(rig.WordsOf(0, 10*n+i), t.read(), "message %d of %d", i, n)
		}
		t.OK(t.in.Close(t.Ctx))
		t.read() // after the end
		t.Wait()
	}
}

func inAbortedLoop(t *ends) {
	x, _ := t.script(chip.Core{X: 2, Y: 1}, step{stepPush, 8, 1})
	tr := t.Trace("endless", func(r *reprise.Recorder) {
		r.Loop(rig.ManyTimes, func() error { return r.Run(x) })
	})
	for range 2 {
		t.Replay(tr)
		for range 20 {
			rig.Equal(t, len(t.read()), 8, "bytes of the message")
		}
		t.OK(t.out.Close(t.Ctx))
		t.Ended(1)
		t.Wait()
		t.OK(t.out.Reset(t.Ctx))
	}
}

func streamHeld(t *ends) {
	x, _ := t.script(chip.Core{}, step{stepPush, 4, 1})
	tr := t.Capture("held", x)
	held := func(what string) {
		t.Says(rig.As[*dispatch.HeldError](t, t.out.Release(t.Ctx)), what)
	}
	held("program")
	t.Release(x)
	held("trace")
	t.Fails("save", tr.Save(t.Ctx, io.Discard), tracebuf.ErrHostMemory)
	t.Replay(tr)
	t.Same(rig.WordsOf(0), t.read(), "after all that")
	t.Release(tr)
	t.Release(t.out)
	t.AllFail(reprise.ErrReleased, map[string]error{"after Release": t.readError(), "second Release": t.out.Release(t.Ctx)})
}

func cancelled(t *ends) {
	t.Start(t.echoOn(1, 1))
	mine := errors.New("a cause of the caller's")
	for _, read := range []bool{true, false} {
		ctx, cancel := context.WithCancelCause(t.Ctx)
		wait := make(chan error, 1)
		go func() {
			var err error
			for err == nil {
				if read {
					_, err = t.out.Read(ctx, make([]byte, 64))
				} else {
					err = t.in.Write(ctx, rig.WordsOf(1)) // the rings and the kernel hold five
				}
			}
			wait <- err
		}()
		time.Sleep(10 * time.Millisecond)
		cancel(mine)
		t.Fails("the call", <-wait, mine)
	}
	closed := t.beside(func() error { return t.in.Close(t.Ctx) })
	for m, err := range t.out.Messages(t.Ctx) {
		t.OK(err)
		t.Same(rig.WordsOf(1), m, "a message from before")
	}
	closed()
	t.Wait()
}

func streamReleased(t *ends) {
	wait := make(chan error, 1)
	go func() { wait <- t.readError() }()
	time.Sleep(5 * time.Millisecond)
	t.Release(t.out)
	t.Fails("the call", <-wait, reprise.ErrReleased)
}

func streamRecover(u *rig.T) {
	t := pair(u.Short(), 256)
	at := chip.Core{X: 2, Y: 2}
	x := t.echo(reprise.Kernel{Cores: []chip.Range{at.Range()}})
	t.Start(x)
	t.OK(t.write(1, 2))
	t.Same(rig.WordsOf(1, 2), t.read(), "before it hangs")
	hang := t.Hung(t.Queue.Wait(t.Ctx))
	for _, c := range hang.Cores {
		if c.Core != at {
			continue
		}
		if s := c.Processors[chip.BRISC]; s.Waypoint != "SPOP" || s.Detail != t.in.ID() {
			t.Errorf("it is at %s(%#x), want SPOP(%#x)", s.Waypoint, s.Detail, t.in.ID())
		}
		if why := c.Explain(chip.BRISC); !strings.Contains(why, "message of the host") {
			t.Errorf("the report says that it %s", why)
		}
	}
	t.Hung(t.readError())
	t.Recover()
	t.AllFail(stream.ErrStale, map[string]error{
		"a read after the recovery": t.readError(), "a write after the recovery": t.in.Write(t.Ctx, nil),
	})
	var moved *stream.MovedError
	for _, s := range []*stream.Stream{t.in, t.out} {
		if err := s.Reset(t.Ctx); err != nil && !errors.As(err, &moved) {
			t.Fatal(err)
		}
	}
	if moved != nil {
		t.Log(moved)
		t.Release(x)
		x = t.echo(reprise.Kernel{Cores: []chip.Range{at.Range()}})
	}
	t.Start(x)
	t.echoAll(1)
	t.Wait()
	t.Release(x)
	t.release()
}
