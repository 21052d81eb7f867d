package cli

import (
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
)

// Process says in messages which one of several processes this is, once that is known. Its nil pointer is the only one.
type Process struct {
	name atomic.Pointer[string]
	Quit func(error) // ends the process with an error at once; nil in tests
	said sync.Once
}

// Last writes what a process says of its end, once: an end in order and quit can come at the same time.
func (p *Process) Last(write func()) {
	if p == nil {
		write()
		return
	}
	p.said.Do(write)
}

// Set notes the number of the process.
func (p *Process) Set(rank, size int) {
	if p == nil || size < 2 {
		return
	}
	name := fmt.Sprintf("process %d of %d: ", rank, size)
	p.name.Store(&name)
}

// Label puts the process in each line of a text, behind the command's name where a line begins with it.
func (p *Process) Label(text string) string {
	if p == nil || p.name.Load() == nil {
		return text
	}
	var b strings.Builder
	for line := range strings.Lines(text) {
		rest, ok := strings.CutPrefix(line, "reprise: ")
		if ok {
			b.WriteString("reprise: ")
		}
		b.WriteString(*p.name.Load())
		b.WriteString(rest)
	}
	return b.String()
}
