//go:build !linux || !(amd64 || arm64 || riscv64)

package libttsim

import "github.com/reprise-tt/reprise/sim/serve/function"

func load(string, function.Callbacks) (function.Library, error) { return nil, function.ErrUnsupported }
