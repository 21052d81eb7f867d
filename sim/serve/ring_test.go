package serve

import (
	"encoding/binary"
	"errors"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestRing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var head, tail uint64
		var words [4]uint32
		start := rapid.SampledFrom([]uint64{0, 8, 1<<32 - 64, 1<<63 - 8}).Draw(t, "start")
		head, tail = start, start
		r := Ring{data: make([]byte, 512), head: &head, tail: &tail,
			items: Gate{&words[0], &words[1]}, space: Gate{&words[2], &words[3]}}
		type message struct {
			Head
			payload string
		}
		var queue []message
		t.Repeat(map[string]func(*rapid.T){
			"put": func(t *rapid.T) {
				payload := rapid.SliceOfN(rapid.Byte(), 0, 200).Draw(t, "payload")
				m := message{drawHead(t, len(payload)), string(payload)}
				if !r.Free(len(payload)) {
					if len(queue) == 0 {
						t.Fatal("an empty ring has no space")
					}
					t.Skip("full")
				}
				copy(r.Slot(&m.Head), payload)
				r.Publish(len(payload))
				queue = append(queue, m)
			},
			"take": func(t *rapid.T) {
				var got Record
				ok, err := r.Next(&got)
				if ok != (len(queue) > 0) || err != nil {
					t.Fatalf("next says %t, %v with %d messages queued", ok, err, len(queue))
				}
				if !ok {
					return
				}
				want := queue[0]
				queue = queue[1:]
				if got.Head != want.Head || string(got.Payload) != want.payload || binary.LittleEndian.Uint64(got.Value) != want.Val {
					t.Fatalf("got %+v, want %+v", got, want)
				}
				r.Advance(&got)
			},
		})
	})
}

func drawHead(t *rapid.T, payload int) Head {
	return Head{Op: Op(rapid.Uint8Min(1).Draw(t, "op")), Width: rapid.Byte().Draw(t, "width"),
		Status: Status(rapid.Byte().Draw(t, "status")), Kind: rapid.Byte().Draw(t, "kind"), Object: rapid.Uint32().Draw(t, "object"),
		Size: uint32(payload), Off: rapid.Uint64().Draw(t, "off"), Val: rapid.Uint64().Draw(t, "val")}
}

func FuzzRing(f *testing.F) {
	h := Head{Op: OpWrite, Size: 5}
	b := make([]byte, HeadSize+8)
	h.Put(b)
	f.Add(uint64(0), uint64(len(b)), b)
	f.Add(uint64(504), uint64(512), []byte{0})
	f.Add(uint64(488), uint64(520), b)
	f.Add(uint64(3), uint64(0), b)
	h.Size = 1<<32 - 1
	h.Put(b)
	f.Add(uint64(0), uint64(512), b)
	f.Fuzz(func(t *testing.T, head, tail uint64, data []byte) {
		var words [4]uint32
		r := Ring{data: make([]byte, 512), head: &head, tail: &tail,
			items: Gate{&words[0], &words[1]}, space: Gate{&words[2], &words[3]}}
		for i := 0; i < len(data) && i < len(r.data); i++ {
			r.data[(head+uint64(i))%512] = data[i]
		}
		for queued := tail - head; ; {
			var rec Record
			ok, err := r.Next(&rec)
			if err != nil && !errors.Is(err, ErrProtocol) {
				t.Fatal(err)
			}
			if !ok {
				return
			}
			if len(rec.Payload) != int(rec.Size) || rec.length > queued {
				t.Fatalf("a message of %d bytes, %d are queued", rec.length, queued)
			}
			r.Advance(&rec)
			if left := tail - head; left >= queued {
				t.Fatalf("%d bytes are queued, %d were", left, queued)
			} else {
				queued = left
			}
		}
	})
}

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
