// Lists of operations and tensors, and a page for each.

pages.ops = () => {
	const rows = () => filter(R.ops.map((_, i) => i).filter(i => state.nested || R.ops[i].depth === 0 || R.ops[i].depth > 0 && top(i)),
		i => R.ops[i].name + ' ' + (R.ops[i].args || []).join(' ') + ' ' + R.ops[i].out.map(tensorText).join(' '), state.search);
	const t = table('ops', [
		['#', i => i, i => i, true],
		['operation', i => [el('span', {style: `padding-left:${state.nested ? R.ops[i].depth * 1.1 : 0}em`}), R.ops[i].group ? '⟳ ' : '', opLink(i), R.ops[i].error ? el('span', {class: 'error'}, ' ', R.ops[i].error.slice(0, 80)) : ''], i => R.ops[i].name],
		['result', i => R.ops[i].out.length ? tensorText(R.ops[i].out[0]) + (R.ops[i].out.length > 1 ? ` and ${R.ops[i].out.length - 1} more` : '') : '', i => R.ops[i].out.length ? tensorText(R.ops[i].out[0]) : ''],
		['inputs', i => R.ops[i].in.length, i => R.ops[i].in.length, true],
		['time', i => time(R.ops[i].took), i => R.ops[i].took, true],
		...(R.ops.some(o => o.device) ? [['on the device', i => R.ops[i].device ? time(R.ops[i].device) : '', i => R.ops[i].device || 0, true]] : []),
		['peak of L1', i => bytes(R.ops[i].l1Peak), i => R.ops[i].l1Peak, true],
		['L1 change', i => R.ops[i].l1After - R.ops[i].l1Before ? (R.ops[i].l1After > R.ops[i].l1Before ? '+' : '') + bytes(R.ops[i].l1After - R.ops[i].l1Before) : '', i => R.ops[i].l1After - R.ops[i].l1Before, true],
	], rows());
	const count = el('span', {class: 'note', id: 'count'});
	const update = () => { const r = rows(); t.set(r); count.textContent = `${r.length} of ${R.ops.length} calls`; };
	show(tiles(), R.problems.map(p => el('p', {class: 'error'}, `${p.operation}: ${p.message}`)),
		el('div', {class: 'bar'}, el('input', {type: 'search', id: 'search', placeholder: 'name, argument, shape', value: state.search, oninput: e => { state.search = e.target.value; update(); }}),
			el('label', {}, el('input', {type: 'checkbox', id: 'nested', ...(state.nested ? {checked: ''} : {}), onchange: e => { state.nested = e.target.checked; update(); }}), ' functions inside'), count), t.element);
	update();
};

pages.op = (n) => {
	const i = Number(n), o = R.ops[i];
	if (!o) return missing('operation ' + n);
	const chain = [];
	for (let p = o.parent; p >= 0; p = R.ops[p].parent) chain.unshift(p);
	const mine = R.buffers.map((b, k) => [b, k]).filter(([b]) => b.from >= o.from && b.from <= o.to);
	const operands = (title, ids) => [el('h3', {}, title), ids.length ? el('table', {class: 'plain'}, el('tr', {}, ['tensor', 'shape', 'type', 'layout', 'memory', 'address', 'size', 'from', 'to'].map(h => el('th', {}, h))),
		ids.map(t => { const x = R.tensors[t]; return el('tr', {}, el('td', {}, link('tensor/' + t, x.id)), el('td', {}, x.shape), el('td', {}, x.dtype), el('td', {}, x.layout), el('td', {}, x.memory), el('td', {}, hex(x.address)),
			el('td', {class: 'n'}, bytes(x.size)), el('td', {}, list(x.makers.filter(operation).map(opLink), 'before')), el('td', {}, list(x.takers.filter(operation).map(opLink), 'none'))); })) : el('p', {class: 'note'}, 'none')];
	show(el('p', {class: 'note'}, link('ops', 'operations'), chain.map(p => [' › ', opLink(p)])),
		el('h2', {}, o.name), o.error && el('p', {class: 'error'}, o.error),
		el('div', {class: 'tiles'}, [['time', time(o.took) || '–'], ...(o.device ? [['on the device', time(o.device)]] : []), ['L1 before', bytes(o.l1Before)], ['L1 at its peak', bytes(o.l1Peak)], ['L1 after', bytes(o.l1After)]].map(([k, v]) => el('div', {class: 'tile'}, el('span', {class: 'note'}, k), el('b', {}, v)))),
		el('p', {}, link('flow/' + i, 'in the data flow'), ' · ', link('memory/' + o.from, 'in memory over time'), i > 0 && [' · ', link('op/' + (i - 1), 'previous call')], i + 1 < R.ops.length && [' · ', link('op/' + (i + 1), 'next call')]),
		operands('Inputs', o.in), operands('Outputs', o.out),
		el('h3', {}, 'Memory that it allocated'), mine.length ? bufferTable('allocated', mine.map(([, k]) => k)) : el('p', {class: 'note'}, 'none'),
		el('h3', {}, 'Arguments'), o.args && o.args.length ? el('div', {class: 'args', id: 'args'}, o.args.map((a, k) => `${k}: ${a}`).join('\n')) : el('p', {class: 'note'}, 'none recorded'),
		el('h3', {}, 'Called from'), o.source >= 0 && source(R.sources[o.source]), o.stack && o.stack.length ? el('div', {class: 'stack', id: 'stack'}, o.stack.join('\n')) : el('p', {class: 'note'}, 'no stack recorded'),
		el('h3', {}, 'Functions inside'), inside[i].length ? el('ul', {}, inside[i].map(k => el('li', {}, opLink(k), ' ', el('span', {class: 'note'}, time(R.ops[k].took))))) : el('p', {class: 'note'}, 'none'));
};

