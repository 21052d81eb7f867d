package kernels_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/internal/expect"
	"github.com/reprise-tt/reprise/kernels"
)

// Compiles a kernel that a program has as text, for instance from go:embed. It has no output to
// compare because not every machine has the compiler; TestExampleCompile runs it where there is
// one.
func ExampleCompile() {
	const source = `
#include "reprise/kernel.h"

// Stores the product of the first two arguments at the L1 address that is the third one.
void kernel_main() {
    rp_store(rp_arg(2), rp_arg(0) * rp_arg(1));
}
`
	image, err := kernels.Compile(context.Background(), kernels.Source{
		Path:       "product.cpp",
		Text:       source,
		Arch:       chip.Blackhole,
		Processors: []chip.Processor{chip.BRISC, chip.TRISC0},
	})
	var refused *kernels.CompileError
	switch {
	case errors.Is(err, kernels.ErrNoCompiler):
		fmt.Println(err) // says which package to install
		return
	case errors.As(err, &refused):
		fmt.Print(refused.Output)
		return
	case err != nil: // it compiles, but no core could run it from any place in L1
		fmt.Println(err)
		return
	}
	// A reprise.Kernel takes it as Image.
	fmt.Println("a kernel for", image.Arch)
}

func TestExampleCompile(t *testing.T) {
	kernels.NeedCompiler(t)
	out := expect.Value(os.Create(filepath.Join(t.TempDir(), "out")))(t)
	stdout := os.Stdout
	os.Stdout = out
	ExampleCompile()
	os.Stdout = stdout
	expect.Must(t, out.Close())
	expect.Equal(t, string(expect.Value(os.ReadFile(out.Name()))(t)), "a kernel for blackhole\n", "printed")
}
