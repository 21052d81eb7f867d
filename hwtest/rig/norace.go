//go:build !race

package rig

const slowdown = 1
