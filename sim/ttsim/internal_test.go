package ttsim

import (
	"encoding/binary"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func TestParseError(t *testing.T) {
	tests := []struct {
		name, output string
		want         *Error
	}{
		{"message", "[12] ERROR: UndefinedBehavior: pci_mem_rd_cur: paddr=0x0 size=4\n",
			&Error{Category: "UndefinedBehavior", Function: "pci_mem_rd_cur", Message: "paddr=0x0 size=4", Clock: 12, Status: 1}},
		{"no message", "[0] ERROR: UnsupportedFunctionality: libttsim_tile_rd_bytes\n",
			&Error{Category: "UnsupportedFunctionality", Function: "libttsim_tile_rd_bytes", Status: 1}},
		{"colons in the message", "[7] ERROR: UnimplementedFunctionality: f: bar0: offset=0x1\n",
			&Error{Category: "UnimplementedFunctionality", Function: "f", Message: "bar0: offset=0x1", Clock: 7, Status: 1}},
		{"after a program's output", "hello [1] world[90] ERROR: ConfigurationError: f: m\n",
			&Error{Category: "ConfigurationError", Function: "f", Message: "m", Clock: 90, Status: 1}},
		{"the end of a run", "[123] 0.5 seconds (1.0 MHz)\n", nil},
		{"empty", "", nil},
		{"no clock", "[x] ERROR: A: b: c\n", nil},
		{"no category", "[1] ERROR: what now\n", nil},
		{"only the marker", "] ERROR: ", nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, ok := parseError(tt.output)
			if ok != (tt.want != nil) {
				t.Fatalf("found=%t", ok)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("-want +got\n%s", diff)
			}
		})
	}
}

func FuzzParseError(f *testing.F) {
	f.Add("[12] ERROR: UndefinedBehavior: pci_mem_rd_cur: paddr=0x0 size=4\n")
	f.Add("] ERROR: : : ")
	f.Fuzz(func(t *testing.T, output string) {
		e, ok := parseError(output)
		if ok && (e.Category == "" || strings.Contains(e.Message, "\n")) {
			t.Errorf("%q gave %+v", output, e)
		}
	})
}

// A ring gives back what was put in, in order, however records fall at its end, also when the counters are about to
// pass 32 bits.
func TestRing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var head, tail uint64
		var words [4]uint32
		start := rapid.SampledFrom([]uint64{0, 8, 1<<32 - 64, 1<<63 - 8}).Draw(t, "start")
		head, tail = start, start
		r := ring{data: make([]byte, 512), head: &head, tail: &tail,
			items: gate{&words[0], &words[1]}, space: gate{&words[2], &words[3]}}
		type rec struct {
			op      uint8
			device  uint8
			addr    uint64
			size    uint32
			payload []byte
		}
		var queue []rec
		t.Repeat(map[string]func(*rapid.T){
			"put": func(t *rapid.T) {
				op := rapid.SampledFrom([]uint8{opWrite, opRead, opSync, opDMAWrite}).Draw(t, "op")
				x := rec{op: op, device: rapid.Byte().Draw(t, "device"), addr: rapid.Uint64().Draw(t, "addr"), size: rapid.Uint32().Draw(t, "size")}
				n := 0
				if op == opWrite || op == opDMAWrite {
					x.payload = rapid.SliceOfN(rapid.Byte(), 1, 200).Draw(t, "payload")
					n = len(x.payload)
					x.size = uint32(n)
				}
				if !r.free(n) {
					if len(queue) == 0 {
						t.Fatal("an empty ring has no space")
					}
					t.Skip("full")
				}
				copy(r.slot(op, x.device, x.addr, x.size, n), x.payload)
				r.publish(n)
				queue = append(queue, x)
			},
			"take": func(t *rapid.T) {
				got, ok := r.next()
				if ok != (len(queue) > 0) {
					t.Fatalf("next says %t with %d records queued", ok, len(queue))
				}
				if !ok {
					return
				}
				want := queue[0]
				queue = queue[1:]
				if got.op != want.op || got.device != want.device || got.addr != want.addr || got.size != want.size ||
					string(got.payload) != string(want.payload) {
					t.Fatalf("got %+v, want %+v", got, want)
				}
				r.advance(got)
			},
		})
	})
}

