package hwtest

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/allocator"
	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/dispatch"
	"github.com/reprise-tt/reprise/dispatch/cq"
	"github.com/reprise-tt/reprise/kernels"
	"github.com/reprise-tt/reprise/stream"
	"github.com/reprise-tt/reprise/tracebuf"
)

const streamed = "what one end of a stream writes the other one reads, message by message, to the byte"

func streamCases() []testCase {
	var cs []testCase
	for _, size := range []int{128, 1 << 10, 4 << 10, 64 << 10} {
		for _, p := range []chip.Processor{chip.BRISC, chip.NCRISC} {
			cs = append(cs, testCase{name: fmt.Sprintf("messages through rings of %d on %v", size, p), protects: streamed,
				fn: func(t *fixture) { streamEcho(t, size, p, 0) }})
		}
	}
	for _, noc := range []chip.NOC{chip.NOC0, chip.NOC1} {
		cs = append(cs, testCase{name: fmt.Sprintf("positions that wrap on NoC %d", noc),
			protects: "a stream's positions wrap after 4 GiB without a trace of it",
			fn:       func(t *fixture) { streamWrap(t, noc) }})
	}
	return append(cs, []testCase{
		{name: "host far ahead", protects: "the host waits for room, and what it has written before a program starts isn't lost", fn: hostAhead},
		{name: "kernel far ahead", protects: "a kernel waits for room until the host has read", fn: kernelAhead},
		{name: "tries", protects: "tries tell a full ring from an empty one, on both sides, and don't wait", fn: streamTries},
		{name: "words", protects: "words of 4 bytes go round between host and kernel, one at a time", fn: streamWords},
		{name: "closed by the kernel", protects: "the host reads all messages and then io.EOF, once for each run", fn: kernelCloses},
		{name: "failed by the kernel", protects: "an error of the kernel comes after its messages, with its code", fn: kernelFails},
		{name: "stopped by the kernel", protects: "writes fail once the kernel reads no more, until the stream is reset", fn: kernelStops},
		{name: "closed by the host", protects: "a kernel that waits for a message learns that there are no more", fn: hostCloses},
		{name: "failed by the host", protects: "a kernel gets an error of the host's after its messages, with its code", fn: hostFails},
		{name: "stopped by the host", protects: "a kernel that waits for room learns that nobody reads", fn: hostStops},
		{name: "too long", protects: "a message that doesn't fit is refused and loses nothing", fn: streamTooLong},
		{name: "many in one host buffer", protects: "streams beside each other don't touch each other", fn: streamsShareMemory},
		{name: "two cores at once", protects: "streams of two cores run at the same time, over the host", fn: streamTwoCores},
		{name: "from core to core", protects: "a stream goes on where the last kernel has left it, on another core", fn: streamMoves},
		{name: "two queues", protects: "programs of two queues have streams of their own", fn: streamTwoQueues},
		{name: "in a trace", protects: "a replayed program takes its inputs from a stream and gives its outputs to one", fn: streamInTrace},
		{name: "in a loop of a trace", protects: "a loop takes inputs and gives outputs while it runs, and the end of its input ends it", fn: streamInLoop},
		{name: "in a loop that is aborted", protects: "a loop whose stream nobody reads any more can be aborted, and runs again", fn: streamInAbortedLoop},
		{name: "between the steps of a trace", protects: "programs of one trace use a stream one after the other", fn: streamSteps},
		{name: "held by a trace", protects: "memory that a trace uses isn't released, and no file has a trace with memory of this process", fn: streamHeld},
		{name: "context ends a read", protects: "a wait for a message ends with its context, and the stream goes on", fn: streamCancelled},
		{name: "released while a read waits", protects: "Release ends a wait for a message", fn: streamReleased},
		{name: "recover in the middle", unsafe: hangs, needs: needSimulator,
			protects: "a kernel that waits for the host is named by a hang report; after a recovery streams say that they are stale, and work when they are reset", fn: streamRecover},
	}...)
}

// stream makes a stream and releases it with the case.
func (t *fixture) stream(c stream.Config) *stream.Stream {
	t.Helper()
	s, err := stream.New(t.dev, c)
	if errors.Is(err, dispatch.ErrRemoteChip) {
		t.Skip("the chip reaches no memory of the host")
	}
	t.ok(err)
	t.closing(s.Release)
	return s
}

