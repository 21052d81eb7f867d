package kabi

import (
	"encoding/json"
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/reprise-tt/reprise/internal/expect"
)

type header struct {
	Magic   int                     `json:"ioctl_magic"`
	Structs map[string]headerStruct `json:"structs"`
	Ioctls  map[string]int          `json:"ioctls"`
}

type headerStruct struct {
	Size   int `json:"size"`
	Fields []struct {
		Name   string `json:"name"`
		Type   string `json:"type"`
		Offset int    `json:"offset"`
		Size   int    `json:"size"`
	} `json:"fields"`
}

func readHeader(t *testing.T) header {
	t.Helper()
	b := expect.Value(os.ReadFile("testdata/kmd_abi.json"))(t)
	var h header
	expect.Must(t, json.Unmarshal(b, &h))
	return h
}

// goStructs returns the structs of all arguments by the header's names without underscores. C
// structs without members have no bytes and are absent.
func goStructs() map[string]reflect.Type {
	out := map[string]reflect.Type{}
	var add func(g reflect.Type)
	add = func(g reflect.Type) {
		if g.Kind() == reflect.Array {
			g = g.Elem()
		}
		if g.Kind() != reflect.Struct {
			return
		}
		if g.Name() != "" {
			out["tenstorrent"+strings.ToLower(g.Name())] = g
		}
		for i := range g.NumField() {
			add(g.Field(i).Type)
		}
	}
	add(reflect.TypeFor[struct {
		GetDeviceInfo
		QueryMappings
		AllocateDMABuf
		GetDriverInfo
		ResetDevice
		PinPages
		PinPagesExtended
		UnpinPages
		LockCtl
		MapPeerBar
		AllocateTLB
		FreeTLB
		ConfigureTLB
		SetNOCCleanup
		PowerState
		ExportTLBDMABuf
	}]())
	delete(out, "tenstorrentpinpagesextended") // the header has no struct for it
	return out
}

// newer describes the requests that the header doesn't have yet, from the driver's test programs
// and pull requests (tenstorrent/tt-kmd#266, #283). When a header has them, its description
// replaces this.
var newer = map[string]struct {
	ioctl  int
	typ    reflect.Type
	size   uintptr
	fields []newerField
}{
	"SMC_MSG": {17, reflect.TypeFor[SMCMessage](), 48, []newerField{
		{"Argsz", 0, 4}, {"Flags", 4, 4}, {"QueueIndex", 8, 4}, {"Reserved0", 12, 4}, {"Message", 16, 32}}},
	"NOC_READ":  {18, reflect.TypeFor[NOCAccess](), 32, nocFields},
	"NOC_WRITE": {19, reflect.TypeFor[NOCAccess](), 32, nocFields},
}

type newerField struct {
	name         string
	offset, size uintptr
}

var nocFields = []newerField{{"Argsz", 0, 4}, {"Flags", 4, 4}, {"X", 8, 2}, {"Y", 10, 2}, {"NOC", 12, 1}, {"Width", 13, 1},
	{"Reserved0", 14, 2}, {"Addr", 16, 8}, {"Value", 24, 8}}

func TestParityWithNewerRequests(t *testing.T) {
	h := readHeader(t)
	ours := map[string]int{"SMC_MSG": IoctlSMCMessage, "NOC_READ": IoctlNOCRead, "NOC_WRITE": IoctlNOCWrite}
	for name, n := range newer {
		if _, ok := h.Ioctls[name]; ok {
			t.Errorf("%s is in the header now: hold it against that", name)
		}
		if ours[name] != Magic<<8|n.ioctl || RequestName(uint32(ours[name])) != name {
			t.Errorf("%s is %#x, want number %d", name, ours[name], n.ioctl)
		}
		if n.typ.Size() != n.size || n.typ.NumField() != len(n.fields) {
			t.Errorf("%v is %d bytes in %d fields, want %d in %d", n.typ, n.typ.Size(), n.typ.NumField(), n.size, len(n.fields))
			continue
		}
		for i, w := range n.fields {
			f := n.typ.Field(i)
			expect.Equal(t, f.Name, w.name, "%v", n.typ)
			expect.Equal(t, f.Offset, w.offset, "%v", n.typ)
			expect.Equal(t, f.Type.Size(), w.size, "%v", n.typ)
		}
	}
}

func TestParityWithHeader(t *testing.T) {
	h, structs := readHeader(t), goStructs()
	seen := map[string]bool{}
	for name, c := range h.Structs {
		if c.Size == 0 {
			continue
		}
		key := strings.ReplaceAll(name, "_", "")
		seen[key] = true
		g, ok := structs[key]
		if !ok {
			t.Errorf("%s has no Go struct", name)
			continue
		}
		size := c.Size
		i := 0
		for _, cf := range c.Fields {
			want := cf.Size
			if name == "tenstorrent_query_mappings" && cf.Name == "out" {
				want = MaxMappings * int(reflect.TypeFor[Mapping]().Size())
				size += want
			}
			if want == 0 {
				continue
			}
			if i >= g.NumField() {
				t.Errorf("%s.%s has no field in %s", name, cf.Name, g.Name())
				continue
			}
			gf := g.Field(i)
			i++
			if !strings.EqualFold(strings.ReplaceAll(cf.Name, "_", ""), gf.Name) {
				t.Errorf("%s.%s is at the place of %s.%s", name, cf.Name, g.Name(), gf.Name)
			}
			expect.Equal(t, [2]int{int(gf.Offset), int(gf.Type.Size())}, [2]int{cf.Offset, want}, "%s.%s: offset and size",
				g.Name(), gf.Name)
			expect.Equal(t, strings.HasPrefix(cf.Type, "__s"), gf.Type.Kind() == reflect.Int32, "%s.%s is %v: signed",
				g.Name(), gf.Name, gf.Type)
		}
		if i != g.NumField() {
			t.Errorf("%s has %d fields, header's %s has %d", g.Name(), g.NumField(), name, i)
		}
		expect.Equal(t, int(g.Size()), size, "%s: bytes", g.Name())
	}
	for name := range structs {
		if !seen[name] {
			t.Errorf("%s isn't in the header", name)
		}
	}
}

