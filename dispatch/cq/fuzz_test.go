package cq

import (
	"io"
	"testing"
)

// Whatever the bytes: each command is what it encodes to, commands tile the stream, and printers
// and checks agree with the decoder.
func FuzzWalk(f *testing.F) {
	for _, b := range goldenFiles(f) {
		f.Add(uint8(Blackhole), b)
	}
	for _, c := range examples {
		b := NewBuilder(c.l, nil)
		c.build(&b)
		f.Add(uint8(c.l), b.Bytes())
	}
	for id := range 32 {
		f.Add(uint8(Wormhole), append([]byte{byte(id), 0, 1, 0, 16, 0, 0, 0, 32}, make([]byte, 23)...))
	}
	f.Fuzz(func(t *testing.T, layout uint8, b []byte) {
		l, at, clean := Layout(layout), 0, true
		for e, err := range All(l, b) {
			if e.Offset != at || len(e.Raw) == 0 {
				t.Fatalf("%d bytes at %d, the one before ends at %d", len(e.Raw), e.Offset, at)
			}
			if l.Valid() {
				strict(t, l, b[at:])
			}
			at += len(e.Raw)
			clean = clean && err == nil
		}
		if at > len(b) {
			t.Fatalf("read up to %d of %d bytes", at, len(b))
		}
		if err := Print(io.Discard, l, b); (err == nil) != clean {
			t.Fatalf("printer says %v, clean is %v", err, clean)
		}
		if err := Dump(io.Discard, l, b); (err == nil) != clean {
			t.Fatalf("dump says %v, clean is %v", err, clean)
		}
		// A stream that passes the check has no error of its own.
		if err := Check(l, DefaultLimits(0), b); err == nil && !clean {
			t.Fatal("checked, but it does not decode")
		}
		_ = CheckTrace(l, DefaultLimits(64), b)
	})
}
