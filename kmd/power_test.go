package kmd_test

import (
	"errors"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/internal/kabi"
	"github.com/reprise-tt/reprise/internal/seam"
	"github.com/reprise-tt/reprise/kmd"
	"github.com/reprise-tt/reprise/sim/driver"
)

func TestSetPower(t *testing.T) {
	m := start(t, chip.Blackhole, driver.Config{}, kmd.WithoutPower())
	must(t, m.dev.SetPower(kmd.PowerAIClock|kmd.PowerTensix))
	if flags, _, sent := m.drv.Node(0).Power(); flags != 0x7FF5 || sent != 1 {
		t.Errorf("flags %#x in %d messages, want the two and all without a name", flags, sent)
	}
	old := start(t, chip.Blackhole, driver.Config{Version: release(5)})
	if err := old.dev.SetPower(0); !errors.Is(err, kmd.ErrDriverTooOld) {
		t.Errorf("driver 2.5: %v", err)
	}
	node := changed{Node: m.node(), ioctl: func(f seam.File, req uint32, arg []byte) error {
		if req == kabi.IoctlSetPowerState && arg != nil { // without one it asks whether the driver knows it
			return syscall.EINVAL
		}
		return f.Ioctl(req, arg)
	}}
	d := value(kmd.Open(t.Context(), target{node}))(t)
	defer d.Close()
	if err := d.SetPower(0); !errors.Is(err, kmd.ErrFirmware) {
		t.Errorf("firmware that refuses: %v", err)
	}
	i := slices.IndexFunc(kmd.DiagnoseTarget(t.Context(), target{node}), func(c kmd.Check) bool {
		return c.Name == "power" && c.Status == kmd.StatusWarning && strings.Contains(c.Found, "firmware") && c.Fix != ""
	})
	if i < 0 {
		t.Error("the check-up doesn't warn of firmware that refuses")
	}
}
