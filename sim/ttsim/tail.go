package ttsim

import (
	"bytes"
	"io"
	"sync"
)

// tail keeps the last of what was written to it.
type tail struct {
	mu   sync.Mutex
	buf  bytes.Buffer
	also io.Writer
}

const tailBytes = 64 << 10

func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.buf.Write(p)
	if n := t.buf.Len() - tailBytes; n > 0 {
		t.buf.Next(n)
	}
	if t.also != nil {
		t.also.Write(p)
	}
	return len(p), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.buf.String()
}
