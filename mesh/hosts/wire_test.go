package hosts

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// FuzzDecode checks that accepted messages encode to the same bytes.
func FuzzDecode(f *testing.F) {
	f.Add([]byte{})
	f.Add(encode([]part{{0, []byte("join"), []byte{1, 2, 3}}, {511, nil, nil}}))
	f.Add([]byte{1, 200})
	f.Add([]byte{1, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1, 0})
	f.Fuzz(func(t *testing.T, b []byte) {
		parts, err := decode(b)
		if err != nil {
			return
		}
		again, err := decode(encode(parts))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(parts, again, cmp.AllowUnexported(part{}), cmpopts.EquateEmpty()); diff != "" {
			t.Error(diff)
		}
	})
}

// A message that ends within a part is refused.
func TestDecodeOfACutMessage(t *testing.T) {
	whole := encode([]part{{3, []byte("replay"), []byte("data")}})
	for n := 1; n < len(whole); n++ {
		if _, err := decode(whole[:n]); err == nil {
			t.Errorf("%d of %d bytes were accepted", n, len(whole))
		}
	}
}
