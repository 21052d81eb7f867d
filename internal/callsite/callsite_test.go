package callsite

import (
	"runtime"
	"testing"
)

//go:noinline
func called() (here, want uintptr) {
	var pc [1]uintptr
	runtime.Callers(2, pc[:])
	return Return(), pc[0]
}

func inlined() (here, want uintptr) { return called() }

// growing calls f from frames that were moved, since the stack has grown.
func growing(n int, f func()) byte {
	var frame [1 << 10]byte
	if n == 0 {
		f()
		return frame[0]
	}
	frame[n] = growing(n-1, f)
	return frame[n]
}

// The address is the one that runtime.Callers knows: of a call, of one in a function that is inlined, of one by way of a func value or
// an interface, on a new goroutine, and with a stack that has moved. Architectures whose frames have pointers know it.
func TestReturn(t *testing.T) {
	if known := runtime.GOARCH == "amd64" || runtime.GOARCH == "arm64"; works != known {
		t.Fatalf("on %s it is known: %v", runtime.GOARCH, works)
	}
	check := func(how string, here, want uintptr) {
		t.Helper()
		if works && here != want || !works && here != 0 {
			t.Errorf("%s: %#x, want %#x", how, here, want)
		}
	}
	here, want := called()
	check("call", here, want)
	here, want = inlined()
	check("inlined call", here, want)
	f := called
	here, want = f()
	check("func value", here, want)
	done := make(chan struct{})
	go func() {
		defer close(done)
		here, want := called()
		check("goroutine", here, want)
		growing(100, func() {
			here, want := called()
			check("deep in a stack", here, want)
		})
	}()
	<-done
}

func BenchmarkReturn(b *testing.B) {
	b.Run("return", func(b *testing.B) {
		for b.Loop() {
			Return()
		}
	})
	b.Run("runtime.Callers", func(b *testing.B) {
		var pc [1]uintptr
		for b.Loop() {
			runtime.Callers(1, pc[:])
		}
	})
}