func TestNoHiddenPadding(t *testing.T) {
	all := goStructs()
	for name, n := range newer {
		all[name] = n.typ
	}
	for name, g := range all {
		var end uintptr
		for i := range g.NumField() {
			f := g.Field(i)
			expect.Equal(t, f.Offset, end, "%s: hole of %d bytes before %s", name, f.Offset-end, f.Name)
			end = f.Offset + f.Type.Size()
		}
		expect.Equal(t, end, g.Size(), "%s: %d bytes of padding at the end", name, g.Size()-end)
	}
}

func TestRequestNumbers(t *testing.T) {
	h := readHeader(t)
	if h.Magic != Magic {
		t.Fatalf("magic %#x, header says %#x", Magic, h.Magic)
	}
	ours := map[string]int{
		"GET_DEVICE_INFO": IoctlGetDeviceInfo, "GET_HARVESTING": IoctlGetHarvesting,
		"QUERY_MAPPINGS": IoctlQueryMappings, "ALLOCATE_DMA_BUF": IoctlAllocateDMABuf,
		"FREE_DMA_BUF": IoctlFreeDMABuf, "GET_DRIVER_INFO": IoctlGetDriverInfo,
		"RESET_DEVICE": IoctlResetDevice, "PIN_PAGES": IoctlPinPages, "LOCK_CTL": IoctlLockCtl,
		"MAP_PEER_BAR": IoctlMapPeerBar, "UNPIN_PAGES": IoctlUnpinPages, "ALLOCATE_TLB": IoctlAllocateTLB,
		"FREE_TLB": IoctlFreeTLB, "CONFIGURE_TLB": IoctlConfigureTLB, "SET_NOC_CLEANUP": IoctlSetNOCCleanup,
		"SET_POWER_STATE": IoctlSetPowerState, "EXPORT_TLB_DMABUF": IoctlExportTLBDMABuf,
	}
	expect.Equal(t, len(ours), len(h.Ioctls), "requests")
	for name, n := range h.Ioctls {
		expect.Equal(t, ours[name], Magic<<8|n, "%s", name)
		expect.Equal(t, RequestName(uint32(ours[name])), name, "%s", name)
	}
}

func TestBytesAliasTheArgument(t *testing.T) {
	var a ConfigureTLB
	b := Bytes(&a)
	if len(b) != 48 {
		t.Fatalf("%d bytes, want 48", len(b))
	}
	b[8] = 0x34
	b[9] = 0x12
	expect.Equal(t, a.In.Config.Addr, 0x1234, "Addr")
	a.In.ID = 7
	expect.Equal(t, b[0], 7, "byte 0")
}

func TestPowerValidity(t *testing.T) {
	expect.Equal(t, PowerValidity(PowerFlagCount, PowerSettingCount), MaxPowerValidity, "all valid")
	expect.Equal(t, PowerValidity(15, 0), 0x0F, "15 flags")
}

func checkSize[T Arg](t *testing.T) {
	t.Helper()
	var a T
	SetSize(&a)
	v := reflect.ValueOf(a)
	if f := v.FieldByName("Argsz"); f.IsValid() && f.Uint() != uint64(v.Type().Size()) {
		t.Errorf("%v: Argsz is %d, want %d", v.Type(), f.Uint(), v.Type().Size())
	}
	in := v.FieldByName("In")
	if !in.IsValid() {
		return
	}
	if f := in.FieldByName("OutputSizeBytes"); f.IsValid() && f.Uint() != uint64(v.FieldByName("Out").Type().Size()) {
		t.Errorf("%v: OutputSizeBytes is %d, want %d", v.Type(), f.Uint(), v.FieldByName("Out").Type().Size())
	}
	if f := in.FieldByName("OutputMappingCount"); f.IsValid() && f.Uint() != MaxMappings {
		t.Errorf("%v: OutputMappingCount is %d, want %d", v.Type(), f.Uint(), MaxMappings)
	}
}

func TestSetSize(t *testing.T) {
	checkSize[GetDeviceInfo](t)
	checkSize[QueryMappings](t)
	checkSize[AllocateDMABuf](t)
	checkSize[GetDriverInfo](t)
	checkSize[ResetDevice](t)
	checkSize[PinPages](t)
	checkSize[PinPagesExtended](t)
	checkSize[UnpinPages](t)
	checkSize[LockCtl](t)
	checkSize[MapPeerBar](t)
	checkSize[AllocateTLB](t)
	checkSize[FreeTLB](t)
	checkSize[ConfigureTLB](t)
	checkSize[SetNOCCleanup](t)
	checkSize[PowerState](t)
	checkSize[ExportTLBDMABuf](t)
	checkSize[SMCMessage](t)
	checkSize[NOCAccess](t)
}