// pair makes a stream in each direction.
func (t *fixture) pair(size int) (in, out *stream.Stream) {
	t.Helper()
	return t.stream(stream.Config{Name: "in", Direction: stream.ToDevice, Size: size}), t.stream(stream.Config{Name: "out", Size: size})
}

// streamRoom is L1 for a message of n bytes in each worker, aligned as host memory is.
func (t *fixture) streamRoom(n int) *reprise.Buffer {
	t.Helper()
	return t.buffer(allocator.L1, n*t.dev.Grid().Size(), n)
}

// streamProgram is a kernel with streams.
func (t *fixture) streamProgram(k reprise.Kernel, room *reprise.Buffer, args []uint32, ss ...*stream.Stream) *reprise.Program {
	t.Helper()
	k.Args = func(chip.Core) []uint32 { return args }
	p := &reprise.Program{Name: k.Name, Buffers: []*reprise.Buffer{room}, Kernels: []reprise.Kernel{k}}
	for _, s := range ss {
		s.AddTo(p)
	}
	return p
}

// echo loads a program that hands messages of a stream on to another.
func (t *fixture) echo(in, out *stream.Stream, k reprise.Kernel) *reprise.Executable {
	t.Helper()
	room := t.streamRoom(max(in.Longest(), 64))
	k.Name, k.Image = "echo", t.kernel(kernels.StreamEcho)
	return t.load(t.streamProgram(k, room, append(append(in.Args(), out.Args()...), room.Addr(), uint32(room.PageSize())), in, out))
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

// script loads a program with steps, and returns a function that reads their results after it has run.
func (t *fixture) script(in, out *stream.Stream, at chip.Core, steps ...step) (*reprise.Executable, func() []uint32) {
	t.Helper()
	x, results := t.scriptWith(in, out, at, steps...)
	return x, func() []uint32 {
		t.Helper()
		all := t.readAll(results)[t.workerIndex(at)*results.PageSize():]
		var got []uint32
		for i := range steps {
			got = append(got, binary.LittleEndian.Uint32(all[4*i:]))
		}
		return got
	}
}

// scriptWith loads a program with steps, and returns the buffer with their results, a page for each worker.
func (t *fixture) scriptWith(in, out *stream.Stream, at chip.Core, steps ...step) (*reprise.Executable, *reprise.Buffer) {
	t.Helper()
	room, results := t.perWorker(4096), t.perWorker(64)
	args := append(append(in.Args(), out.Args()...), room.Addr(), uint32(room.PageSize()), results.Addr())
	for _, s := range steps {
		args = append(args, s.what, s.x, s.y)
	}
	p := t.streamProgram(reprise.Kernel{Name: "script", Image: t.own("stream"), Cores: []chip.Range{at.Range()}}, room, append(args, 0), in,
		out)
	p.Buffers = append(p.Buffers, results)
	return t.load(p), results
}

// wantSteps compares the results of a script.
func (t *fixture) wantSteps(got []uint32, want ...uint32) {
	t.Helper()
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("the kernel's results are %d, want %d", got, want)
	}
}

// beside runs a function beside the case; the returned one waits for it.
func (t *fixture) beside(fn func() error) (wait func()) {
	done := make(chan error, 1)
	go func() { done <- fn() }()
	return func() { t.Helper(); t.ok(<-done) }
}

// words makes a message of 32-bit words.
func streamWordsOf(words ...uint32) []byte {
	var p []byte
	for _, w := range words {
		p = binary.LittleEndian.AppendUint32(p, w)
	}
	return p
}

// readStream reads a message.
func (t *fixture) readStream(s *stream.Stream) []byte {
	t.Helper()
	p := make([]byte, s.Longest())
	n, err := s.Read(t.ctx, p)
	t.ok(err)
	return p[:n]
}

// streamLengths are those of messages for a ring: inside the first line, around its end, around multiples of the unit, and
// the longest one.
func streamLengths(size int) []int {
	var out []int
	for _, n := range []int{0, 1, 4, 47, 48, 49, 64, 65, 127, 1216, 4000, size - 64} {
		if n <= size-64 {
			out = append(out, n)
		}
	}
	return out
}

