package main

import (
	"cmp"
	"encoding/hex"
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"

	"github.com/alecthomas/kong"

	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/cmd/reprise/internal/cli"
	"github.com/reprise-tt/reprise/dispatch"
	"github.com/reprise-tt/reprise/dispatch/abi"
	"github.com/reprise-tt/reprise/dispatch/cq"
	"github.com/reprise-tt/reprise/internal/kabi"
	"github.com/reprise-tt/reprise/tracebuf"
)

type versionCmd struct{ cli.AsJSON }

func (versionCmd) Help() string {
	return "Trace files can be replayed by builds with the same digest of the firmware. docs/compatibility.md says what stays the same between versions."
}

func (c *versionCmd) Run(s cli.Streams) error {
	v, err := version()
	if err != nil {
		return err
	}
	return s.Print(c.JSON, v, v.print)
}

// versionFlag is --version.
type versionFlag bool

// BeforeReset prints the version before other flags are read.
func (versionFlag) BeforeReset(app *kong.Kong) error {
	v, err := version()
	if err == nil {
		err = cli.Print(app.Stdout, v.print)
	}
	if err != nil {
		return err
	}
	app.Exit(cli.ExitOK)
	return nil
}

type versionJSON struct {
	Version  string `json:"version"`            // of the module
	Revision string `json:"revision,omitempty"` // of the sources
	Time     string `json:"time,omitempty"`     // of the revision
	Modified *bool  `json:"modified,omitempty"` // since the revision
	Go       string `json:"go"`
	Platform string `json:"platform"`

	Firmware    []firmwareJSON   `json:"firmware"`
	TTMetal     []string         `json:"tt_metal_firmware"` // revisions that workers and queues can run
	WireFormats []string         `json:"wire_formats"`      // revisions whose commands can be decoded
	Traces      traceVersionJSON `json:"trace_files"`
	Driver      driverJSON       `json:"driver"`
}

// firmwareJSON is this runtime's own firmware.
type firmwareJSON struct {
	Arch   string `json:"arch"`
	SHA256 string `json:"sha256"` // as in trace files
}

type traceVersionJSON struct {
	Read    []int `json:"read"`
	Written []int `json:"written"` // by what the trace has
}

type driverJSON struct {
	Interface int    `json:"interface"` // of ioctls
	Oldest    string `json:"oldest"`    // tt-kmd that has it
}

func version() (*versionJSON, error) {
	v := &versionJSON{Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH, TTMetal: []string{}, WireFormats: []string{}}
	info, _ := debug.ReadBuildInfo()
	v.built(info)
	for _, a := range []chip.Arch{chip.Wormhole, chip.Blackhole} {
		sum, err := dispatch.HashFirmware(a, nil)
		if err != nil {
			return nil, err
		}
		v.Firmware = append(v.Firmware, firmwareJSON{a.String(), hex.EncodeToString(sum[:])})
	}
	for _, r := range abi.Revisions() {
		if !r.Own() {
			v.TTMetal = append(v.TTMetal, r.Name)
		}
	}
	for _, r := range cq.Revisions() {
		v.WireFormats = append(v.WireFormats, r.Name)
	}
	v.Traces.Read, v.Traces.Written = tracebuf.FileVersions()
	v.Driver = driverJSON{kabi.DriverAPIVersion, kabi.OldestDriver}
	return v, nil
}

// built takes the build information of the Go command.
func (v *versionJSON) built(info *debug.BuildInfo) {
	v.Version = "unknown"
	if info == nil {
		return
	}
	v.Version = cmp.Or(info.Main.Version, v.Version)
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			v.Revision = s.Value
		case "vcs.time":
			v.Time = s.Value
		case "vcs.modified":
			modified := s.Value == "true"
			v.Modified = &modified
		}
	}
}

func (v *versionJSON) print(w cli.Text) {
	t := w.Table(0)
	t.Row("reprise", v.Version)
	if v.Revision != "" {
		about := ""
		if v.Time != "" {
			about = " of " + v.Time
		}
		if v.Modified != nil && *v.Modified {
			about += ", with changes"
		}
		t.Row("revision", v.Revision+about)
	}
	t.Row("go", v.Go+" "+v.Platform)
	var digests []string
	for _, f := range v.Firmware {
		digests = append(digests, f.Arch+" "+f.SHA256[:12])
	}
	t.Row("firmware", strings.Join(digests, ", "))
	t.Row("tt-metal", "runs firmware of "+strings.Join(v.TTMetal, ", ")+"; reads commands of "+strings.Join(v.WireFormats, ", "))
	t.Row("trace files", fmt.Sprintf("reads versions %s, writes %s", numbers(v.Traces.Read), numbers(v.Traces.Written)))
	t.Row("driver", fmt.Sprintf("tt-kmd %s and newer, interface %d", v.Driver.Oldest, v.Driver.Interface))
	t.Flush()
}

// numbers writes numbers with commas between them.
func numbers(n []int) string { return strings.Trim(strings.ReplaceAll(fmt.Sprint(n), " ", ", "), "[]") }
