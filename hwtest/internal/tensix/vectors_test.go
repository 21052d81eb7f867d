package tensix

import (
	"errors"
	"testing"

	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/hwtest/rig"
	"github.com/reprise-tt/reprise/internal/expect"
)

func (s *suite) assembled(v *vector, arch chip.Arch) ([]*program, error) {
	return (&assembler{suite: s, arch: arch, rnd: rig.Random(v.name)}).assemble(v)
}

func TestRecordedResults(t *testing.T) {
	s := expect.Value(load())(t)
	n := 0
	for _, v := range s.vectors {
		for arch := chip.Wormhole; arch <= chip.Blackhole; arch++ {
			runs, err := s.assembled(v, arch)
			if errors.Is(err, errOtherArch) {
				continue
			}
			if err != nil || len(runs) == 0 {
				t.Errorf("%v: %s: %v", arch, v.name, err)
			}
			for i, r := range runs {
				want, by, err := recorded(Key{v.name, i, arch}, r.input)
				if size := r.resultSize(); err != nil || len(want) != size || by != "ttsim" {
					t.Errorf("%v: %s: run %d: %d bytes from %s, want %d: %v", arch, v.name, i, len(want), by, size, err)
				}
				n++
			}
		}
	}
	if m, _ := Golden(); len(m) != n {
		t.Errorf("%d results are recorded, want %d", len(m), n)
	}
}

// Bodies of a case, and what their errors say.
var badVectors = map[string]string{
	" T1 NOPE":              `f:3: isa: NOPE is no instruction`,
	" T1 MVMUL Dts=1":       `MVMUL doesn't have`,
	" T1 MVMUL Dst=1 Dst=1": `given twice`,
	" T1 SETC16 ThreadDstOffset=1 ThreadModeBias=1": `another word`,
	" MVMUL":                               `no thread`,
	" T1 load 1+(@x":                       `is called "x"`,
	" config PackDst+99=1":                 `no field PackDst+99`,
	" input x bytes":                       `no number of`,
	" input x bytes 65537":                 `room for 65536`,
	" post":                                `macro post has`,
	" T1 sync\n  sync":                     `no lines`,
	" T1\n   sync\n  sync":                 `f:5: indented by 2`,
	" T1 load a\nconst a = b\nconst b = a": `constants refer`,
	" m\nmacro m\n m":                      `at most 20`,
	" 9999x 9999x T1 sync":                 `executes more`,
	" T1 5000x sync":                       `room for`,
	"junk":                                 `f:3: "junk": want`,
}

func assembleCase(body string) error {
	s, err := load()
	s.vectors = nil
	err = errors.Join(err, s.parse("f", "protects p\ncase a\n"+body))
	for _, v := range s.vectors {
		_, e := s.assembled(v, chip.Blackhole)
		err = errors.Join(err, e)
	}
	return err
}

func TestBadVectors(t *testing.T) {
	for body, want := range badVectors {
		expect.Says(t, assembleCase(body), nil, want)
	}
}

func FuzzVectors(f *testing.F) {
	for body := range badVectors {
		f.Add(body)
	}
	f.Fuzz(func(_ *testing.T, body string) { _ = assembleCase(body) })
}

// resultSize is of the output and the loads of all threads.
func (p *program) resultSize() int {
	return len(p.output) + 4*(len(p.loads[0])+len(p.loads[1])+len(p.loads[2]))
}