func (t *fixture) echoAll(in, out *stream.Stream, rounds int) {
	t.Helper()
	lengths := streamLengths(in.Size())
	seed := func(i, j int) uint32 { return uint32(i*len(lengths) + j) }
	wait := t.beside(func() error {
		for i := range rounds {
			for j, n := range lengths {
				if err := in.Write(t.ctx, pattern(seed(i, j), n)); err != nil {
					return err
				}
			}
		}
		return in.Close(t.ctx)
	})
	for i := range rounds {
		for j, n := range lengths {
			t.same(fmt.Sprintf("round %d, message of %d B", i, n), pattern(seed(i, j), n), t.readStream(out))
		}
	}
	if _, err := out.Read(t.ctx, nil); err != io.EOF {
		t.Errorf("after the last message: %v, want %v", err, io.EOF)
	}
	wait()
}

func streamEcho(t *fixture, size int, p chip.Processor, noc chip.NOC) {
	in, out := t.pair(size)
	x := t.echo(in, out, reprise.Kernel{Processor: p, NOC: noc, Cores: []chip.Range{chip.Core{X: 2, Y: 1}.Range()}})
	for range 2 {
		t.ok(t.rq.Run(t.ctx, x))
		t.echoAll(in, out, t.size(4, 1))
		t.ok(t.rq.Wait(t.ctx))
	}
}

func streamWrap(t *fixture, noc chip.NOC) {
	const size = 4 << 10
	for _, before := range []uint32{64, 1024, 4096 + 64} {
		in := t.stream(stream.Config{Name: "in", Direction: stream.ToDevice, Size: size, First: -before})
		out := t.stream(stream.Config{Name: "out", Size: size, First: -(2 * before)})
		x := t.echo(in, out, reprise.Kernel{Processor: chip.BRISC, NOC: noc, Cores: []chip.Range{chip.Core{X: 1}.Range()}})
		t.ok(t.rq.Run(t.ctx, x))
		t.echoAll(in, out, 2)
		t.ok(t.rq.Wait(t.ctx))
		t.ok(x.Release(t.ctx))
		t.ok(errors.Join(in.Release(t.ctx), out.Release(t.ctx)))
	}
}

func hostAhead(t *fixture) {
	in, out := t.pair(1 << 10)
	written := 0
	for {
		ok, err := in.TryWrite(pattern(uint32(written), 100))
		t.ok(err)
		if !ok {
			break
		}
		written++
	}
	if want := 1024 / 192; written != want {
		t.Errorf("%d messages fit, want %d", written, want)
	}
	x := t.echo(in, out, reprise.Kernel{Cores: []chip.Range{chip.Core{}.Range()}})
	t.ok(t.rq.Run(t.ctx, x))
	const more = 20
	wait := t.beside(func() error {
		for i := range more {
			if err := in.Write(t.ctx, pattern(uint32(written+i), 100)); err != nil {
				return err
			}
		}
		return in.Close(t.ctx)
	})
	for i := range written + more {
		t.same(fmt.Sprintf("message %d", i), pattern(uint32(i), 100), t.readStream(out))
	}
	wait()
	t.ok(t.rq.Wait(t.ctx))
}

func kernelAhead(t *fixture) {
	in, out := t.pair(1 << 10)
	const n = 40
	fill, filled := t.script(in, out, chip.Core{X: 3}, step{what: stepTryPush, x: 100})
	t.runAndWait(fill)
	t.wantSteps(filled(), 1024/192)
	x, results := t.script(in, out, chip.Core{X: 3}, step{stepPush, 100, n}, step{what: stepClose})
	t.ok(t.rq.Run(t.ctx, x))
	time.Sleep(time.Duration(t.size(20, 5)) * time.Millisecond) // it waits for room by now, or soon
	for i := range 1024/192 + n {
		number := i
		if i >= 1024/192 {
			number = i - 1024/192
		}
		if got := t.readStream(out); len(got) != 100 || binary.LittleEndian.Uint32(got) != uint32(number) {
			t.Fatalf("message %d: %d B, number %d, want %d", i, len(got), binary.LittleEndian.Uint32(got), number)
		}
	}
	if _, err := out.Read(t.ctx, nil); err != io.EOF {
		t.Errorf("after the last message: %v", err)
	}
	t.ok(t.rq.Wait(t.ctx))
	t.wantSteps(results(), streamOK, streamOK)
}

