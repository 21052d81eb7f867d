package observe

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/sim"
)

// The file of a timeline stays as it is, to the byte: other tools read it.
func TestTimelineFile(t *testing.T) {
	dev, err := reprise.Open(t.Context(), sim.Wormhole())
	if err != nil {
		t.Fatal(err)
	}
	defer dev.Close(t.Context())
	began := time.Now()
	line := &Timeline{
		dev: dev, began: began, shift: []int64{0}, most: mostSpans, dropped: 3,
		clocks: []clockReading{{began, 1000}, {began.Add(time.Millisecond), 1001000}},
		host: []Span{
			{Queue: -1, Kind: "span", Name: "all", Start: 500, End: 90 * time.Microsecond},
			{Queue: -1, Kind: "run", Name: "add", Call: 7, Start: time.Microsecond, End: 3 * time.Microsecond},
			{Queue: -1, Kind: "wait", Name: "e", Call: 8, Start: 4 * time.Microsecond, End: 5 * time.Microsecond, failed: true},
		},
		stamps: []stamp{{span: Span{Kind: "run", Name: "add", Call: 7, StartCycles: 3000, EndCycles: 45000}, from: time.Microsecond}},
	}
	var got bytes.Buffer
	if err := line.WriteJSON(&got); err != nil {
		t.Fatal(err)
	}
	want := strings.NewReplacer("\n", "", "DEVICE", dev.Name()).Replace(timelineFile) + "\n"
	if diff := cmp.Diff(want, got.String()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

const timelineFile = `{"traceEvents":[{"name":"process_name","ph":"M","ts":0,"pid":1,"tid":0,"args":{"name":"host"}},
{"name":"process_name","ph":"M","ts":0,"pid":2,"tid":0,"args":{"name":"DEVICE"}},
{"name":"thread_name","ph":"M","ts":0,"pid":2,"tid":0,"args":{"name":"queue 0"}},
{"name":"thread_name","ph":"M","ts":0,"pid":1,"tid":0,"args":{"name":"host"}},
{"name":"all","cat":"span","ph":"X","ts":0.5,"dur":89.5,"pid":1,"tid":0},
{"name":"run add","cat":"run","ph":"X","ts":1,"dur":2,"pid":1,"tid":0},
{"name":"submit","cat":"submit","ph":"s","ts":1,"pid":1,"tid":0,"id":7},
{"name":"run add","cat":"run","ph":"X","ts":2,"dur":42,"pid":2,"tid":0,"args":{"call":7,"cycles":42000}},
{"name":"submit","cat":"submit","ph":"f","ts":2,"pid":2,"tid":0,"id":7,"bp":"e"},
{"name":"wait e","cat":"wait","ph":"X","ts":4,"dur":1,"pid":1,"tid":0,"args":{"failed":true}}],"displayTimeUnit":"ns","otherData":{"device":"DEVICE","dropped":3}}`