// Chunks stay within their limits, start small when the host is busy and grow when it isn't, and the device never
// stops: a rest is a bounded part of the time.
func TestPace(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var p pace
		cost := time.Duration(rapid.IntRange(50, 10_000).Draw(t, "ns per clock"))
		dmas := uint64(0)
		for range rapid.IntRange(1, 2000).Draw(t, "chunks") {
			requests := rapid.SampledFrom([]int{0, 0, 0, 0, 3}).Draw(t, "requests")
			n, rest := p.next(requests, dmas)
			if n < minClocks || n > maxClocks {
				t.Fatalf("chunk of %d", n)
			}
			if requests > 0 && n != minClocks {
				t.Fatalf("chunk of %d after a request, want %d", n, minClocks)
			}
			if rest > 3*p.last {
				t.Fatalf("rest of %v after %v", rest, p.last)
			}
			p.took(time.Duration(n) * cost)
		}
	})
}

func TestPaceQuiet(t *testing.T) {
	var p pace
	run := func(d time.Duration) (rest time.Duration) {
		for spent := time.Duration(0); spent < d; spent += p.last {
			var n uint32
			n, rest = p.next(0, p.dmas)
			p.took(time.Duration(n) * 100)
		}
		return rest
	}
	if rest := run(time.Second); rest != 0 {
		t.Errorf("rests %v after a second", rest)
	}
	if p.last < longChunk/2 || p.last > 2*longChunk {
		t.Errorf("a chunk of a quiet device takes %v, want about %v", p.last, longChunk)
	}
	if rest := run(4 * time.Second); rest != p.last {
		t.Errorf("rests %v after 5 s, want %v", rest, p.last)
	}
	if rest := run(15 * time.Second); rest != 3*p.last {
		t.Errorf("rests %v after 20 s, want %v", rest, 3*p.last)
	}
	if _, rest := p.next(0, p.dmas+1); rest != 0 {
		t.Errorf("rests %v after DMA", rest)
	}
}

// A signal between the waiter's look and its sleep isn't lost.
func TestGate(t *testing.T) {
	var words [2]uint32
	g := gate{&words[0], &words[1]}
	ping, pong := make(chan int, 1), make(chan int, 1)
	go func() {
		for i := range ping {
			pong <- i
			g.signal()
		}
	}()
	for i := range 2000 {
		ping <- i
		if !g.wait(i%3, 20*time.Second, func() bool { return len(pong) > 0 }) {
			t.Fatalf("signal %d was lost", i)
		}
		<-pong
	}
	close(ping)
	if g.wait(1, time.Millisecond, func() bool { return false }) {
		t.Error("a wait for nothing ended well")
	}
}

func TestLibraryErrorHasEverything(t *testing.T) {
	e := &LibraryError{Path: "x.so", Err: ErrMissingSymbol, Hint: "do this"}
	if got, want := e.Error(), `ttsim: library "x.so": an entry point of the ttsim API is missing; do this`; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	f := &Error{Category: "C", Function: "f", Message: "m", Clock: 5}
	if got, want := f.Error(), "ttsim: device stopped at clock 5: C: f: m"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestSharedLayout(t *testing.T) {
	mem := make([]byte, sharedBytes)
	s := newShared(mem)
	if n := len(s.requests.data) + len(s.dma.data) + len(s.reply) + len(s.dmaReply) + headerSize; n != sharedBytes {
		t.Errorf("parts have %d bytes, the whole %d", n, sharedBytes)
	}
	// A word at each place shows that no two share one.
	for i := range s.reply {
		s.reply[i], s.requests.data[i] = 1, 2
	}
	for _, p := range []*uint64{s.revision, s.clock, s.requests.head, s.requests.tail, s.dma.head, s.dma.tail} {
		if *p != 0 {
			t.Error("a word of the header lies in a ring")
		}
		*p = 1
	}
	for _, p := range []*uint32{s.replies, s.status, s.statusLen, s.manual, s.replied.bell, s.replied.asleep, s.requests.items.bell,
		s.requests.items.asleep, s.requests.space.bell, s.requests.space.asleep, s.dma.items.bell, s.dma.items.asleep,
		s.dma.space.bell, s.dma.space.asleep} {
		if *p != 0 {
			t.Error("two words of the header are one")
		}
		*p = 1
	}
	if binary.LittleEndian.Uint32(s.dmaReply) != 0 {
		t.Error("the DMA reply overlaps")
	}
}
