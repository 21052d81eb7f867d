package session

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/reprise-tt/reprise/internal/expect"
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
		{Kind: KindDevice, At: 77, Value: 2, Device: []Delta{{Pin: 1, Data: []byte{1}}}},
		{Kind: KindClose},
	}
	var b bytes.Buffer
	w := newWriter(&b, "a card")
	for i := range events {
		w.event(&events[i])
	}
	expect.Must(tb, w.close())
	return b.Bytes(), events
}

func TestFileRoundTrip(t *testing.T) {
	file, want := sample(t)
	s := expect.Value(Read(bytes.NewReader(file)))(t)
	expect.NoDiff(t, s, &Session{Target: "a card", Events: want}, "s")
}

func TestRecordingThatIsTooLong(t *testing.T) {
	_, events := sample(t)
	pieces := []Event{events[0], events[1], {Kind: KindStore, Size: 4, Host: make([]Delta, 3), Device: make([]Delta, 3)}, events[7]}
	for _, tt := range []struct {
		name              string
		events            []Event
		most, bytes, want uint64
	}{
		{"whole", events, maxEvents, maxBytes, 8},
		{"as many as there may be", events, 8, maxBytes, 8},
		{"events", events, 5, maxBytes, 5},
		{"pieces", pieces, 5, maxBytes, 2},
		{"as many pieces as there may be", pieces, 6, maxBytes, 4},
		{"bytes", events, maxEvents, 300, 4},
	} {
		var b bytes.Buffer
		w := newWriter(&b, "a card")
		w.mostEvents, w.mostBytes = tt.most, tt.bytes
		for i := range tt.events {
			w.event(&tt.events[i])
		}
		if err := w.close(); errors.Is(err, ErrTooLong) != (tt.want < uint64(len(tt.events))) || err != nil && !errors.Is(err, ErrTooLong) {
			t.Errorf("%s: %v", tt.name, err)
		}
		s, err := Read(bytes.NewReader(b.Bytes()))
		if err != nil {
			t.Errorf("%s: %v", tt.name, err)
			continue
		}
		if n, size := uint64(len(s.Events)), uint64(len(unpack(t, b.Bytes()))); n != tt.want || size > tt.bytes {
			t.Errorf("%s: %d events in %d B, want %d in %d", tt.name, n, size, tt.want, tt.bytes)
		}
	}
}

func unpack(tb testing.TB, file []byte) []byte {
	tb.Helper()
	z, err := gzip.NewReader(bytes.NewReader(file[len(Magic)+4:]))
	expect.Must(tb, err)
	return expect.Value(io.ReadAll(z))(tb)
}

func pack(stream []byte) []byte {
	b := bytes.NewBuffer(binary.LittleEndian.AppendUint32([]byte(Magic), version))
	z := gzip.NewWriter(b)
	_, _ = z.Write(stream)
	_ = z.Close()
	return b.Bytes()
}

func TestReadRefuses(t *testing.T) {
	whole, _ := sample(t)
	stream := unpack(t, whole)
	flip := bytes.Clone(stream)
	flip[5] ^= 1 // in the target's name
	fewer := bytes.Clone(stream)
	fewer[len(fewer)-sha256.Size-1]--
	for _, tt := range []struct {
		name string
		file []byte
		is   error
		says string
	}{
		{"empty", nil, ErrNotSession, "doesn't begin with"},
		{"something else", bytes.Repeat([]byte("hello"), 9), ErrNotSession, "doesn't begin with"},
		{"another version", append([]byte(Magic), 9, 0, 0, 0), ErrVersion, "it is 9, this program reads 3"},
		{"no stream", whole[:len(Magic)+4], ErrDamaged, "unexpected EOF"},
		{"cut off", whole[:len(whole)/2], ErrDamaged, "unexpected EOF"},
		{"not closed", pack(stream[:len(stream)-40]), ErrDamaged, "unexpected EOF"},
		{"a flipped bit", pack(flip), ErrDamaged, "checksum is wrong"},
		{"another number of events", pack(fewer), ErrDamaged, "and says that it has"},
		{"more after its end", pack(append(bytes.Clone(stream), 1)), ErrDamaged, "after its end"},
		{"a blob that is not there", pack([]byte{byte(KindIoctl), 0, 0, 0, 0, 0, 0, 0, 0, 7, 0, 0, 0, 0, 0}), ErrDamaged, "blob 6, there are 0"},
		{"a blob that is too long", pack([]byte{byte(kindBlob), 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 1}), ErrDamaged, "more than"},
		{"an unknown record", pack([]byte{99}), ErrDamaged, "kind 99"},
		{"a list without end", pack([]byte{byte(KindLoad), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 1}), ErrDamaged, "pieces of memory"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s, err := Read(bytes.NewReader(tt.file))
			if s != nil || !errors.Is(err, tt.is) || !strings.Contains(err.Error(), tt.says) {
				t.Errorf("%v, want one that is %v and says %q", err, tt.is, tt.says)
			}
		})
	}
}

