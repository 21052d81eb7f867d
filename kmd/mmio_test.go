package kmd

import (
	"bytes"
	"encoding/binary"
	"testing"

	"golang.org/x/sys/unix"

	"pgregory.net/rapid"

	"github.com/reprise-tt/reprise/internal/expect"
)

func guarded(t *testing.T, n int) []byte {
	t.Helper()
	page := int(hostPage())
	size := (n + page - 1) &^ (page - 1)
	b := value(unix.Mmap(-1, 0, size+page, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE))(t)
	t.Cleanup(func() { _ = unix.Munmap(b) })
	must(t, unix.Mprotect(b[size:], unix.PROT_NONE))
	return b[size-n : size : size]
}

func TestLoadsAndStores(t *testing.T) {
	for off := uint64(0); off < 64; off += 8 {
		mem := guarded(t, 64)
		d := deviceMemoryOf(mem)
		const v = 0x1122334455667788
		for _, tt := range []struct {
			width int
			store func()
			load  func() uint64
			want  uint64
		}{
			{1, func() { store8(d.at(off), uint8(v&0xFF)) }, func() uint64 { return uint64(load8(d.at(off))) }, v & 0xFF},
			{2, func() { store16(d.at(off), uint16(v&0xFFFF)) }, func() uint64 { return uint64(load16(d.at(off))) }, v & 0xFFFF},
			{4, func() { store32(d.at(off), uint32(v&0xFFFFFFFF)) }, func() uint64 { return uint64(load32(d.at(off))) }, v & 0xFFFFFFFF},
			{8, func() { store64(d.at(off), v) }, func() uint64 { return load64(d.at(off)) }, v},
		} {
			for i := range mem {
				mem[i] = 0xA5
			}
			want := bytes.Clone(mem)
			var b [8]byte
			binary.LittleEndian.PutUint64(b[:], v)
			copy(want[off:], b[:tt.width])
			tt.store()
			if !bytes.Equal(mem, want) {
				t.Errorf("store of %d bytes at %d: %x", tt.width, off, mem)
			}
			if got := tt.load(); got != tt.want {
				t.Errorf("load of %d bytes at %d: %#x", tt.width, off, got)
			}
		}
	}
	fence() // has no result to look at; it must be an instruction that this processor has
}

func TestBulkCopies(t *testing.T) {
	const size = 1 << 10
	mem := guarded(t, size)
	source := guarded(t, size)
	rapid.Check(t, func(t *rapid.T) {
		d := deviceMemoryOf(mem)
		off := rapid.IntRange(0, size).Draw(t, "offset")
		n := rapid.IntRange(0, size-off).Draw(t, "length")
		skew := rapid.IntRange(0, size-n).Draw(t, "skew")
		seed := rapid.Byte().Draw(t, "seed")
		for i := range mem {
			mem[i] = byte(i)*3 + seed
			source[i] = byte(i)*7 - seed
		}
		want := bytes.Clone(mem)
		p := source[skew:][:n]
		copy(want[off:], p)
		d.write(uint64(off), p)
		if !bytes.Equal(mem, want) {
			t.Fatalf("write of %d bytes at %d from +%d is wrong", n, off, skew)
		}
		clear(source)
		d.read(uint64(off), p)
		if !bytes.Equal(p, want[off:][:n]) {
			t.Fatalf("read of %d bytes at %d to +%d is wrong", n, off, skew)
		}
		if !bytes.Equal(mem, want) {
			t.Fatal("a read changed device memory")
		}
		if i := bytes.IndexFunc(source[:skew], func(r rune) bool { return r != 0 }); i >= 0 {
			t.Fatalf("read to +%d stored at %d", skew, i)
		}
	})
}

func BenchmarkStore32(b *testing.B) {
	mem := make([]byte, 64)
	d := deviceMemoryOf(mem)
	for b.Loop() {
		store32(d.at(0), 1)
	}
}

func BenchmarkBulkCopy4KiB(b *testing.B) {
	mem, src := make([]byte, 4096), make([]byte, 4096)
	d := deviceMemoryOf(mem)
	b.SetBytes(4096)
	for b.Loop() {
		d.write(0, src)
	}
}

var must = expect.Must

func value[V any](v V, err error) func(expect.TB) V { return expect.Value(v, err) }
