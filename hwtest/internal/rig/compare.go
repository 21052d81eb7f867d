package rig

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
)

// Same compares bytes and shows the first difference.
func (t *T) Same(what string, want, got []byte) {
	t.Helper()
	if d := Difference(want, got); d != "" {
		t.Errorf("%s: %s", what, d)
	}
}

// Difference describes where two pieces of memory differ; it is empty if they don't.
func Difference(want, got []byte) string {
	if bytes.Equal(want, got) {
		return ""
	}
	if len(want) != len(got) {
		return fmt.Sprintf("%d bytes, want %d", len(got), len(want))
	}
	first, last, n := -1, 0, 0
	for i := range want {
		if want[i] != got[i] {
			if first < 0 {
				first = i
			}
			last = i
			n++
		}
	}
	end := min(first+16, len(want))
	return fmt.Sprintf("%d of %d bytes differ, from %#x to %#x: first % x, want % x", n, len(want), first, last, got[first:end],
		want[first:end])
}

// Pattern returns n bytes that differ from those of another seed, and at any shift.
func Pattern(seed uint32, n int) []byte {
	b := make([]byte, n)
	x := seed*2654435761 + 1
	for i := range b {
		x ^= x << 13
		x ^= x >> 17
		x ^= x << 5
		b[i] = byte(x >> 8)
	}
	return b
}

// Word reads a word of a device's memory, which is little-endian.
func Word(b []byte) uint32 { return binary.LittleEndian.Uint32(b) }

// PutWord writes a word.
func PutWord(b []byte, v uint32) { binary.LittleEndian.PutUint32(b, v) }

// AppendWord appends a word.
func AppendWord(b []byte, v uint32) []byte { return binary.LittleEndian.AppendUint32(b, v) }

// Fails checks what kind of error a call has.
func (t *T) Fails(what string, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Errorf("%s: error %v, want %v", what, err, want)
	}
}

// Says checks that an error's text has parts, in their order.
func (t *T) Says(err error, parts ...string) {
	t.Helper()
	if err == nil {
		t.Errorf("no error, want one that says %q", parts)
		return
	}
	rest := err.Error()
	for _, p := range parts {
		_, after, ok := strings.Cut(rest, p)
		if !ok {
			t.Errorf("error %q doesn't say %q", err, p)
			return
		}
		rest = after
	}
}

// Error is the error of a call with two results.
func Error[A any](_ A, err error) error { return err }
