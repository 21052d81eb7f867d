package tracebuf

import (
	"bytes"
	"testing"

	"github.com/reprise-tt/reprise/dispatch/cq"
)

func TestBorrowedMemory(t *testing.T) {
	add := func(r *Recording, n int) {
		r.Reserve(n)
		r.Add("x", 0, func(dst []byte) ([]byte, uint8) { return append(dst, bytes.Repeat([]byte{byte(n)}, n)...), 0 })
	}
	mem := make([]byte, 8<<10)
	for _, n := range []int{64, 4096, 6000 &^ 63, 16 << 10} {
		own := NewRecording(cq.Blackhole)
		add(own, n)
		want, err := own.Finish(8)
		must(t, err)
		r := NewRecording(cq.Blackhole)
		r.Borrow(mem)
		add(r, n)
		got, err := r.Finish(8)
		must(t, err)
		into := NewRecording(cq.Blackhole)
		into.Borrow(mem)
		add(into, n)
		var im Image
		var given []byte
		same, err := into.FinishInto(&im, 8, func(n int) []byte {
			given = bytes.Repeat([]byte{0xEE}, n)
			return given
		})
		must(t, err)
		if copied := len(given) > 0; same != &im || !bytes.Equal(im.Bytes, want.Bytes) || copied != (n < 8<<10) || copied &&
			&im.Bytes[0] != &given[0] {
			t.Errorf("%d B: the image isn't where it was to be made", n)
		}
		back := r.Return()
		if len(back) != len(mem) || &back[0] != &mem[0] {
			t.Errorf("%d B: other memory came back", n)
		}
		for i := range back {
			back[i] = 0xAA
		}
		if !bytes.Equal(got.Bytes, want.Bytes) || got.Size != want.Size || got.PageSize != want.PageSize {
			t.Errorf("%d B: the trace isn't what one in memory of its own is", n)
		}
	}
	if NewRecording(cq.Blackhole).Return() != nil {
		t.Error("a recording that has borrowed nothing gave something back")
	}
}
