package usage

import (
	"encoding/binary"
	"math"
	"strings"
	"testing"
	"time"
	"unicode"

	"pgregory.net/rapid"

	"github.com/reprise-tt/reprise/allocator"
	"github.com/reprise-tt/reprise/internal/expect"
)

var (
	fails  = expect.Fails
	must   = expect.Must
	noDiff = expect.NoDiff
)

func second[V any](_ V, err error) error { return err }

func encoded(e *Entry) []byte {
	b := make([]byte, Size)
	e.encode(b)
	binary.LittleEndian.PutUint64(b, magic)
	return b
}

func TestDecodeRefuses(t *testing.T) {
	good := Entry{PID: 7}
	for _, c := range []struct {
		name   string
		change func([]byte) []byte
		says   string
	}{
		{"nothing", func([]byte) []byte { return nil }, "0 B"},
		{"a short file", func(b []byte) []byte { return b[:Size-1] }, "4095 B"},
		{"a long file", func(b []byte) []byte { return append(b, 0) }, "4097 B"},
		{"another file", func(b []byte) []byte { b[0]++; return b }, "starts with"},
		{"a newer version", func(b []byte) []byte { b[8]++; return b }, "version 2"},
		{"another size", func(b []byte) []byte { b[12]++; return b }, "of 4097 B"},
		{"no process", func(b []byte) []byte { b[16] = 0; return b }, "process 0"},
		{"a process that can't be", func(b []byte) []byte { b[19] = 0xFF; return b }, "process 42781"},
	} {
		expect.Says(t, second(Decode(c.change(encoded(&good)))), ErrFormat, c.says)
	}
}

func TestTextIsPrintable(t *testing.T) {
	for _, c := range []struct{ in, want string }{
		{"train.py", "train.py"},
		{"\x1b[2Jclear", "?[2Jclear"},
		{"two\nlines", "two?lines"},
		{"zero\x00rest", "zero"},
		{"größe", "größe"},
		{"\u202eright to left", "?right to left"},
		{strings.Repeat("x", 63) + "ö", strings.Repeat("x", 63)}, // a character that doesn't fit
		{strings.Repeat("x", 100), strings.Repeat("x", 64)},
		{"\xff\xffend", "??end"},
	} {
		e, err := Decode(encoded(&Entry{PID: 1, Command: c.in}))
		must(t, err)
		expect.Equal(t, e.Command, c.want, "%q became", c.in)
	}
}

func TestHeaderRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		name := func(n int) *rapid.Generator[string] {
			return rapid.StringMatching("[ -~]{0," + map[int]string{31: "31", 63: "63"}[n] + "}")
		}
		in := Entry{
			PID: rapid.IntRange(1, 1<<30).Draw(t, "pid"), Start: rapid.Uint64().Draw(t, "start"), Namespace: rapid.Uint64().Draw(t, "namespace"),
			Opened: time.Unix(0, rapid.Int64().Draw(t, "opened")), Command: name(63).Draw(t, "command"),
			Device: Device{
				Name: name(63).Draw(t, "name"), PCI: name(31).Draw(t, "pci"), Serial: name(31).Draw(t, "serial"), Arch: name(31).Draw(t, "arch"),
				NUMANode: int(rapid.Int32().Draw(t, "numa")), Emulated: rapid.Bool().Draw(t, "emulated"),
			},
		}
		out := expect.Value(Decode(encoded(&in)))(t)
		expect.NoDiff(t, out, &in, "read again")
	})
}

func FuzzDecode(f *testing.F) {
	f.Add(encoded(&Entry{PID: 1, Command: "a\xff", Device: Device{NUMANode: math.MinInt32}}), uint16(atRecords), uint64(3))
	f.Add(make([]byte, Size), uint16(0), uint64(magic))
	f.Fuzz(func(t *testing.T, b []byte, at uint16, v uint64) {
		if len(b) >= 8 {
			binary.LittleEndian.PutUint64(b[int(at)%(len(b)-7):], v)
		}
		e, err := Decode(b)
		if err != nil {
			expect.Fails(t, err, ErrFormat, "error")
			return
		}
		for _, s := range []string{e.Command, e.Device.Name, e.Device.PCI, e.Device.Serial, e.Device.Arch} {
			if i := strings.IndexFunc(s, func(r rune) bool { return !unicode.IsPrint(r) }); i >= 0 {
				t.Errorf("text %q isn't printable", s)
			}
		}
		if e.PID <= 0 || len(e.Memory) > len(allocator.Kinds()) {
			t.Errorf("decoded %+v", e)
		}
	})
}
