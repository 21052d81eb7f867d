package hosts_test

import (
	"errors"
	"testing"

	"go.uber.org/goleak"

	"github.com/reprise-tt/reprise/mesh/hosts"
	"github.com/reprise-tt/reprise/mesh/hosts/hoststest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func inProcess(t *testing.T, n int) []*hosts.Local {
	t.Helper()
	engines, err := hosts.InProcess(n)
	if err != nil {
		t.Fatal(err)
	}
	return engines
}

func TestInProcess(t *testing.T) { hoststest.Test(t, inProcess) }

func TestInProcessGone(t *testing.T) {
	for _, waiting := range []bool{false, true} {
		engines := inProcess(t, 3)
		for i, err := range hoststest.Each(engines, func(e *hosts.Local) error {
			if e.Rank() == 1 {
				for waiting && !e.Waiting() {
				}
				return e.Close()
			}
			for !waiting && !e.Gone(1) {
			}
			_, err := e.Exchange(t.Context(), "step", nil)
			return err
		}) {
			var lost *hosts.LostError
			if i != 1 && (!errors.Is(err, hosts.ErrBroken) && !errors.As(err, &lost) || errors.As(err, &lost) &&
				(len(lost.Ranks) != 1 || lost.Ranks[0] != 1)) {
				t.Errorf("host %d: %v", i, err)
			}
		}
		if _, err := engines[1].Exchange(t.Context(), "step", nil); !errors.Is(err, hosts.ErrClosed) {
			t.Error(err)
		}
	}
	if _, err := hosts.InProcess(0); !errors.Is(err, hosts.ErrConfig) {
		t.Error(err)
	}
}
