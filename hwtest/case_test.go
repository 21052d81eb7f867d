package hwtest

import (
	"slices"
	"testing"
)

// testCase is one fact that every device must hold.
type testCase struct {
	name     string
	layer    string
	protects string // the fact, in a sentence
	unsafe   string // why it isn't run on silicon unless asked for; empty if it may
	long     bool   // only with -tags=long
	needs    need
	fn       func(*T)
}

// need is what a case asks of the device beside its layer.
type need int

const (
	needNothing   need = iota
	needEmulator       // options that only the emulator has
	needSimulator      // a device that may be thrown away: emulator or vendor's simulator
)

// level is what a layer's cases share.
type level int

const (
	levelNone   level = iota // nothing: each case opens what it needs
	levelKMD                 // the driver, all processors held in reset
	levelQueues              // firmware and command queues, below the allocator
	levelDevice              // everything
)

// layers in the order in which they run: from the bottom up, so that the first failure is the deepest one.
var layers = []struct {
	name  string
	level level
}{
	{"kmd", levelKMD},
	{"bringup", levelNone},
	{"cq", levelQueues},
	{"rings", levelNone},
	{"programs", levelDevice},
	{"buffers", levelDevice},
	{"traces", levelDevice},
	{"model", levelNone},
	{"faults", levelNone},
	{"hard", levelNone},
	{"differential", levelNone},
}

func levelOf(layer string) level {
	for _, l := range layers {
		if l.name == layer {
			return l.level
		}
	}
	return levelNone
}

// cases is the registry.
func cases() []testCase {
	return slices.Concat(
		in("kmd", kmdCases()),
		in("bringup", bringupCases()),
		in("cq", cqWriteCases()),
		in("cq", cqPackedCases()),
		in("cq", cqRelayCases()),
		in("cq", cqSyncCases()),
		in("rings", ringCases()),
		in("programs", programCases()),
		in("buffers", bufferCases()),
		in("traces", traceCases()),
		in("model", modelCases()),
		in("faults", faultCases()),
		in("hard", hardCases()),
		in("differential", differentialCases()),
	)
}

func in(layer string, cs []testCase) []testCase {
	for i := range cs {
		cs[i].layer = layer
	}
	return cs
}

// run runs a case on a device and keeps the books.
func run(t *testing.T, b *bench, c *testCase, rep *report) {
	rep.begin(t, b.device.name, c)
	switch {
	case c.long && !long:
		t.Skip("only with -tags=long")
	case c.unsafe != "" && b.device.kind == silicon && !*unsafeFlag:
		t.Skipf("not on silicon without -unsafe: %s", c.unsafe)
	case c.needs == needEmulator && b.device.kind != emulator:
		t.Skip("needs the emulator's options")
	case c.needs == needSimulator && b.device.kind == silicon:
		t.Skip("needs a device that may be thrown away")
	}
	x := b.use(t, levelOf(c.layer))
	if c.layer == "faults" && b.device.kind == emulator {
		t.Parallel() // these wait for timeouts most of their time
	}
	defer func() {
		if t.Failed() {
			t.Logf("this case protects: %s", c.protects)
			b.discard(t)
		}
	}()
	c.fn(x)
}
