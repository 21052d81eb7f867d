module github.com/reprise-tt/reprise/sim/libttsim/cshared

go 1.26.0

require github.com/reprise-tt/reprise v0.0.0

require (
	github.com/dustin/go-humanize v1.1.0 // indirect
	golang.org/x/sys v0.49.0 // indirect
)

replace github.com/reprise-tt/reprise => ../../..
