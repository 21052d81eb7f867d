package tensix

func (e *Engine) unpacr(t *thread, a unpacrArgs) bool {
	return e.refuse(UnimplementedFunctionality, "not emulated yet")
}

func (e *Engine) unpacrnop(t *thread, a unpacrnopArgs) bool {
	return e.refuse(UnimplementedFunctionality, "not emulated yet")
}
