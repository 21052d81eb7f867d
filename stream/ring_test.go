package stream

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"testing"

	"pgregory.net/rapid"
)

// memory is a stream's host memory.
type memory []byte

func (m memory) Load32(off int) uint32     { return binary.LittleEndian.Uint32(m[off:]) }
func (m memory) Store32(off int, v uint32) { binary.LittleEndian.PutUint32(m[off:], v) }

// kernel is the other end, as in kernels/include/reprise/stream.h.
type kernel struct {
	m         memory
	pos, peer uint32
	stopped   bool
}

func (k *kernel) open() {
	k.pos, k.peer = k.m.Load32(kernelLine), k.m.Load32(hostLine)
	k.stopped = k.m.Load32(hostLine+4) != 0
}

func (k *kernel) size() uint32 { return uint32(len(k.m) - ringAt) }

func (k *kernel) ask() { k.peer, k.stopped = k.m.Load32(hostLine), k.m.Load32(hostLine+4) != 0 }

func (k *kernel) at(pos uint32, p []byte, write bool) {
	for i := range p {
		b := &k.m[ringAt+int((pos+uint32(i))&(k.size()-1))]
		if write {
			*b = p[i]
		} else {
			p[i] = *b
		}
	}
}

// push is stream_try_push, and stream_close and stream_fail.
func (k *kernel) push(what kind, code uint32, p []byte) string {
	need := uint32(line)
	if len(p) > inline {
		need += uint32(len(p)+line-1) / line * line
	}
	if uint32(len(p)) > k.size()-line {
		return "too long"
	}
	if k.size()-(k.pos-k.peer) < need && !k.stopped {
		k.ask()
	}
	if k.stopped {
		return "stopped"
	}
	if k.size()-(k.pos-k.peer) < need {
		return "wait"
	}
	var head [16]byte
	for i, v := range []uint32{uint32(len(p)), uint32(what), code, k.pos} {
		binary.LittleEndian.PutUint32(head[4*i:], v)
	}
	k.at(k.pos, head[:], true)
	if len(p) <= inline {
		k.at(k.pos+16, p, true)
	} else {
		k.at(k.pos+line, p, true)
	}
	k.pos += need
	k.m.Store32(kernelLine, k.pos)
	return "ok"
}

// pop is stream_try_pop.
func (k *kernel) pop(most int) (string, []byte) {
	if k.peer == k.pos {
		if k.ask(); k.peer == k.pos {
			return "wait", nil
		}
	}
	head := make([]byte, 16)
	k.at(k.pos, head, false)
	n, what, code, at := word(head, 0), kind(word(head, 1)), word(head, 2), word(head, 3)
	if at != k.pos || n > k.size()-line {
		return "damaged", nil
	}
	next := func(n uint32) {
		k.pos += n
		k.m.Store32(kernelLine, k.pos)
	}
	switch {
	case what == end:
		next(line)
		return "end", nil
	case what == failure:
		next(line)
		return fmt.Sprintf("failed %d", code), nil
	case int(n) > most:
		return "too long", nil
	}
	p := make([]byte, n)
	if n <= inline {
		k.at(k.pos+16, p, false)
		next(line)
	} else {
		k.at(k.pos+line, p, false)
		next(line + (n+line-1)/line*line)
	}
	return "ok", p
}

type sent struct {
	what kind
	code uint32
	p    []byte
}

func (s *sent) lines() int {
	if len(s.p) > inline {
		return 1 + (len(s.p)+line-1)/line
	}
	return 1
}

