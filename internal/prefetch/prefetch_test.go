package prefetch_test

import (
	"bytes"
	"testing"

	"github.com/reprise-tt/reprise/internal/prefetch"
)

// A prefetch may reach beyond allocated or mapped memory.
func TestWriteIsAHint(t *testing.T) {
	p := bytes.Repeat([]byte{0xA5}, 2*prefetch.Bytes)
	want := bytes.Clone(p)
	for i := range p {
		prefetch.Write(&p[i])
	}
	if !bytes.Equal(p, want) {
		t.Error("memory has changed")
	}
	prefetch.Write[byte](nil)
}
