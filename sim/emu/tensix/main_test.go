package tensix

import (
	"testing"

	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/sim/ttsim/ttsimtest"
)

func TestMain(m *testing.M) { ttsimtest.Main(m) }

var archs = []chip.Arch{chip.Wormhole, chip.Blackhole}
