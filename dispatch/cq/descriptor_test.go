package cq

import (
	"bytes"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

var goNames = map[string]string{
	"mcast": "McastDests", "start": "StartPage", "log2_page": "LogPageSize", "memory": "DRAM", "unicasts": "NumUnicast",
	"RELAY_RINGBUFFER start": "Start",
}

func TestDescriptors(t *testing.T) {
	v := own()
	test := func(f *form, id uint8, fetch bool) {
		t.Run(fmt.Sprintf("%s_%d", f.name, id), func(t *testing.T) {
			if (f.prefetch != nil) != fetch || (f.dispatch != nil) == fetch {
				t.Fatal("no function makes the command")
			}
			if f.data == dataRelay || f.data == dataForward || f.data == dataCommands {
				return // TestAll has them
			}
			rapid.Check(t, func(t *rapid.T) {
				b := genForm(t, f, id, false)
				it := item{form: f, raw: b}
				must(t, it.measure())
				var c any
				if fetch {
					c = f.prefetch(&it, nil)
				} else {
					c = RelayInline{Master, f.dispatch(&it, nil)}
				}
				got, err := appendCommand(nil, Blackhole, c.(PrefetchCommand))
				must(t, err)
				if r, ok := c.(RelayInline); ok {
					c, got = r.Command, got[AtRelayed:AtRelayed+len(b)]
				} else {
					put(b, f.fields, "stride", uint64(len(got)))
					b = append(b, make([]byte, len(got)-len(b))...)
				}
				if !bytes.Equal(got, b) {
					t.Fatalf("encodes to other bytes\n% x\n% x", got, b)
				}
				sameFields(t, f, f.fields, it.raw, reflect.ValueOf(c))
				for _, name := range []string{"Subs", "Rects", "Targets"} {
					if l := reflect.ValueOf(c).FieldByName(name); l.IsValid() {
						for i := range l.Len() {
							sameFields(t, f, it.list.fields, it.entry(i), l.Index(i))
						}
					}
				}
			})
		})
	}
	for _, id := range ids(&v.prefetch) {
		test(v.prefetch.by(id), id, true)
	}
	for _, id := range ids(&v.dispatch) {
		test(v.dispatch.by(id), id, false)
	}
}

func sameFields(t *rapid.T, f *form, slots []slot, b []byte, c reflect.Value) {
	for _, s := range slots {
		name := strings.ReplaceAll(s.name, "_", "")
		if n := goNames[s.name]; n != "" {
			name = n
		}
		if n := goNames[f.name+" "+s.name]; n != "" {
			name = n
		}
		g := c.FieldByNameFunc(func(n string) bool { return strings.EqualFold(n, name) })
		var v uint64
		switch {
		case s.as == asPaged, s.as == asPacked, s.as == asBranch, s.name == "count" && !g.IsValid(), s.name == "total",
			s.name == "stride" && !g.IsValid(), f.data == dataSized && s.name == "size":
			continue
		case !g.IsValid():
			t.Fatalf("%s: no Go field for %s", f.name, s.name)
		case g.Kind() == reflect.Bool:
			v = bit(g.Bool())
		default:
			v = g.Uint()
		}
		if want := s.get(b); v != want {
			t.Fatalf("%s: %s is %#x in Go, %#x in the stream", f.name, s.name, v, want)
		}
	}
}

func TestUnknownCommand(t *testing.T) {
	v := own()
	for id := range 256 {
		b := make([]byte, 2*64)
		b[64] = byte(id)
		b[0] = byte(PrefetchTerminate)
		want := "at +0x40: "
		if v.prefetch.by(uint8(id)) != nil {
			copy(b[64:], []byte{byte(PrefetchRelayInline), 0, 0, 0, HeaderSize, 0, 0, 0, 64, 0, 0, 0, 0, 0, 0, 0, byte(id)})
			want = "at +0x50: "
			if v.dispatch.by(uint8(id)) != nil {
				continue
			}
		}
		err := Check(Blackhole, DefaultLimits(0), b)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("id %d: %v, want an error %s", id, err, want)
		}
	}
}

func TestReadDispatch(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := genDispatch(t, false, false)
		c, n := ReadDispatch(append(slices.Clone(b), genBytes(40).Draw(t, "after")...))
		if n != len(b) || c == nil || c.ID() != DispatchID(b[0]) {
			t.Fatalf("%v of %d bytes, want %v of %d", c, n, DispatchID(b[0]), len(b))
		}
	})
}
