//go:build !linux

package report

func machine() (cpu, kernel string) { return "", "" }
