package session

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func sample(tb testing.TB) ([]byte, []Event) {
	tb.Helper()
	events := []Event{
		{Kind: KindOpen, Value: 2050},
		{Kind: KindIoctl, Request: 0xFA05, In: []byte{1, 2}, Data: []byte{3, 4}},
		{Kind: KindIoctl, Request: 0xFA07, In: []byte{1, 2}, Data: []byte{1, 2}, Errno: 12},
		{Kind: KindMmap, Off: 1 << 40, Size: 2 << 20, Text: "no luck"},
		{Kind: KindStore, Map: 1, Off: 8, Size: 4, Value: 1<<64 - 1, Host: []Delta{{Pin: 0, Off: 64, Data: []byte{9}}}, Device: []Delta{{Pin: 1, Off: 1, Data: []byte{1, 2}}, {Pin: 2, Off: 2, Data: []byte{3, 4}}}},
		{Kind: KindFault, Text: "stopped"},
		{Kind: KindClose},
	}
	var b bytes.Buffer
	w := newWriter(&b, "a card")
	for i := range events {
		w.event(&events[i])
	}
	if err := w.close(); err != nil {
		tb.Fatal(err)
	}
	return b.Bytes(), events
}

// A recording comes back as it was.
func TestFileRoundTrip(t *testing.T) {
	file, want := sample(t)
	s, err := Read(bytes.NewReader(file))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(&Session{Target: "a card", Events: want}, s); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// unpack and pack take the gzip stream out of a file and put it back.
func unpack(tb testing.TB, file []byte) []byte {
	tb.Helper()
	z, err := gzip.NewReader(bytes.NewReader(file[len(Magic)+4:]))
	if err != nil {
		tb.Fatal(err)
	}
	b, err := io.ReadAll(z)
	if err != nil {
		tb.Fatal(err)
	}
	return b
}

func pack(stream []byte) []byte {
	b := bytes.NewBuffer(binary.LittleEndian.AppendUint32([]byte(Magic), version))
	z := gzip.NewWriter(b)
	_, _ = z.Write(stream)
	_ = z.Close()
	return b.Bytes()
}

// A file that isn't whole is refused with the reason.
func TestReadRefuses(t *testing.T) {
	whole, _ := sample(t)
	stream := unpack(t, whole)
	flip := bytes.Clone(stream)
	flip[5] ^= 1 // in the target's name
	for _, tt := range []struct {
		name string
		file []byte
		is   error
		says string
	}{
		{"empty", nil, ErrNotSession, "doesn't begin with"},
		{"something else", bytes.Repeat([]byte("hello"), 9), ErrNotSession, "doesn't begin with"},
		{"another version", append([]byte(Magic), 9, 0, 0, 0), ErrVersion, "it is 9, this program reads 1"},
		{"no stream", whole[:len(Magic)+4], ErrDamaged, "unexpected EOF"},
		{"cut off", whole[:len(whole)/2], ErrDamaged, "unexpected EOF"},
		{"not closed", pack(stream[:len(stream)-40]), ErrDamaged, "unexpected EOF"},
		{"a flipped bit", pack(flip), ErrDamaged, "checksum"},
		{"more behind its end", pack(append(bytes.Clone(stream), 1)), ErrDamaged, "behind its end"},
		{"a blob that is not there", pack([]byte{byte(KindIoctl), 0, 0, 0, 0, 0, 0, 7, 0, 0, 0, 0, 0}), ErrDamaged, "blob 6, there are 0"},
		{"a blob that is too long", pack([]byte{byte(kindBlob), 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 1}), ErrDamaged, "more than"},
		{"an unknown record", pack([]byte{99}), ErrDamaged, "kind 99"},
		{"a list without end", pack([]byte{byte(KindLoad), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 1}), ErrDamaged, "pieces of memory"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s, err := Read(bytes.NewReader(tt.file))
			if s != nil || !errors.Is(err, tt.is) || !strings.Contains(err.Error(), tt.says) {
				t.Errorf("%v, want one that is %v and says %q", err, tt.is, tt.says)
			}
		})
	}
}

// What can be read is written the same way again, and printed; everything else is an error.
func FuzzRead(f *testing.F) {
	file, _ := sample(f)
	f.Add(unpack(f, file))
	f.Add([]byte{byte(kindEnd), 0})
	f.Fuzz(func(t *testing.T, stream []byte) {
		// The checksum is made right, as somebody would who means harm.
		if n := len(stream); n > 34 {
			o := newWriter(io.Discard, "")
			o.sum.Write(stream[:n-32])
			copy(stream[n-32:], o.sum.Sum(nil))
		}
		s, err := Read(bytes.NewReader(pack(stream)))
		if err != nil {
			return
		}
		if err := s.Print(io.Discard); err != nil {
			t.Error(err)
		}
		p := s.Player()
		fl, err := p.Node().Open(2050)
		if err != nil {
			return
		}
		_ = fl.Ioctl(0xFA05, []byte{1, 2})
		_ = fl.Ioctl(0xFA08, []byte{1, 2})
		_ = fl.Fault()
		_ = fl.Close()
	})
}

// All changes of memory are found, in pieces that lie close together.
func TestChanges(t *testing.T) {
	var m memory
	mem := make([]byte, 3*memoryBlock+8)
	m.add(&pin{mem: mem})
	m.add(&pin{va: 1, mem: make([]byte, 16)})
	for _, at := range []int{0, 20, 200, memoryBlock - 1, memoryBlock, 3*memoryBlock + 7} {
		mem[at] = 1
	}
	m.pins[1].mem[3] = 5
	type piece struct {
		Pin, Off uint64
		Size     int
	}
	var got []piece
	ds := m.changes()
	for _, d := range ds {
		got = append(got, piece{d.Pin, d.Off, len(d.Data)})
	}
	want := []piece{{0, 0, 24}, {0, 200, 8}, {0, memoryBlock - 8, 16}, {0, 3 * memoryBlock, 8}, {1, 0, 8}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if more := m.changes(); more != nil {
		t.Errorf("changes without a change: %v", more)
	}
	var n memory
	n.add(&pin{mem: make([]byte, len(mem))})
	n.add(&pin{va: 1, mem: make([]byte, 16)})
	if !n.apply(ds) || !bytes.Equal(n.pins[0].mem, mem) || n.changes() != nil {
		t.Error("changes that are applied don't give the same memory")
	}
	for _, d := range []Delta{{Pin: 2}, {Off: 1 << 63, Data: []byte{1}}, {Off: uint64(len(mem)), Data: []byte{1}}} {
		if n.apply([]Delta{d}) {
			t.Errorf("%v was applied", d)
		}
	}
}
