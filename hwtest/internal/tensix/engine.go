package tensix

import (
	"bytes"
	"compress/flate"
	_ "embed"
	"encoding/gob"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/hwtest/rig"
)

// Key names a result.
type Key struct {
	Case string
	Run  int
	Arch chip.Arch
}

// Entry is a result in the archive: the output, and the loads of each thread. Equal results of both
// architectures are one entry.
type Entry struct {
	Case string
	Run  int
	On   []chip.Arch
	By   string // what the result was recorded from
	Data []byte // deflated; the input is the dictionary
}

//go:embed vectors/golden.bin
var archive []byte

// Golden reads the archive once.
var Golden = sync.OnceValues(func() (map[Key]*Entry, error) {
	m := map[Key]*Entry{}
	var list []Entry
	err := gob.NewDecoder(flate.NewReader(bytes.NewReader(archive))).Decode(&list)
	for i, e := range list {
		for _, a := range e.On {
			m[Key{e.Case, e.Run, a}] = &list[i]
		}
	}
	return m, err
})

// recorded returns a result, and what it was recorded from.
func recorded(k Key, input []byte) (data []byte, by string, err error) {
	g, err := Golden()
	if err != nil {
		return nil, "", fmt.Errorf("hwtest: vectors/golden.bin: %w", err)
	}
	e, ok := g[k]
	if !ok {
		return nil, "", fmt.Errorf("hwtest: run %d of this case has no recorded result on %v: record it by -update", k.Run, k.Arch)
	}
	data, err = io.ReadAll(flate.NewReaderDict(bytes.NewReader(e.Data), input))
	if err != nil {
		return nil, "", fmt.Errorf("hwtest: recorded result of run %d: %w", k.Run, err)
	}
	return data, e.By, nil
}

// Sizes in bytes of a run's buffers in L1.
const (
	scriptBytes = 0x4000 // of each thread
	logBytes    = 0x400  // of each thread
	engineBytes = 0x10000
)

const engineQueue = 128 // instructions pushed before a wait for the engines: ttsim stops at 512

const unwritten = 0xA5

// Cases returns the cases, instruction by instruction.
func Cases() rig.Table {
	var cs rig.Table
	s, err := load()
	if err != nil {
		cs.Add("vectors", "the vectors can be read", func(t *rig.T) { t.Fatal(err) })
		return cs
	}
	for _, v := range s.vectors {
		cs.Add(v.name, v.protects, func(t *rig.T) { s.run(t, v) })
	}
	return cs
}

// run executes each run of a vector, and compares the output and what the cores have loaded with
// what is recorded.
func (s *suite) run(t *rig.T, v *vector) {
	t.Helper()
	one := func(n int) *reprise.Buffer { return t.L1Buffer(n, n) }
	scripts, in, out := one(3*(scriptBytes+logBytes)), one(engineBytes), one(engineBytes)
	a := &assembler{suite: s, arch: t.Dev.Arch(), rnd: rig.Random(v.name), in: in.Addr(), out: out.Addr()}
	runs, err := a.assemble(v)
	if errors.Is(err, errOtherArch) {
		t.Skipf("only %s has this", a.only)
	}
	t.OK(err)
	if len(runs) == 0 {
		t.Fatalf("%s: the case has no instructions", v.pos)
	}
	p := &reprise.Program{Name: "engines", Buffers: []*reprise.Buffer{scripts, in, out}}
	for i, core := range rig.Processors()[chip.TRISC0:] {
		script := scripts.Addr() + uint32(i*(scriptBytes+logBytes))
		name, args := "engine", rig.Args(script, script+scriptBytes, engineQueue)
		if k := runs[0].kernel; k != "" {
			name, args = k, rig.Args(out.Addr()+uint32(32*i), runs[0].number)
		}
		p.Kernels = append(p.Kernels, reprise.Kernel{Name: name, Image: t.Own(name), Processor: core, Cores: []chip.Range{{}}, Args: args})
	}
	program := t.Load(p)
	for i, r := range runs {
		memory := r.memory()
		t.Write(scripts, memory)
		if len(r.input) > 0 {
			t.Write(in, r.input)
		}
		if len(r.output) > 0 {
			t.Write(out, r.output)
		}
		t.Start(program)
		t.OK(t.Queue.Read(t.Ctx, scripts, 0, memory))
		result := bytes.Clone(r.output)
		if len(result) > 0 {
			t.OK(t.Queue.Read(t.Ctx, out, 0, result))
		}
		for thread, loads := range r.loads {
			result = append(result, memory[thread*(scriptBytes+logBytes)+scriptBytes:][:4*len(loads)]...)
		}
		r.compare(t, v, i, result)
	}
}

func (p *program) fits() error {
	for i, words := range p.scripts {
		if 4*len(words)+4 > scriptBytes || 4*len(p.loads[i]) > logBytes {
			return fmt.Errorf("script of %d words with %d loads: there is room for %d and %d",
				len(words), len(p.loads[i]), scriptBytes/4-1, logBytes/4)
		}
	}
	return nil
}

// memory is the scripts and logs of all threads.
func (p *program) memory() []byte {
	memory := make([]byte, 3*(scriptBytes+logBytes))
	for i, words := range p.scripts {
		at := memory[i*(scriptBytes+logBytes):]
		rig.PutWord(at, uint32(len(words)))
		for j, w := range words {
			rig.PutWord(at[4+4*j:], w)
		}
	}
	return memory
}

// compare compares a run's result, the output and the loads, with the recorded one; or records it.
func (p *program) compare(t *rig.T, v *vector, run int, result []byte) {
	t.Helper()
	if t.Config.Record != nil {
		if n := len(p.output); n > 0 && !p.plain && bytes.Count(result[:n], result[:1]) == n {
			t.Errorf("%s: run %d: every byte of the output is %#x, which says nothing: if it should be, say plain", p.pos, run, result[0])
		}
		t.Config.Record(t.Device, t.Dev.Arch(), v.name, run, p.input, result)
		return
	}
	want, by, err := recorded(Key{v.name, run, t.Dev.Arch()}, p.input)
	t.OK(err)
	what := fmt.Sprintf("%s: run %d, recorded from %s", p.pos, run, by)
	if len(want) != len(result) {
		t.Fatalf("%s: a result of %d bytes, want %d: record it by -update", what, len(result), len(want))
	}
	n := len(p.output)
	t.Same(want[:n], result[:n], "%s: output", what)
	for thread, loads := range p.loads {
		for i, pos := range loads {
			rig.Equal(t, rig.Word(result[n:]), rig.Word(want[n:]), "%s: load %d of thread %d (%s)", what, i, thread, pos)
			n += 4
		}
	}
}