func streamTries(t *fixture) {
	in, out := t.pair(256)
	p := make([]byte, 256)
	if _, ok, err := out.TryRead(p); ok || err != nil {
		t.Errorf("of an empty ring: %v, %v", ok, err)
	}
	x, results := t.script(in, out, chip.Core{X: 1, Y: 1}, step{what: stepFirstTries}, step{what: stepTryPop}, step{what: stepTryPush, x: 4})
	t.runAndWait(x)
	t.wantSteps(results(), streamWait, 0, 3)
	for i := range 4 {
		if n, ok, err := out.TryRead(p); !ok || err != nil || n != 4 {
			t.Errorf("message %d: %d B, %v, %v", i, n, ok, err)
		}
	}
	for i := range 5 {
		ok, err := in.TryWrite(p[:8])
		t.ok(err)
		if ok != (i < 4) {
			t.Errorf("write %d into a ring of four: %v", i, ok)
		}
	}
	t.runAndWait(x)
	t.wantSteps(results(), streamOK, 3, 3)
	if _, ok, _ := out.TryRead(p); !ok {
		t.Error("nothing of the second run")
	}
}

func streamWords(t *fixture) {
	in, out := t.pair(128)
	n := t.size(300, 20)
	x, results := t.script(in, out, chip.Core{Y: 2}, step{stepWords, 1000, uint32(n)})
	t.ok(t.rq.Run(t.ctx, x))
	p, word := make([]byte, 4), uint32(7)
	for i := range n {
		binary.LittleEndian.PutUint32(p, word)
		t.ok(in.Write(t.ctx, p))
		k, err := out.Read(t.ctx, p)
		t.ok(err)
		if got := binary.LittleEndian.Uint32(p); k != 4 || got != word+1000 {
			t.Fatalf("word %d: %d of %d B, want %d", i, got, k, word+1000)
		}
		word = word*1664525 + 1013904223
	}
	t.ok(t.rq.Wait(t.ctx))
	t.wantSteps(results(), uint32(n))
}

func kernelCloses(t *fixture) {
	in, out := t.pair(512)
	x, _ := t.script(in, out, chip.Core{X: 1, Y: 3}, step{stepPush, 4, 2}, step{what: stepClose}, step{stepPush, 8, 1}, step{what: stepClose})
	for range 3 {
		t.ok(t.rq.Run(t.ctx, x))
		var lengths []int
		for range 2 {
			for m, err := range out.Messages(t.ctx) {
				t.ok(err)
				lengths = append(lengths, len(m))
			}
			lengths = append(lengths, -1)
		}
		if fmt.Sprint(lengths) != "[4 4 -1 8 -1]" {
			t.Errorf("messages and ends: %d", lengths)
		}
	}
	t.ok(t.rq.Wait(t.ctx))
}

func kernelFails(t *fixture) {
	in, out := t.pair(512)
	x, _ := t.script(in, out, chip.Core{X: 2, Y: 2}, step{stepPush, 60, 1}, step{what: stepFail, x: 1234})
	t.ok(t.rq.Run(t.ctx, x))
	if got := t.readStream(out); len(got) != 60 {
		t.Errorf("a message of %d B", len(got))
	}
	_, err := out.Read(t.ctx, nil)
	var failed *stream.KernelError
	if !errors.As(err, &failed) || failed.Code != 1234 || failed.Stopped {
		t.Errorf("error %v, want the kernel's 1234", err)
	}
	t.says(err, "out", "kernel failed", "1234")
	t.ok(t.rq.Wait(t.ctx))
}

