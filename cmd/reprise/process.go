package main

import (
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
)

// process says in messages which one of several processes this is, once that is known. Its nil pointer is the only one.
type process struct {
	name atomic.Pointer[string]
	quit func(error) // ends the process with an error at once; nil in tests
	said sync.Once
}

// last writes what a process says of its end, once: an end in order and quit can come at the same time.
func (p *process) last(write func()) {
	if p == nil {
		write()
		return
	}
	p.said.Do(write)
}

// set notes the number of the process.
func (p *process) set(rank, size int) {
	if p == nil || size < 2 {
		return
	}
	name := fmt.Sprintf("process %d of %d: ", rank, size)
	p.name.Store(&name)
}

// label puts the process in each line of a text, behind the command's name where a line begins with it.
func (p *process) label(text string) string {
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
