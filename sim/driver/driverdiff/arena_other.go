//go:build !unix

package driverdiff

import "errors"

func newArena() ([]byte, func(), error) { return nil, nil, errors.ErrUnsupported }

func addressOf([]byte) uint64 { return 0 }