func FuzzRead(f *testing.F) {
	file, _ := sample(f)
	f.Add(unpack(f, file))
	f.Add([]byte{byte(kindEnd), 0})
	f.Fuzz(func(t *testing.T, stream []byte) {
		// The checksum is corrected, as an attacker would.
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
		_ = fl.Ioctl(0xFA0B, make([]byte, 48))
		_ = fl.Ioctl(0xFA0D, make([]byte, 40))
		if m, err := fl.Mmap(1<<40, 2<<20); err == nil {
			_ = m.IO.Load(0, 4)
			m.IO.Store(8, 4, 1<<64-1)
			m.IO.Read(0, make([]byte, 8))
			m.IO.Write(0, make([]byte, 8))
			_ = m.Unmap()
		}
		_ = fl.Fault()
		_ = fl.Close()
		p.quiet.Stop()
	})
}

func TestChanges(t *testing.T) {
	var m memory
	mem := make([]byte, 3*memoryBlock+8)
	a, b := newRegion(mem, make([]byte, len(mem))), newRegion(make([]byte, 16), make([]byte, 16))
	m.add(&pin{va: 8}, a)
	m.add(&pin{va: 1}, b)
	for _, at := range []int{0, 20, 200, memoryBlock - 1, memoryBlock, 3*memoryBlock + 7} {
		mem[at] = 1
	}
	b.host[3] = 5
	type piece struct {
		Pin, Off uint64
		Size     int
	}
	var got []piece
	ds := m.fromHost()
	for _, d := range ds {
		got = append(got, piece{d.Pin, d.Off, len(d.Data)})
	}
	want := []piece{{0, 0, 4}, {0, 20, 4}, {0, 200, 4}, {0, memoryBlock - 4, 8}, {0, 3*memoryBlock + 4, 4}, {1, 0, 4}}
	expect.NoDiff(t, got, want, "got")
	if more := m.fromHost(); more != nil {
		t.Errorf("changes without a change: %v", more)
	}
	if !bytes.Equal(a.device, mem) || m.fromDevice() != nil {
		t.Error("the device has something else than the host")
	}
	var n memory
	n.add(&pin{va: 8}, newRegion(make([]byte, len(mem)), nil))
	n.add(&pin{va: 1}, newRegion(make([]byte, 16), nil))
	if !n.show(ds, true) || !bytes.Equal(n.regions[0].host, mem) || n.fromHost() != nil {
		t.Error("changes that are applied don't give the same memory")
	}
	for _, d := range []Delta{{Pin: 2}, {Off: 1 << 63, Data: []byte{1}}, {Off: uint64(len(mem)), Data: []byte{1}}} {
		if n.show([]Delta{d}, true) {
			t.Errorf("%v was applied", d)
		}
	}
	b.device[8], b.host[12] = 7, 9
	if ds := m.fromDevice(); len(ds) != 1 || ds[0].Pin != 1 || ds[0].Off != 8 || b.host[8] != 7 || b.host[12] != 9 {
		t.Errorf("the device's write: %v, the host has %x", ds, b.host)
	}
	if ds := m.fromHost(); len(ds) != 1 || ds[0].Off != 12 || b.device[12] != 9 {
		t.Errorf("the host's write: %v, the device has %x", ds, b.device)
	}
}