pages.tensors = () => {
	const rows = () => filter(R.tensors.map((_, i) => i), i => { const t = R.tensors[i]; return [t.id, t.shape, t.dtype, t.layout, t.memory, ...t.makers.concat(t.takers).map(k => R.ops[k].name)].join(' '); }, state.tensors);
	const t = table('tensors', [
		['tensor', i => link('tensor/' + i, R.tensors[i].id), i => i], ['shape', i => R.tensors[i].shape, i => R.tensors[i].shape], ['type', i => R.tensors[i].dtype, i => R.tensors[i].dtype],
		['layout', i => R.tensors[i].layout, i => R.tensors[i].layout], ['memory', i => R.tensors[i].memory, i => R.tensors[i].memory], ['address', i => hex(R.tensors[i].address), i => R.tensors[i].address, true],
		['size', i => bytes(R.tensors[i].size), i => R.tensors[i].size, true], ['made by', i => list(R.tensors[i].makers.filter(operation).map(opLink), 'before'), i => R.tensors[i].makers[0] ?? -1],
		['taken by', i => list(R.tensors[i].takers.filter(operation).slice(0, 6).map(opLink), 'none'), i => R.tensors[i].takers.length],
		['freed late', i => late(i) ? `${late(i)} operations` : '', late, true],
	], rows());
	show(el('div', {class: 'bar'}, el('input', {type: 'search', id: 'search', placeholder: 'shape, type, memory, operation', value: state.tensors, oninput: e => { state.tensors = e.target.value; t.set(rows()); }}), el('span', {class: 'note'}, `${R.tensors.length} tensors`)), t.element);
};

pages.tensor = (n) => {
	const t = R.tensors[Number(n)];
	if (!t) return missing('tensor ' + n);
	const b = R.buffers[t.buffer];
	show(el('p', {class: 'note'}, link('tensors', 'tensors')), el('h2', {}, 'tensor ' + t.id),
		el('table', {class: 'plain'}, [['shape', t.shape], ['type', t.dtype], ['layout', t.layout], ['memory', t.memory], ['address', hex(t.address)], ['size', bytes(t.size)], ['configuration', t.config || '']].map(([k, v]) => el('tr', {}, el('td', {class: 'note'}, k), el('td', {}, v)))),
		b && el('p', {}, `Its buffer takes ${bytes(b.bank)} in the fullest bank, from event ${b.from} `, b.to < R.nodes ? `to ${b.to}` : 'on', b.late ? el('span', {class: 'error', id: 'late'}, `; ${b.late} operations ran after its last use before it was freed`) : '', '.'),
		el('h3', {}, 'Made by'), el('p', {}, list(t.makers.map(opLink), 'it was there before the capture')), el('h3', {}, 'Taken by'), el('p', {}, list(t.takers.map(opLink), 'no operation')));
};
