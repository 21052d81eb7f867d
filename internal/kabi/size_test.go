package kabi

import (
	"reflect"
	"testing"
)

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