func kernelStops(t *fixture) {
	in, out := t.pair(128)
	x, results := t.script(in, out, chip.Core{X: 2, Y: 3}, step{stepPop, 64, 0}, step{what: stepStop, x: 77})
	t.ok(t.rq.Run(t.ctx, x))
	var err error
	for range 10 { // the ring has room for two
		if err = in.Write(t.ctx, streamWordsOf(1)); err != nil {
			break
		}
	}
	var stopped *stream.KernelError
	if !errors.As(err, &stopped) || stopped.Code != 77 || !stopped.Stopped {
		t.Errorf("error %v, want the kernel's 77", err)
	}
	t.ok(t.rq.Wait(t.ctx))
	t.wantSteps(results(), 4<<4, 0)
	if err := in.Close(t.ctx); !errors.As(err, &stopped) {
		t.Errorf("close: %v", err)
	}
	t.ok(in.Reset(t.ctx))
	t.ok(in.Write(t.ctx, streamWordsOf(1, 2)))
	t.runAndWait(x)
	t.wantSteps(results(), 8<<4, 0)
}

func hostCloses(t *fixture) {
	in, out := t.pair(512)
	x, results := t.script(in, out, chip.Core{X: 3, Y: 3}, step{stepPop, 64, 0}, step{stepPop, 64, 0}, step{stepPop, 64, 0})
	t.ok(t.rq.Run(t.ctx, x))
	t.ok(in.Write(t.ctx, streamWordsOf(1, 2, 3)))
	t.ok(in.Close(t.ctx))
	t.ok(in.Write(t.ctx, streamWordsOf(4)))
	t.ok(t.rq.Wait(t.ctx))
	t.wantSteps(results(), 12<<4, streamEnd, 4<<4)
}

func hostFails(t *fixture) {
	in, out := t.pair(512)
	x := t.echo(in, out, reprise.Kernel{Cores: []chip.Range{chip.Core{X: 3, Y: 1}.Range()}})
	t.ok(t.rq.Run(t.ctx, x))
	t.ok(in.Write(t.ctx, streamWordsOf(5)))
	t.ok(in.Fail(t.ctx, 4321))
	t.same("the message before", streamWordsOf(5), t.readStream(out))
	_, err := out.Read(t.ctx, nil)
	var failed *stream.KernelError // echo hands the code on
	if !errors.As(err, &failed) || failed.Code != 4321 {
		t.Errorf("error %v, want 4321", err)
	}
	t.ok(t.rq.Wait(t.ctx))
	if err := out.Fail(t.ctx, 1); !errors.Is(err, stream.ErrDirection) {
		t.Errorf("Fail of a stream that the host reads: %v", err)
	}
}

func hostStops(t *fixture) {
	in, out := t.pair(256)
	x, results := t.script(in, out, chip.Core{Y: 1}, step{what: stepWaitStop, x: 16}, step{what: stepClose})
	t.ok(t.rq.Run(t.ctx, x))
	for i := range 3 {
		if got := t.readStream(out); binary.LittleEndian.Uint32(got) != uint32(i) {
			t.Errorf("message %d: % x", i, got)
		}
	}
	t.ok(out.Close(t.ctx))
	t.ok(t.rq.Wait(t.ctx))
	t.wantSteps(results(), streamStopped, streamStopped)
	t.ok(out.Reset(t.ctx))
	if _, ok, err := out.TryRead(nil); ok || err != nil {
		t.Errorf("after Reset: %v, %v", ok, err)
	}
}

func streamTooLong(t *fixture) {
	in, out := t.pair(1 << 10)
	x, results := t.script(in, out, chip.Core{X: 1}, step{stepPush, 1024 - 60, 1}, step{stepPush, 1024 - 64, 1},
		step{stepPop, 96, 0}, step{stepPop, 100, 0}, step{stepPop, 100, 0})
	var long *stream.SizeError
	if err := in.Write(t.ctx, make([]byte, in.Longest()+1)); !errors.As(err, &long) || long.Most != 1024-64 {
		t.Errorf("a message that no ring of 1 KiB holds: %v", err)
	}
	t.ok(in.Write(t.ctx, pattern(1, 100)))
	t.ok(in.Write(t.ctx, pattern(2, 8)))
	t.runAndWait(x)
	t.wantSteps(results(), streamTooLongResult, streamOK, streamTooLongResult|100<<4, 100<<4, 8<<4)
	if _, err := out.Read(t.ctx, make([]byte, 959)); !errors.As(err, &long) || long.Size != 960 || long.Most != 959 {
		t.Errorf("into a short slice: %v", err)
	}
	if got := t.readStream(out); len(got) != 960 {
		t.Errorf("then it has %d B", len(got))
	}
}

