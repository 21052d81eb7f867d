package program

import (
	"testing"

	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/dispatch/cq"
)

// The variant of a run says where its arguments are and which pages it reads, whatever its length
// is.
func TestVariantsOfARun(t *testing.T) {
	d := target(t)
	k := Kernel{Name: "k", Cores: []chip.Range{d.Grid}, Text: make([]byte, 3*BinaryPageSize)}
	for c := range d.Grid.Cores() {
		k.Args = append(k.Args, CoreArgs{Core: c, Args: make([]uint32, 64)})
		k.Args[len(k.Args)-1].Args[5] = 0x1234
	}
	im, err := d.Compile(&Program{Name: "p", Kernels: []Kernel{k}})
	if err != nil {
		t.Fatal(err)
	}
	if im.resident == nil {
		t.Fatal("the arguments don't lie beside the kernels")
	}
	if err := im.Place(1<<20, 8); err != nil {
		t.Fatal(err)
	}
	at, err := im.UniqueArg(nil, "k", 5, func(chip.Core) bool { return true })
	if err != nil {
		t.Fatal(err)
	}
	dispatcher, st := Dispatcher{Workers: 1}, d.ReplayState()
	run := func() ([]byte, Variant) { return im.AppendRun(nil, &st, dispatcher, 0) }
	check := func(what string, p []byte, v, want Variant, arg uint32) {
		t.Helper()
		if v != want || len(p) != im.runBytes(v) {
			t.Errorf("%s: variant %b of %d B, want %b of %d B", what, v, len(p), want, im.runBytes(want))
		}
		if v.Inline() {
			if got := cq.Get32(p, im.MainOffset(v)+at[0]); got != arg {
				t.Errorf("%s: the argument is %#x, want %#x", what, got, arg)
			}
		}
		subs := 0
		for e, err := range cq.All(d.layout(), p) {
			if err != nil {
				t.Fatal(err)
			}
			if r, ok := e.Command.(cq.RelayPagedPacked); ok {
				subs += len(r.Subs)
			}
		}
		if pages := im.RelayedPages(v); len(pages) != subs {
			t.Errorf("%s: it reads %d pages by %d entries", what, len(pages), subs)
		}
	}
	p, v := run()
	check("first run", p, v, residentArgs|withTexts, 0)
	prior := st
	p, v = run()
	check("next run", p, v, residentArgs, 0)
	im.SetWords(at, 0x5678)
	st = prior
	p, v = im.AppendInlineRun(nil, &st, dispatcher, 0)
	check("the next run with its arguments", p, v, 0, 0x1234)
	old := p
	p, v = run()
	check("run with other arguments", p, v, 0, 0x5678)
	st = d.ReplayState()
	p, _, err = im.AppendAgain(nil, old, 0, &st, dispatcher, 0)
	if err != nil {
		t.Fatal(err)
	}
	check("old run again", p, withTexts, withTexts, 0x1234)
	if _, _, err := im.AppendAgain(nil, old[1:], 0, &st, dispatcher, 0); err == nil {
		t.Error("a run that is too short was appended again")
	}
}
