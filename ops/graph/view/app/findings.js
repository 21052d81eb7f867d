// What checks found in kernels of the same program.

const frame = f => `${f.function || '?'}${f.file ? ` at ${f.file}:${f.line}` : ''}, pc ${hex(f.pc)}${f.module ? ` in ${f.module}` : ''}`;
const callText = c => `${c.file}:${c.line} in ${c.function}${c.text ? ': ' + c.text : ''}`;
const calls = name => R.ops.map((_, i) => i).filter(i => R.ops[i].name === name.replaceAll('.', '::') || R.ops[i].name === name);
const kernel = a => a.frames && a.frames.length ? a.frames[0].module || '' : '';

pages.findings = () => {
	const rows = () => filter(R.findings.map((_, i) => i), i => JSON.stringify(R.findings[i]), state.findings || '');
	const f = i => R.findings[i];
	const t = table('findings', [
		['#', i => link('finding/' + i, i + 1), i => i, true], ['check', i => f(i).check || 'the chip stopped', i => f(i).check],
		['access', i => f(i).at.by, i => f(i).at.by], ['kernel', i => kernel(f(i).at), i => kernel(f(i).at)],
		['after', i => f(i).other ? [f(i).other.by, ' ', kernel(f(i).other)] : '', i => f(i).other ? f(i).other.by : ''],
		['operation', i => f(i).operation ? f(i).operation.name : '', i => f(i).operation ? f(i).operation.name : ''],
		['times', i => f(i).count, i => f(i).count, true], ['what', i => f(i).text, i => f(i).text],
	], rows());
	show(el('div', {class: 'bar'}, el('input', {type: 'search', id: 'search', placeholder: 'check, kernel, operation', value: state.findings || '', oninput: e => { state.findings = e.target.value; t.set(rows()); }}),
		el('span', {class: 'note'}, `${R.findings.length} findings`)), t.element);
};

pages.finding = (n) => {
	const f = (R.findings || [])[Number(n)];
	if (!f) return missing('finding ' + n);
	const access = (title, a) => a && [el('h3', {}, title), el('p', {}, `${a.by}, address ${hex(a.address)}`), a.frames && el('div', {class: 'stack'}, a.frames.map(frame).join('\n'))];
	show(el('p', {class: 'note'}, link('findings', 'findings')), el('h2', {}, f.check || 'the chip stopped'), el('p', {}, f.text, f.count > 1 && ` (${f.count} times)`),
		access('The access', f.at), access('The access before it', f.other),
		f.operation && [el('h3', {}, 'Operation'), el('p', {id: 'operation'}, f.operation.name, ', called at ', callText(f.operation.call)), el('p', {}, list(calls(f.operation.name).slice(0, 20).map(opLink), 'it is not in this report'))],
		f.calls && [el('h3', {}, 'Called from'), el('div', {class: 'stack'}, f.calls.map(callText).join('\n'))]);
};
