package hwtest

import (
	"slices"
	"time"

	"github.com/reprise-tt/reprise/hwtest/target"
)

// testCase is one fact that every device must hold.
type testCase struct {
	name     string
	layer    string
	level    level  // what it shares with other cases; levelNone for what its layer's cases share
	protects string // the fact, in a sentence
	unsafe   string // why it isn't run on silicon unless asked for; empty if it may
	long     bool   // only in long runs
	needs    need
	alone    bool // it inspects memory of the whole process, so nothing may run beside it
	hours    int  // that it may take, for the longest ones; 0 for what is usual
	fn       func(*fixture)
}

// time is how long the case may take on a device.
func (c *testCase) time(d *target.Device) time.Duration {
	return max(caseTime(d), time.Duration(c.hours)*time.Hour)
}

// shares is what the case shares with other cases.
func (c *testCase) shares() level {
	switch c.level {
	case levelOwn:
		return levelNone
	case levelNone:
	default:
		return c.level
	}
	return levelOf(c.layer)
}

// need is what a case asks of the device beside its layer.
type need int

const (
	needNothing   need = iota
	needEmulator       // options that only the emulator has
	needSimulator      // a device that may be thrown away: emulator, vendor's simulator, or a card that is said to be one
)

// level is what a layer's cases share.
type level int

const (
	levelNone   level = iota // nothing: each case opens what it needs
	levelKMD                 // the driver, all processors held in reset
	levelQueues              // firmware and command queues, below the allocator
	levelDevice              // everything
	levelTwo                 // everything, with two queues that share all workers
	levelSplit               // everything, with two queues that have workers of their own
	levelMesh                // several chips, opened by the first case that needs them
	levelOwn                 // nothing, in a layer whose other cases share something
)

// layers in the order in which they run: from the bottom up, so that the first failure is the deepest one.
func layers() []layer {
	return []layer{
		{"kmd", levelKMD},
		{"bringup", levelNone},
		{"cq", levelQueues},
		{"rings", levelNone},
		{"programs", levelDevice},
		{"tensix", levelDevice},
		{"buffers", levelDevice},
		{"memory", levelNone},
		{"traces", levelDevice},
		{"control", levelDevice},
		{"debug", levelDevice},
		{"ops", levelDevice},
		{"queues", levelTwo},
		{"events", levelTwo},
		{"streams", levelTwo},
		{"patterns", levelTwo},
		{"pipeline", levelTwo},
		{"soak", levelNone},
		{"split", levelSplit},
		{"model", levelNone},
		{"mesh", levelMesh},
		{"faults", levelNone},
		{"hard", levelNone},
		{"differential", levelNone},
	}
}

type layer struct {
	name  string
	level level
}

func levelOf(layer string) level {
	for _, l := range layers() {
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
		in("cq", cqOwnCases()),
		in("rings", ringCases()),
		in("programs", programCases()),
		in("tensix", tensixFrontCases()),
		in("tensix", tensixSyncCases()),
		in("tensix", tensixUnpackCases()),
		in("tensix", tensixMoveCases()),
		in("tensix", tensixMatrixCases()),
		in("tensix", tensixLaneCases()),
		in("tensix", tensixPackCases()),
		in("buffers", bufferCases()),
		in("buffers", memoryCases()),
		in("buffers", transferCases()),
		in("buffers", pinnedCases()),
		in("memory", openedMemoryCases()),
		in("traces", traceCases()),
		in("control", controlCases()),
		in("debug", printCases()),
		in("debug", timeCases()),
		in("debug", watchCases()),
		in("debug", coreCases()),
		in("ops", opsCases()),
		in("queues", queueCases()),
		in("events", eventCases()),
		in("events", pinnedQueueCases()),
		in("streams", streamCases()),
		in("patterns", patternCases()),
		in("pipeline", pipelineCases()),
		in("soak", soakCases()),
		in("split", splitCases()),
		in("split", spanCases()),
		in("model", modelCases()),
		in("mesh", meshCases()),
		in("mesh", meshRunCases()),
		in("mesh", meshQueueCases()),
		in("mesh", meshCollectiveCases()),
		in("mesh", meshOrderCases()),
		in("mesh", meshFaultCases()),
		in("mesh", meshHangCases()),
		in("faults", faultCases()),
		in("faults", lostCases()),
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

// skip returns why a case doesn't run on a device; it is empty if the case runs.
func (s *settings) skip(d *target.Device, c *testCase) string {
	switch {
	case c.long && !s.long:
		return "only in long runs: -tags=long of go test, --long of reprise hwtest"
	case c.unsafe != "" && d.Kind == target.Silicon && !s.unsafe:
		return "not on silicon unless the unsafe cases are asked for: " + c.unsafe
	case c.needs == needEmulator && d.Kind != target.Emulator:
		return "needs the emulator's options"
	case !s.firmware.own() && c.shares() == levelQueues:
		return belowRuntime
	case c.needs == needSimulator && d.Kind == target.Silicon && !s.unsafe:
		return "needs a device that may be thrown away, as a card is if the unsafe cases are asked for"
	}
	return ""
}

// run runs a case on a device.
func run(t tb, b *bench, c *testCase) {
	if why := b.config.skip(b.device, c); why != "" {
		t.Skip(why)
	}
	level := c.shares()
	// Those of faults wait for timeouts most of their time, and each of them and of hard has an emulator of its own.
	parallel := (c.layer == "faults" || c.layer == "hard") && b.device.Kind == target.Emulator
	if parallel {
		b.leave(t, level)
		t.Parallel()
	}
	defer func() {
		if !t.Failed() {
			return
		}
		t.Logf("this case protects: %s", c.protects)
		if !parallel { // then the bench has nothing open
			b.discard(t)
		}
	}()
	c.fn(b.use(t, level, c.time(b.device))) // after Parallel: waiting for a turn doesn't count as the case's time
}
