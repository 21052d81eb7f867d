package link

import (
	"encoding/binary"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// A ring gives back what was put in, in order, however records fall at its end, also when the counters are about to
// pass 32 bits.
func TestRing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var head, tail uint64
		var words [4]uint32
		start := rapid.SampledFrom([]uint64{0, 8, 1<<32 - 64, 1<<63 - 8}).Draw(t, "start")
		head, tail = start, start
		r := Ring{Data: make([]byte, 512), Head: &head, Tail: &tail,
			Items: Gate{&words[0], &words[1]}, Space: Gate{&words[2], &words[3]}}
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
				op := rapid.SampledFrom([]uint8{OpWrite, OpRead, OpSync, OpDMAWrite}).Draw(t, "op")
				x := rec{op: op, device: rapid.Byte().Draw(t, "device"), addr: rapid.Uint64().Draw(t, "addr"), size: rapid.Uint32().Draw(t, "size")}
				n := 0
				if op == OpWrite || op == OpDMAWrite {
					x.payload = rapid.SliceOfN(rapid.Byte(), 1, 200).Draw(t, "payload")
					n = len(x.payload)
					x.size = uint32(n)
				}
				if !r.Free(n) {
					if len(queue) == 0 {
						t.Fatal("an empty ring has no space")
					}
					t.Skip("full")
				}
				copy(r.Slot(op, x.device, x.addr, x.size, n), x.payload)
				r.Publish(n)
				queue = append(queue, x)
			},
			"take": func(t *rapid.T) {
				got, ok := r.Next()
				if ok != (len(queue) > 0) {
					t.Fatalf("next says %t with %d records queued", ok, len(queue))
				}
				if !ok {
					return
				}
				want := queue[0]
				queue = queue[1:]
				if got.Op != want.op || got.Device != want.device || got.Addr != want.addr || got.Size != want.size ||
					string(got.Payload) != string(want.payload) {
					t.Fatalf("got %+v, want %+v", got, want)
				}
				r.Advance(got)
			},
		})
	})
}

// A signal between the waiter's look and its sleep isn't lost.
func TestGate(t *testing.T) {
	var words [2]uint32
	g := Gate{&words[0], &words[1]}
	ping, pong := make(chan int, 1), make(chan int, 1)
	go func() {
		for i := range ping {
			pong <- i
			g.Signal()
		}
	}()
	for i := range 2000 {
		ping <- i
		if !g.Wait(i%3, 20*time.Second, func() bool { return len(pong) > 0 }) {
			t.Fatalf("signal %d was lost", i)
		}
		<-pong
	}
	close(ping)
	if g.Wait(1, time.Millisecond, func() bool { return false }) {
		t.Error("a wait for nothing ended well")
	}
}

func TestSharedLayout(t *testing.T) {
	mem := make([]byte, sharedBytes)
	s := New(mem)
	if n := len(s.Requests.Data) + len(s.DMA.Data) + len(s.Reply) + len(s.DMAReply) + headerSize; n != sharedBytes {
		t.Errorf("parts have %d bytes, the whole %d", n, sharedBytes)
	}
	// A word at each place shows that no two share one.
	for i := range s.Reply {
		s.Reply[i], s.Requests.Data[i] = 1, 2
	}
	for _, p := range []*uint64{s.Revision, s.Clock, s.Requests.Head, s.Requests.Tail, s.DMA.Head, s.DMA.Tail} {
		if *p != 0 {
			t.Error("a word of the header lies in a ring")
		}
		*p = 1
	}
	for _, p := range []*uint32{s.Replies, s.Status, s.StatusLen, s.Manual, s.Replied.bell, s.Replied.asleep, s.Requests.Items.bell,
		s.Requests.Items.asleep, s.Requests.Space.bell, s.Requests.Space.asleep, s.DMA.Items.bell, s.DMA.Items.asleep,
		s.DMA.Space.bell, s.DMA.Space.asleep} {
		if *p != 0 {
			t.Error("two words of the header are one")
		}
		*p = 1
	}
	if binary.LittleEndian.Uint32(s.DMAReply) != 0 {
		t.Error("the DMA reply overlaps")
	}
}
