package nap

import (
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/reprise-tt/reprise/internal/nap/naptest"
)

func TestCloseFreesDescriptors(t *testing.T) {
	before := naptest.Timers(t)
	var s Sleeper
	for range 10 {
		s.Sleep(time.Microsecond)
	}
	if n := naptest.Timers(t) - before; n != 1 {
		t.Errorf("%d descriptors for sleeps one after the other", n)
	}
	s.Close()
	s.Sleep(time.Microsecond)
	if n := naptest.Timers(t) - before; n != 0 {
		t.Errorf("%d descriptors after Close", n)
	}
}

func TestSleepWithoutDescriptors(t *testing.T) {
	var with unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &with); err != nil {
		t.Fatal(err)
	}
	without := with
	without.Cur = 0
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &without); err != nil {
		t.Skip(err)
	}
	defer unix.Setrlimit(unix.RLIMIT_NOFILE, &with)
	if newTimer() != nil {
		t.Error("made a timer without a descriptor")
	}
	var s Sleeper
	begun := time.Now()
	s.Sleep(time.Millisecond)
	if took := time.Since(begun); took < time.Millisecond {
		t.Errorf("slept %v", took)
	}
	if s.free != nil {
		t.Error("keeps a timer")
	}
}

// Also if Go's runtime polled first and the kernel's timer expired later.
func TestTimersSleepAgain(t *testing.T) {
	tm := newTimer()
	if tm == nil {
		t.Skip("no timer here")
	}
	defer tm.close()
	for i := range 200 {
		d := time.Duration(1+i%50) * time.Microsecond
		begun := time.Now()
		tm.sleep(begun, d)
		if took := time.Since(begun); took < d {
			t.Fatalf("a sleep of %v took %v", d, took)
		}
		for i%2 == 0 && time.Since(begun) < d+30*time.Microsecond { // so that nothing of this sleep is left, or something
		}
	}
}

// As while all processors run goroutines.
func TestDeadlineEndsSleep(t *testing.T) {
	tm := newTimer()
	if tm == nil {
		t.Skip("no timer here")
	}
	defer tm.close()
	tm.read = func(uintptr) bool { return false }
	begun := time.Now()
	tm.sleep(begun, time.Millisecond)
	if took := time.Since(begun); took < time.Millisecond {
		t.Errorf("a sleep of 1 ms took %v", took)
	}
}
