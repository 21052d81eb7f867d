package tensix

// sfpu is the vector unit.
type sfpu struct{}

func (s *sfpu) reset() {}

// seed fills the random numbers of the lanes.
func (s *sfpu) seed(v uint32) {}

// sfpuTemplate takes instructions that are recorded as templates instead of executed.
func (e *Engine) sfpuTemplate(w uint32) (taken bool) { return false }

func (e *Engine) sfpload(t *thread, a sfploadArgs) bool {
	return e.refuse(UnimplementedFunctionality, "not emulated yet")
}

func (e *Engine) sfploadi(t *thread, a sfploadiArgs) bool {
	return e.refuse(UnimplementedFunctionality, "not emulated yet")
}

func (e *Engine) sfpstore(t *thread, a sfpstoreArgs) bool {
	return e.refuse(UnimplementedFunctionality, "not emulated yet")
}

func (e *Engine) sfplut(t *thread, a sfplutArgs) bool {
	return e.refuse(UnimplementedFunctionality, "not emulated yet")
}

func (e *Engine) sfpmuli(t *thread, a sfpmuliArgs) bool {
	return e.refuse(UnimplementedFunctionality, "not emulated yet")
}

func (e *Engine) sfpaddi(t *thread, a sfpaddiArgs) bool {
	return e.refuse(UnimplementedFunctionality, "not emulated yet")
}

func (e *Engine) sfpdivp2(t *thread, a sfpdivp2Args) bool {
	return e.refuse(UnimplementedFunctionality, "not emulated yet")
}

func (e *Engine) sfpexexp(t *thread, a sfpexexpArgs) bool {
	return e.refuse(UnimplementedFunctionality, "not emulated yet")
}

func (e *Engine) sfpexman(t *thread, a sfpexmanArgs) bool {
	return e.refuse(UnimplementedFunctionality, "not emulated yet")
}

func (e *Engine) sfpiadd(t *thread, a sfpiaddArgs) bool {
	return e.refuse(UnimplementedFunctionality, "not emulated yet")
}

func (e *Engine) sfpshft(t *thread, a sfpshftArgs) bool {
	return e.refuse(UnimplementedFunctionality, "not emulated yet")
}

func (e *Engine) sfpsetcc(t *thread, a sfpsetccArgs) bool {
	return e.refuse(UnimplementedFunctionality, "not emulated yet")
}

func (e *Engine) sfpmov(t *thread, a sfpmovArgs) bool {
	return e.refuse(UnimplementedFunctionality, "not emulated yet")
}

func (e *Engine) sfpabs(t *thread, a sfpabsArgs) bool {
	return e.refuse(UnimplementedFunctionality, "not emulated yet")
}

func (e *Engine) sfpand(t *thread, a sfpandArgs) bool {
	return e.refuse(UnimplementedFunctionality, "not emulated yet")
}

func (e *Engine) sfpor(t *thread, a sfporArgs) bool {
	return e.refuse(UnimplementedFunctionality, "not emulated yet")
}

func (e *Engine) sfpnot(t *thread, a sfpnotArgs) bool {
	return e.refuse(UnimplementedFunctionality, "not emulated yet")
}

func (e *Engine) sfplz(t *thread, a sfplzArgs) bool {
	return e.refuse(UnimplementedFunctionality, "not emulated yet")
}

func (e *Engine) sfpsetexp(t *thread, a sfpsetexpArgs) bool {
	return e.refuse(UnimplementedFunctionality, "not emulated yet")
}

func (e *Engine) sfpsetman(t *thread, a sfpsetmanArgs) bool {
	return e.refuse(UnimplementedFunctionality, "not emulated yet")
}

func (e *Engine) sfpmad(t *thread, a sfpmadArgs) bool {
	return e.refuse(UnimplementedFunctionality, "not emulated yet")
}

func (e *Engine) sfpadd(t *thread, a sfpaddArgs) bool {
	return e.refuse(UnimplementedFunctionality, "not emulated yet")
}

func (e *Engine) sfpmul(t *thread, a sfpmulArgs) bool {
	return e.refuse(UnimplementedFunctionality, "not emulated yet")
}

func (e *Engine) sfppushc(t *thread, a sfppushcArgs) bool {
	return e.refuse(UnimplementedFunctionality, "not emulated yet")
}

func (e *Engine) sfppopc(t *thread, a sfppopcArgs) bool {
	return e.refuse(UnimplementedFunctionality, "not emulated yet")
}

func (e *Engine) sfpsetsgn(t *thread, a sfpsetsgnArgs) bool {
	return e.refuse(UnimplementedFunctionality, "not emulated yet")
}

func (e *Engine) sfpencc(t *thread, a sfpenccArgs) bool {
	return e.refuse(UnimplementedFunctionality, "not emulated yet")
}

func (e *Engine) sfpcompc(t *thread, a sfpcompcArgs) bool {
	return e.refuse(UnimplementedFunctionality, "not emulated yet")
}

func (e *Engine) sfptransp(t *thread, a sfptranspArgs) bool {
	return e.refuse(UnimplementedFunctionality, "not emulated yet")
}

func (e *Engine) sfpxor(t *thread, a sfpxorArgs) bool {
	return e.refuse(UnimplementedFunctionality, "not emulated yet")
}

func (e *Engine) sfpstochrnd(t *thread, a sfpstochrndArgs) bool {
	return e.refuse(UnimplementedFunctionality, "not emulated yet")
}

func (e *Engine) sfpnop(t *thread) bool {
	return e.refuse(UnimplementedFunctionality, "not emulated yet")
}

func (e *Engine) sfpcast(t *thread, a sfpcastArgs) bool {
	return e.refuse(UnimplementedFunctionality, "not emulated yet")
}

func (e *Engine) sfpconfig(t *thread, a sfpconfigArgs) bool {
	return e.refuse(UnimplementedFunctionality, "not emulated yet")
}

func (e *Engine) sfpswap(t *thread, a sfpswapArgs) bool {
	return e.refuse(UnimplementedFunctionality, "not emulated yet")
}

func (e *Engine) sfploadmacro(t *thread, a sfploadmacroArgs) bool {
	return e.refuse(UnimplementedFunctionality, "not emulated yet")
}

func (e *Engine) sfpshft2(t *thread, a sfpshft2Args) bool {
	return e.refuse(UnimplementedFunctionality, "not emulated yet")
}

func (e *Engine) sfplutfp32(t *thread, a sfplutfp32Args) bool {
	return e.refuse(UnimplementedFunctionality, "not emulated yet")
}

func (e *Engine) sfple(t *thread, a sfpleArgs) bool {
	return e.refuse(UnimplementedFunctionality, "not emulated yet")
}

func (e *Engine) sfpgt(t *thread, a sfpgtArgs) bool {
	return e.refuse(UnimplementedFunctionality, "not emulated yet")
}

func (e *Engine) sfpmul24(t *thread, a sfpmul24Args) bool {
	return e.refuse(UnimplementedFunctionality, "not emulated yet")
}

func (e *Engine) sfparecip(t *thread, a sfparecipArgs) bool {
	return e.refuse(UnimplementedFunctionality, "not emulated yet")
}
