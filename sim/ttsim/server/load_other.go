//go:build !linux || !(amd64 || arm64 || riscv64)

package server

import "github.com/reprise-tt/reprise/sim/ttsim/internal/link"

func loadLibrary(string, callbacks) (library, error) { return nil, link.ErrUnsupported }