func TestRingIsAQueue(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		size := 1 << rapid.IntRange(7, 12).Draw(r, "size")
		m := make(memory, ringAt+size)
		first := rapid.OneOf(rapid.Just(uint32(0)), rapid.Map(rapid.Uint32Range(1, 3*uint32(size)/line),
			func(n uint32) uint32 { return -n * line })).Draw(r, "first")
		host := ring{words: m, mem: m[ringAt:]}
		host.reset(first)
		k := &kernel{m: m}
		k.open()
		toHost := rapid.Bool().Draw(r, "to host")
		var queue []*sent
		free, stopped := size/line, false
		draw := func() *sent {
			s := &sent{what: rapid.SampledFrom([]kind{data, data, data, data, end, failure}).Draw(r, "kind"),
				code: rapid.Uint32().Draw(r, "code")}
			if s.what == data {
				s.p = rapid.SliceOfN(rapid.Byte(), 0, size).Draw(r, "message")
			}
			return s
		}
		steps := map[string]func(*rapid.T){
			"write": func(r *rapid.T) {
				s := draw()
				want := "ok"
				switch {
				case len(s.p) > size-line:
					want = "too long"
				case free < s.lines():
					want = "wait"
				}
				var got string
				if toHost {
					// The kernel knows of a host that has stopped when it next asks.
					if got = k.push(s.what, s.code, s.p); got == "stopped" && stopped {
						return
					}
				} else {
					ok, err := host.write(s.what, s.code, s.p)
					var long *SizeError
					var told *KernelError
					switch {
					case errors.As(err, &told) && told.Stopped && stopped:
						return
					case errors.As(err, &long) && long.Size == len(s.p):
						got = "too long"
					case err != nil:
						r.Fatal(err)
					case ok:
						got = "ok"
					default:
						got = "wait"
					}
				}
				if got != want && !(stopped && want != "ok") {
					r.Fatalf("%d B with %d lines free: %s, want %s", len(s.p), free, got, want)
				}
				if got == "ok" {
					queue, free = append(queue, s), free-s.lines()
				}
			},
			"read": func(r *rapid.T) {
				most := rapid.IntRange(0, size).Draw(r, "most")
				var got string
				var p []byte
				if toHost {
					buf := make([]byte, most)
					n, ok, err := host.read(buf)
					var long *SizeError
					var told *KernelError
					switch {
					case err == io.EOF:
						got = "end"
					case errors.As(err, &told):
						got = fmt.Sprintf("failed %d", told.Code)
					case errors.As(err, &long):
						got = "too long"
					case err != nil:
						r.Fatal(err)
					case ok:
						got, p = "ok", buf[:n]
					default:
						got = "wait"
					}
				} else {
					got, p = k.pop(most)
				}
				want := "wait"
				if len(queue) > 0 {
					switch s := queue[0]; {
					case s.what == end:
						want = "end"
					case s.what == failure:
						want = fmt.Sprintf("failed %d", s.code)
					case len(s.p) > most:
						want = "too long"
					case !bytes.Equal(s.p, p):
						r.Fatalf("%d B that were %d B when they were written", len(p), len(s.p))
					default:
						want = "ok"
					}
				}
				if got != want {
					r.Fatalf("%s, want %s", got, want)
				}
				if got != "wait" && got != "too long" {
					queue, free = queue[1:], free+queue[0].lines()
				}
			},
			"another kernel": func(*rapid.T) { k.open() },
			"stop": func(r *rapid.T) {
				if rapid.IntRange(0, 15).Draw(r, "stops") != 0 {
					return
				}
				stopped = true
				if toHost {
					host.stop()
				} else {
					m.Store32(kernelLine+codeWord, 5)
					m.Store32(kernelLine+stoppedWord, 1)
				}
			},
		}
		r.Repeat(steps)
	})
}

func FuzzRing(f *testing.F) {
	f.Add(uint32(64), uint32(0), []byte{4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 2, 3, 4})
	f.Add(^uint32(0)-63, ^uint32(0)-127, []byte{255, 255, 255, 255})
	f.Add(uint32(4096), uint32(0), []byte{200, 0, 0, 0})
	f.Fuzz(func(t *testing.T, peer, pos uint32, mem []byte) {
		m := make(memory, ringAt+256)
		copy(m[ringAt:], mem)
		host := ring{words: m, mem: m[ringAt:]}
		host.reset(pos &^ (line - 1))
		m.Store32(kernelLine, peer)
		p := make([]byte, 256)
		for range 8 {
			if n, _, err := host.read(p); n > host.longest() || err != nil {
				return
			}
		}
		_, _ = host.write(data, 0, p[:100])
	})
}
