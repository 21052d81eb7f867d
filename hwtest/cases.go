package hwtest

import (
	"slices"

	"github.com/reprise-tt/reprise/hwtest/internal/bringup"
	"github.com/reprise-tt/reprise/hwtest/internal/commands"
	"github.com/reprise-tt/reprise/hwtest/internal/control"
	"github.com/reprise-tt/reprise/hwtest/internal/debug"
	"github.com/reprise-tt/reprise/hwtest/internal/faults"
	"github.com/reprise-tt/reprise/hwtest/internal/hard"
	"github.com/reprise-tt/reprise/hwtest/internal/machines"
	"github.com/reprise-tt/reprise/hwtest/internal/memory"
	"github.com/reprise-tt/reprise/hwtest/internal/model"
	"github.com/reprise-tt/reprise/hwtest/internal/operations"
	"github.com/reprise-tt/reprise/hwtest/internal/programs"
	"github.com/reprise-tt/reprise/hwtest/internal/queues"
	"github.com/reprise-tt/reprise/hwtest/internal/rig"
	"github.com/reprise-tt/reprise/hwtest/internal/streams"
	"github.com/reprise-tt/reprise/hwtest/internal/tensix"
	"github.com/reprise-tt/reprise/hwtest/internal/traces"
)

// layers in the order in which they run: from the bottom up, so that the first failure is the deepest one.
func layers() []layer {
	return []layer{
		{"kmd", rig.LevelKMD},
		{"bringup", rig.LevelNone},
		{"cq", rig.LevelQueues},
		{"rings", rig.LevelNone},
		{"programs", rig.LevelDevice},
		{"tensix", rig.LevelDevice},
		{"buffers", rig.LevelDevice},
		{"memory", rig.LevelNone},
		{"traces", rig.LevelDevice},
		{"control", rig.LevelDevice},
		{"debug", rig.LevelDevice},
		{"ops", rig.LevelDevice},
		{"queues", rig.LevelTwo},
		{"events", rig.LevelTwo},
		{"streams", rig.LevelTwo},
		{"patterns", rig.LevelTwo},
		{"pipeline", rig.LevelTwo},
		{"soak", rig.LevelNone},
		{"split", rig.LevelSplit},
		{"model", rig.LevelNone},
		{"mesh", rig.LevelMesh},
		{"faults", rig.LevelNone},
		{"hard", rig.LevelNone},
		{"differential", rig.LevelNone},
	}
}

type layer struct {
	name  string
	level rig.Level
}

func levelOf(layer string) rig.Level {
	for _, l := range layers() {
		if l.name == layer {
			return l.level
		}
	}
	return rig.LevelNone
}

// cases is the registry.
func cases() []rig.Case {
	return slices.Concat(
		in("kmd", bringup.KMD()),
		in("bringup", bringup.Cases()),
		in("cq", commands.Cases()),
		in("rings", commands.Rings()),
		in("programs", programs.Cases()),
		in("tensix", tensix.Cases()),
		in("buffers", memory.Cases()),
		in("memory", memory.Opened()),
		in("traces", traces.Cases()),
		in("control", control.Cases()),
		in("debug", debug.Cases()),
		in("ops", operations.Cases()),
		in("queues", queues.Cases()),
		in("events", queues.Events()),
		in("events", memory.PinnedBetweenQueues()),
		in("streams", streams.Cases()),
		in("patterns", streams.Patterns()),
		in("pipeline", streams.Pipelines()),
		in("soak", streams.Soak()),
		in("split", queues.Split()),
		in("model", model.Cases()),
		in("mesh", machines.Cases()),
		in("faults", faults.Cases()),
		in("hard", hard.Cases()),
		in("differential", model.Differential()),
	)
}

// in puts cases into a layer, and says what each shares with others.
func in(layer string, cs []rig.Case) []rig.Case {
	for i := range cs {
		c := &cs[i]
		c.Layer = layer
		switch c.Level {
		case rig.LevelNone:
			c.Level = levelOf(layer)
		case rig.LevelOwn:
			c.Level = rig.LevelNone
		}
	}
	return cs
}
