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

// layer is cases that are run one after the other, and what they share.
type layer struct {
	name  string
	level rig.Level
	cases rig.Table
}

// layers in the order in which they run: from the bottom up, so that the first failure is the
// deepest one.
func layers() []layer {
	return []layer{
		{"kmd", rig.LevelKMD, bringup.KMD()},
		{"bringup", rig.LevelNone, bringup.Cases()},
		{"cq", rig.LevelQueues, commands.Cases()},
		{"rings", rig.LevelNone, commands.Rings()},
		{"programs", rig.LevelDevice, programs.Cases()},
		{"tensix", rig.LevelDevice, tensix.Cases()},
		{"buffers", rig.LevelDevice, memory.Cases()},
		{"memory", rig.LevelNone, memory.Opened()},
		{"traces", rig.LevelDevice, traces.Cases()},
		{"control", rig.LevelDevice, control.Cases()},
		{"debug", rig.LevelDevice, debug.Cases()},
		{"ops", rig.LevelDevice, operations.Cases()},
		{"queues", rig.LevelTwo, queues.Cases()},
		{"events", rig.LevelTwo, slices.Concat(queues.Events(), memory.PinnedBetweenQueues())},
		{"streams", rig.LevelTwo, streams.Cases()},
		{"patterns", rig.LevelTwo, streams.Patterns()},
		{"pipeline", rig.LevelTwo, streams.Pipelines()},
		{"soak", rig.LevelNone, streams.Soak()},
		{"split", rig.LevelSplit, queues.Split()},
		{"model", rig.LevelNone, model.Cases()},
		{"mesh", rig.LevelMesh, machines.Cases()},
		{"faults", rig.LevelNone, faults.Cases()},
		{"hard", rig.LevelNone, hard.Cases()},
		{"differential", rig.LevelNone, model.Differential()},
	}
}

// cases are those of all layers, each with its layer and what it shares with others.
func cases() []rig.Case {
	var all []rig.Case
	for _, l := range layers() {
		for _, c := range l.cases {
			c.Layer = l.name
			switch c.Level {
			case rig.LevelNone:
				c.Level = l.level
			case rig.LevelOwn:
				c.Level = rig.LevelNone
			}
			all = append(all, c)
		}
	}
	return all
}
