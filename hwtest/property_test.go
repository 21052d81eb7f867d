package hwtest

import (
	"flag"
	"strconv"

	"pgregory.net/rapid"

	"github.com/reprise-tt/reprise/hwtest/rig"
)

func rapidProperty(t *rig.T, n int, prop func(rig.Draw)) {
	t.Helper()
	f := flag.Lookup("rapid.checks")
	old := f.Value.String()
	t.OK(f.Value.Set(strconv.Itoa(n)))
	defer func() { t.OK(f.Value.Set(old)) }()
	rapid.Check(t.TB.(testT).T, func(r *rapid.T) { prop(rapidDraw{r}) })
}

type rapidDraw struct{ r *rapid.T }

func (d rapidDraw) IntRange(from, to int, label string) int {
	return rapid.IntRange(from, to).Draw(d.r, label)
}
func (d rapidDraw) Uint32(label string) uint32 { return rapid.Uint32().Draw(d.r, label) }

func (d rapidDraw) Fatalf(format string, args ...any) {
	d.r.Helper()
	d.r.Fatalf(format, args...)
}

func (d rapidDraw) Repeat(actions map[string]func(rig.Draw)) {
	of := map[string]func(*rapid.T){}
	for name, fn := range actions {
		of[name] = func(r *rapid.T) { fn(rapidDraw{r}) }
	}
	d.r.Repeat(of)
}
