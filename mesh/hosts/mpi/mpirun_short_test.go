//go:build !long && linux && (amd64 || arm64 || riscv64)

package mpi

// galaxyProcesses is over how many processes TestGalaxyOverProcesses divides a Galaxy.
var galaxyProcesses = []int{4}

// stages are those of roleSteps in which TestKilledInEachStage kills a process.
var stages = []string{"join", "replay"}