func streamsShareMemory(t *fixture) {
	const size, n = 512, 3
	h := t.pinned(reprise.HostBufferConfig{Size: 2 * n * stream.Bytes(size)})
	at := 0
	next := func(d stream.Direction) *stream.Stream {
		s := t.stream(stream.Config{Name: fmt.Sprintf("at %d", at), Direction: d, Size: size, Memory: h, Offset: at})
		at += stream.Bytes(size)
		return s
	}
	var ins, outs []*stream.Stream
	for i := range n {
		in, out := next(stream.ToDevice), next(stream.ToHost)
		ins, outs = append(ins, in), append(outs, out)
		x := t.echo(in, out, reprise.Kernel{Processor: chip.Processor(i % 2), Cores: []chip.Range{chip.Core{X: i, Y: i % 2}.Range()}})
		t.ok(t.rq.Run(t.ctx, x))
		t.echoAll(in, out, 1)
	}
	t.ok(t.rq.Wait(t.ctx))
	for i := range n {
		t.ok(errors.Join(ins[i].Release(t.ctx), outs[i].Release(t.ctx)))
	}
}

func streamTwoCores(t *fixture) {
	in, middle := t.pair(1 << 10)
	second, out := t.pair(1 << 10)
	room := t.streamRoom(1024)
	p := &reprise.Program{Name: "both", Buffers: []*reprise.Buffer{room}}
	for i, s := range [2][2]*stream.Stream{{in, middle}, {second, out}} {
		args := append(append(s[0].Args(), s[1].Args()...), room.Addr(), uint32(room.PageSize()))
		p.Kernels = append(p.Kernels, reprise.Kernel{Name: fmt.Sprintf("echo %d", i), Image: t.kernel(kernels.StreamEcho), NOC: chip.NOC(i),
			Cores: []chip.Range{chip.Core{X: 1 + 2*i, Y: i}.Range()}, Args: func(chip.Core) []uint32 { return args }})
		s[0].AddTo(p)
		s[1].AddTo(p)
	}
	t.ok(t.rq.Run(t.ctx, t.load(p)))
	wait := t.beside(func() error { // from the first core to the second
		for m, err := range middle.Messages(t.ctx) {
			if err == nil {
				err = second.Write(t.ctx, m)
			}
			if err != nil {
				return err
			}
		}
		return second.Close(t.ctx)
	})
	t.echoAll(in, out, t.size(3, 1))
	wait()
	t.ok(t.rq.Wait(t.ctx))
}

func streamMoves(t *fixture) {
	in, out := t.pair(256)
	for i := range t.size(12, 4) {
		x := t.echo(in, out, reprise.Kernel{Processor: chip.Processor(i % 2), Cores: []chip.Range{chip.Core{X: i % 3, Y: i % 4}.Range()}})
		t.ok(t.rq.Run(t.ctx, x))
		t.echoAll(in, out, 1)
	}
	t.ok(t.rq.Wait(t.ctx))
}

func streamTwoQueues(t *fixture) {
	var waits []func()
	for i, q := range t.both() {
		in := t.stream(stream.Config{Name: "in", Direction: stream.ToDevice, Size: 1 << 10, Queue: q})
		out := t.stream(stream.Config{Name: "out", Size: 1 << 10, Queue: q})
		x := t.echo(in, out, reprise.Kernel{Cores: []chip.Range{chip.Core{X: 2 * i, Y: 1}.Range()}})
		t.ok(q.Run(t.ctx, x))
		waits = append(waits, t.beside(func() error {
			for k := range 10 {
				if err := in.Write(t.ctx, pattern(uint32(k), 50*k)); err != nil {
					return err
				}
			}
			return in.Close(t.ctx)
		}), t.beside(func() error {
			k := 0
			for m, err := range out.Messages(t.ctx) {
				if err != nil {
					return err
				}
				if !bytes.Equal(m, pattern(uint32(k), 50*k)) {
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
	t.finishBoth()
}

func streamInTrace(t *fixture) {
	in, out := t.pair(512)
	tr := t.capture("stream", t.echo(in, out, reprise.Kernel{Cores: []chip.Range{chip.Core{X: 1, Y: 2}.Range()}}))
	n := t.size(8, 3)
	for range n {
		t.ok(tr.Replay(t.ctx))
	}
	for range n {
		t.echoAll(in, out, 1)
	}
	t.ok(t.rq.Wait(t.ctx))
}

func streamInLoop(t *fixture) {
	in, out := t.pair(256)
	at := chip.Core{X: 1, Y: 2}
	x, results := t.scriptWith(in, out, at, step{stepPop, 8, 0}, step{stepPush, 8, 1}) // hands the second word on
	// 8 B, and streamOK, which is 0.
	popped := reprise.Cond{Buffer: results, Offset: t.workerIndex(at) * results.PageSize(), Is: cq.Equal, Value: 8 << 4}
	run := func(r *reprise.Recorder) error { return r.Run(x) }
	tr, err := t.rq.Capture(t.ctx, "loop", func(_ context.Context, r *reprise.Recorder) error {
		return errors.Join(run(r), r.While(popped, 1000, func() error { return run(r) }))
	})
	t.ok(err)
	t.closing(tr.Release)
	for _, n := range []uint32{3, 0, 5} {
		t.ok(tr.Replay(t.ctx))
		for i := range n {
			t.ok(in.Write(t.ctx, streamWordsOf(1, 10*n+i)))
			t.same(fmt.Sprintf("message %d of %d", i, n), streamWordsOf(0, 10*n+i), t.readStream(out))
		}
		t.ok(in.Close(t.ctx))
		t.readStream(out) // after the end
		t.ok(t.rq.Wait(t.ctx))
	}
}

func streamInAbortedLoop(t *fixture) {
	in, out := t.pair(256)
	x, _ := t.script(in, out, chip.Core{X: 2, Y: 1}, step{stepPush, 8, 1})
	tr, err := t.rq.Capture(t.ctx, "endless", func(_ context.Context, r *reprise.Recorder) error {
		return r.Loop(manyTimes, func() error { return r.Run(x) })
	})
	t.ok(err)
	t.closing(tr.Release)
	for range 2 {
		t.ok(tr.Replay(t.ctx))
		for range 20 { // more than the ring holds
			if got := t.readStream(out); len(got) != 8 {
				t.Errorf("a message of %d B, want 8", len(got))
			}
		}
		t.ok(out.Close(t.ctx))
		t.ended(1)
		t.ok(t.rq.Wait(t.ctx))
		t.ok(out.Reset(t.ctx))
	}
}

func streamSteps(t *fixture) {
	in, out := t.pair(256)
	const steps = 4
	var xs []*reprise.Executable
	for i := range steps {
		x, _ := t.script(in, out, chip.Core{X: i, Y: i % 2}, step{stepWords, uint32(i), 1})
		xs = append(xs, x)
	}
	tr := t.capture("steps", xs...)
	for replay := range t.size(6, 2) {
		t.ok(tr.Replay(t.ctx))
		word := uint32(100 * replay)
		for i := range steps {
			t.ok(in.Write(t.ctx, streamWordsOf(word)))
			word += uint32(i)
			t.same(fmt.Sprintf("step %d", i), streamWordsOf(word), t.readStream(out))
		}
	}
	t.ok(t.rq.Wait(t.ctx))
}

func streamHeld(t *fixture) {
	in, out := t.pair(256)
	x, _ := t.script(in, out, chip.Core{}, step{stepPush, 4, 1})
	tr := t.capture("held", x)
	held := func(what string) {
		t.Helper()
		err := out.Release(t.ctx)
		var e *dispatch.HeldError
		if !errors.As(err, &e) || !strings.Contains(err.Error(), what) {
			t.Errorf("released while a %s uses it: %v", what, err)
		}
	}
	held("program")
	t.ok(x.Release(t.ctx))
	held("trace")
	if err := tr.Save(t.ctx, io.Discard); !errors.Is(err, tracebuf.ErrHostMemory) {
		t.Errorf("save: %v, want %v", err, tracebuf.ErrHostMemory)
	}
	t.ok(tr.Replay(t.ctx))
	t.same("after all that", streamWordsOf(0), t.readStream(out))
	t.ok(tr.Release(t.ctx))
	t.ok(out.Release(t.ctx))
	if _, err := out.Read(t.ctx, nil); !errors.Is(err, reprise.ErrReleased) {
		t.Errorf("after Release: %v", err)
	}
	if err := out.Release(t.ctx); !errors.Is(err, reprise.ErrReleased) {
		t.Errorf("second Release: %v", err)
	}
}

func streamCancelled(t *fixture) {
	in, out := t.pair(128)
	x := t.echo(in, out, reprise.Kernel{Cores: []chip.Range{chip.Core{X: 1, Y: 1}.Range()}})
	t.ok(t.rq.Run(t.ctx, x))
	mine := errors.New("a cause of the caller's")
	for _, read := range []bool{true, false} {
		ctx, cancel := context.WithCancelCause(t.ctx)
		wait := make(chan error, 1)
		go func() {
			for {
				var err error
				if read {
					_, err = out.Read(ctx, make([]byte, 64))
				} else {
					err = in.Write(ctx, streamWordsOf(1)) // the rings and the kernel hold five
				}
				if err != nil {
					wait <- err
					return
				}
			}
		}()
		time.Sleep(10 * time.Millisecond)
		cancel(mine)
		if err := <-wait; !errors.Is(err, mine) {
			t.Errorf("error %v, want the context's cause", err)
		}
	}
	closed := t.beside(func() error { return in.Close(t.ctx) })
	for m, err := range out.Messages(t.ctx) {
		t.ok(err)
		t.same("a message from before", streamWordsOf(1), m)
	}
	closed()
	t.ok(t.rq.Wait(t.ctx))
}

func streamReleased(t *fixture) {
	_, out := t.pair(128)
	wait := make(chan error, 1)
	go func() {
		_, err := out.Read(t.ctx, nil)
		wait <- err
	}()
	time.Sleep(5 * time.Millisecond)
	t.ok(out.Release(t.ctx))
	if err := <-wait; !errors.Is(err, reprise.ErrReleased) {
		t.Errorf("error %v, want %v", err, reprise.ErrReleased)
	}
}

func streamRecover(t *fixture) {
	u := t.short()
	in, out := u.pair(256)
	at := chip.Core{X: 2, Y: 2}
	x := u.echo(in, out, reprise.Kernel{Cores: []chip.Range{at.Range()}})
	t.ok(u.rq.Run(u.ctx, x))
	t.ok(in.Write(u.ctx, streamWordsOf(1, 2)))
	t.same("before it hangs", streamWordsOf(1, 2), u.readStream(out))
	err := u.rq.Wait(u.ctx)
	var hang *dispatch.HangError
	if !errors.As(err, &hang) {
		t.Fatalf("error %v, want a *HangError", err)
	}
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
	if _, err := out.Read(u.ctx, nil); !errors.As(err, &hang) {
		t.Errorf("a read after the queue hung: %v", err)
	}
	t.ok(u.dev.Recover(u.ctx))
	if _, err := out.Read(u.ctx, nil); !errors.Is(err, stream.ErrStale) {
		t.Errorf("a read after the recovery: %v, want %v", err, stream.ErrStale)
	}
	if err := in.Write(u.ctx, nil); !errors.Is(err, stream.ErrStale) {
		t.Errorf("a write after the recovery: %v, want %v", err, stream.ErrStale)
	}
	var moved *stream.MovedError
	for _, s := range []*stream.Stream{in, out} {
		if err := s.Reset(u.ctx); err != nil && !errors.As(err, &moved) {
			t.Fatal(err)
		}
	}
	if moved != nil {
		t.Log(moved)
		t.ok(x.Release(u.ctx))
		x = u.echo(in, out, reprise.Kernel{Cores: []chip.Range{at.Range()}})
	}
	t.ok(u.rq.Run(u.ctx, x))
	u.echoAll(in, out, 1)
	t.ok(u.rq.Wait(u.ctx))
	t.ok(x.Release(u.ctx))
	t.ok(errors.Join(in.Release(u.ctx), out.Release(u.ctx)))
}
