'use strict';
// The page of a report. It reads the document of model.go, and shows what the address after # names:
// #/ops, #/op/N, #/tensors, #/tensor/N, #/memory, #/cores, #/core/X,Y and #/flow.
(() => {
const R = JSON.parse(document.getElementById('report').textContent);
const main = document.getElementById('main');
const SVG = 'http://www.w3.org/2000/svg';

// el makes an element; children that are strings become text, so nothing of a report is ever markup.
function el(tag, attrs, ...children) {
	const svg = ['svg', 'g', 'rect', 'path', 'text', 'title', 'line', 'defs', 'marker'].includes(tag);
	const e = svg ? document.createElementNS(SVG, tag) : document.createElement(tag);
	for (const [k, v] of Object.entries(attrs || {})) {
		if (k.startsWith('on')) e.addEventListener(k.slice(2), v);
		else if (v !== undefined && v !== null && v !== false) e.setAttribute(k, v);
	}
	for (const c of children.flat(9)) if (c !== undefined && c !== null && c !== false) e.append(c.nodeType ? c : String(c));
	return e;
}
const show = (...parts) => main.replaceChildren(...parts.flat(9).filter(Boolean));
const link = (to, text) => el('a', {href: '#/' + to}, text);

function bytes(n) {
	if (n === null || n === undefined) return '';
	const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB'];
	let k = 0, v = Math.abs(n);
	while (v >= 1024 && k < units.length - 1) { v /= 1024; k++; }
	const digits = k === 0 || v >= 100 || Number.isInteger(v) ? 0 : v >= 10 ? 1 : 2;
	return (n < 0 ? '-' : '') + v.toFixed(digits) + ' ' + units[k];
}
function time(ns) {
	if (ns <= 1) return '';
	const units = [['s', 1e9], ['ms', 1e6], ['µs', 1e3], ['ns', 1]];
	const [u, d] = units.find(([, d]) => ns >= d);
	return (ns / d).toFixed(ns / d >= 100 || d === 1 ? 0 : ns / d >= 10 ? 1 : 2) + ' ' + u;
}
const hex = n => n < 0 ? '' : '0x' + n.toString(16);
function color(name) {
	let h = 2166136261;
	for (let i = 0; i < name.length; i++) h = Math.imul(h ^ name.charCodeAt(i), 16777619) >>> 0;
	return `hsl(${h % 360},52%,80%)`;
}
const short = name => name.replace(/^.*(::|\.)(?=[^:.]+$)/, '');
const opLink = i => link('op/' + i, R.ops[i].name);
const tensorText = t => `${R.tensors[t].shape || '?'} ${R.tensors[t].dtype.toLowerCase()}`;
const tensorLink = t => [link('tensor/' + t, 'tensor ' + R.tensors[t].id), ' ', el('span', {class: 'note'}, tensorText(t), ' ', R.tensors[t].memory)];
const list = (items, none = 'none') => items.length ? items.map((x, i) => [i ? ', ' : '', x]) : el('span', {class: 'note'}, none);
const capacity = R.devices.length ? Math.min(...R.devices.map(d => d.l1)) : 0;

const inside = R.ops.map(() => []); // the calls in each call
R.ops.forEach((o, i) => { if (o.parent >= 0) inside[o.parent].push(i); });

// table is a table that sorts by the column that is clicked; a column is [title, cell, value, number].
function table(id, columns, rows, sorted) {
	let by = sorted ? sorted[0] : -1, down = sorted ? sorted[1] : false;
	const body = el('tbody'), most = 3000;
	const head = el('tr', {}, columns.map(([title, , , number], i) => el('th', {class: number ? 'n' : '', onclick: () => {
		down = by === i ? !down : number; by = i; fill();
	}}, title)));
	function fill() {
		let r = rows;
		if (by >= 0) {
			const value = columns[by][2];
			r = rows.map((x, i) => [value(x), i, x]).sort((a, b) => (a[0] < b[0] ? -1 : a[0] > b[0] ? 1 : a[1] - b[1]) * (down ? -1 : 1)).map(x => x[2]);
		}
		[...head.children].forEach((h, i) => { h.textContent = columns[i][0] + (i === by ? down ? ' ▾' : ' ▴' : ''); });
		body.replaceChildren(...r.slice(0, most).map(x => el('tr', {}, columns.map(([, cell, , number]) => el('td', {class: number ? 'n' : ''}, cell(x))))));
		if (r.length > most) body.append(el('tr', {}, el('td', {class: 'note', colspan: columns.length}, `${r.length - most} more: narrow the search`)));
	}
	fill();
	return {element: el('table', {id}, el('thead', {}, head), body), set(r) { rows = r; fill(); }};
}

// filter keeps the rows whose text has every word of a search.
const filter = (rows, text, words) => {
	const all = words.toLowerCase().split(/\s+/).filter(Boolean);
	return rows.filter(r => { const s = text(r).toLowerCase(); return all.every(w => s.includes(w)); });
};

const state = {search: '', nested: false, tensors: '', level: 1, open: new Set(), closed: new Set(), core: null, at: -1};

function tiles() {
	return el('div', {class: 'tiles'}, R.peaks.map(p => el('div', {class: 'tile'}, el('span', {class: 'note'}, p.name), el('b', {}, bytes(p.bytes)))),
		el('div', {class: 'tile'}, el('span', {class: 'note'}, 'time in functions'), el('b', {}, time(R.total) || '–')));
}

const pages = {
	ops() {
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
	},

	op(n) {
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
	},

	tensors() {
		const rows = () => filter(R.tensors.map((_, i) => i), i => { const t = R.tensors[i]; return [t.id, t.shape, t.dtype, t.layout, t.memory, ...t.makers.concat(t.takers).map(k => R.ops[k].name)].join(' '); }, state.tensors);
		const t = table('tensors', [
			['tensor', i => link('tensor/' + i, R.tensors[i].id), i => i], ['shape', i => R.tensors[i].shape, i => R.tensors[i].shape], ['type', i => R.tensors[i].dtype, i => R.tensors[i].dtype],
			['layout', i => R.tensors[i].layout, i => R.tensors[i].layout], ['memory', i => R.tensors[i].memory, i => R.tensors[i].memory], ['address', i => hex(R.tensors[i].address), i => R.tensors[i].address, true],
			['size', i => bytes(R.tensors[i].size), i => R.tensors[i].size, true], ['made by', i => list(R.tensors[i].makers.filter(operation).map(opLink), 'before'), i => R.tensors[i].makers[0] ?? -1],
			['taken by', i => list(R.tensors[i].takers.filter(operation).slice(0, 6).map(opLink), 'none'), i => R.tensors[i].takers.length],
			['freed late', i => late(i) ? `${late(i)} operations` : '', late, true],
		], rows());
		show(el('div', {class: 'bar'}, el('input', {type: 'search', id: 'search', placeholder: 'shape, type, memory, operation', value: state.tensors, oninput: e => { state.tensors = e.target.value; t.set(rows()); }}), el('span', {class: 'note'}, `${R.tensors.length} tensors`)), t.element);
	},

	tensor(n) {
		const t = R.tensors[Number(n)];
		if (!t) return missing('tensor ' + n);
		const b = R.buffers[t.buffer];
		show(el('p', {class: 'note'}, link('tensors', 'tensors')), el('h2', {}, 'tensor ' + t.id),
			el('table', {class: 'plain'}, [['shape', t.shape], ['type', t.dtype], ['layout', t.layout], ['memory', t.memory], ['address', hex(t.address)], ['size', bytes(t.size)], ['configuration', t.config || '']].map(([k, v]) => el('tr', {}, el('td', {class: 'note'}, k), el('td', {}, v)))),
			b && el('p', {}, `Its buffer takes ${bytes(b.bank)} in the fullest bank, from event ${b.from} `, b.to < R.nodes ? `to ${b.to}` : 'on', b.late ? el('span', {class: 'error', id: 'late'}, `; ${b.late} operations ran after its last use before it was freed`) : '', '.'),
			el('h3', {}, 'Made by'), el('p', {}, list(t.makers.map(opLink), 'it was there before the capture')), el('h3', {}, 'Taken by'), el('p', {}, list(t.takers.map(opLink), 'no operation')));
	},

	memory(at) {
		const lines = [];
		const width = () => Math.max(main.clientWidth - 40, 400);
		const marks = R.buffers.filter(b => b.late);
		const opAt = x => { let best = -1; R.ops.forEach((o, i) => { if (o.from <= x && x <= o.to) best = i; }); return best; };
		const where = el('p', {id: 'where', class: 'note'}, 'Drag to zoom, double-click for all; click an event for its operation.');
		const plot = (id, title, series, limit, markDRAM) => {
			const box = el('div', {id});
			const top = Math.max(1, ...series.flatMap(s => s.values));
			const high = limit && limit < top * 4 ? Math.max(limit, top) : top;
			const opts = {
				title, width: width(), height: 240, cursor: {sync: {key: 'events'}, drag: {x: true, y: false}}, scales: {x: {time: false}, y: {range: () => [0, high * 1.06]}},
				axes: [{label: 'event', labelSize: 20}, {label: 'bytes', size: 90, values: (u, v) => v.map(bytes), splits: () => ticks(high)}],
				series: [{label: 'event'}, ...series.map(s => ({label: s.name, stroke: s.color, fill: s.fill, width: 1.5, paths: uPlot.paths.stepped({align: 1}), value: (u, v) => v === null ? '' : bytes(v), points: {show: false}}))],
				hooks: {
					draw: [u => {
						const c = u.ctx, px = devicePixelRatio;
						c.save();
						if (limit && limit <= high * 1.06) {
							const y = u.valToPos(limit, 'y', true);
							c.strokeStyle = '#b00020'; c.setLineDash([6 * px, 4 * px]); c.beginPath(); c.moveTo(u.bbox.left, y); c.lineTo(u.bbox.left + u.bbox.width, y); c.stroke();
							c.fillStyle = '#b00020'; c.textAlign = 'left'; c.font = `${11 * px}px sans-serif`; c.fillText('capacity ' + bytes(limit), u.bbox.left + 6 * px, y - 4 * px);
						}
						c.setLineDash([]); c.fillStyle = '#b00020';
						for (const b of marks) {
							if ((b.kind === 'DRAM') !== markDRAM) continue;
							const x = u.valToPos(Math.min(b.to, R.nodes - 1), 'x', true);
							if (x < u.bbox.left || x > u.bbox.left + u.bbox.width) continue;
							c.beginPath(); c.moveTo(x, u.bbox.top + u.bbox.height); c.lineTo(x - 4 * px, u.bbox.top + u.bbox.height + 7 * px); c.lineTo(x + 4 * px, u.bbox.top + u.bbox.height + 7 * px); c.fill();
						}
						c.restore();
					}],
					setCursor: [u => {
						if (u.cursor.idx === null || u.cursor.idx === undefined) return;
						const x = R.curves.at[u.cursor.idx], o = opAt(x);
						where.replaceChildren(`event ${x}: `, o >= 0 ? opLink(o) : 'outside of functions', ` · L1 ${bytes(R.curves.l1[u.cursor.idx])} · DRAM ${bytes(R.curves.dram[u.cursor.idx])}`);
					}],
				},
			};
			setTimeout(() => {
				const u = new uPlot(opts, [R.curves.at, ...series.map(s => s.values)], box);
				if (at) u.setScale('x', {min: Math.max(0, at - 40), max: Math.min(R.nodes, Number(at) + 60)});
				lines.push(u);
				u.over.addEventListener('click', () => { const x = u.posToVal(u.cursor.left, 'x'), o = opAt(Math.round(x)); if (o >= 0 && !u.select.width) location.hash = '#/op/' + o; });
			});
			return box;
		};
		const lateRows = R.buffers.map((b, k) => k).filter(k => R.buffers[k].late).sort((a, b) => R.buffers[b].late * R.buffers[b].bank - R.buffers[a].late * R.buffers[a].bank);
		show(where,
			plot('l1', 'L1 of the fullest core', [{name: 'buffers', color: '#1668b4', fill: 'rgba(22,104,180,.16)', values: R.curves.buffers}, {name: 'with what programs take', color: '#c2570c', values: R.curves.l1}], capacity, false),
			!R.curves.dram.some(v => v) ? el('p', {class: 'note', id: 'dram'}, 'The capture allocated nothing in DRAM.') : plot('dram', 'DRAM, all banks', [{name: 'buffers', color: '#4d7c0f', fill: 'rgba(77,124,15,.14)', values: R.curves.dram}], R.devices.length ? R.devices[0].dram : 0, true),
			el('h3', {}, 'Freed late'), el('p', {class: 'note'}, 'Operations ran after the last use of these before they were freed; red marks under the plots are their ends.'),
			lateRows.length ? bufferTable('late', lateRows) : el('p', {class: 'note'}, 'none'));
	},

	cores() {
		const [w, h] = R.cores;
		if (!w || !h) return show(el('p', {}, 'The report names no cores.'));
		const size = Math.max(14, Math.min(54, Math.floor((main.clientWidth - 60) / w)));
		const grid = el('svg', {id: 'grid', width: w * size + 26, height: h * size + 22}), info = el('div', {id: 'core'});
		const slider = el('input', {type: 'range', min: -1, max: R.curves.at.length - 1, value: state.at, id: 'at', style: 'width:28em', oninput: e => { state.at = Number(e.target.value); draw(); }});
		const label = el('span', {class: 'note'});
		function draw() {
			const peak = state.at < 0, at = peak ? 0 : R.curves.at[state.at], use = coreUse(peak ? null : at);
			label.textContent = peak ? 'peak of each core' : `at event ${at}`;
			const top = Math.max(capacity, ...use.flat(), 1);
			grid.replaceChildren();
			for (let y = 0; y < h; y++) for (let x = 0; x < w; x++) {
				const v = use[y][x], f = v / top;
				const r = el('rect', {class: 'core' + (state.core && state.core[0] === x && state.core[1] === y ? ' sel' : ''), 'data-core': x + ',' + y, x: 24 + x * size, y: y * size, width: size - 1, height: size - 1,
					fill: f > 1 ? '#b00020' : v ? `hsl(210,70%,${94 - 54 * f}%)` : '#f1f2f4', onclick: () => { state.core = [x, y]; draw(); }}, el('title', {}, `core ${x},${y}\n${bytes(v)}`));
				grid.append(r);
				if (size >= 40 && v) grid.append(el('text', {x: 28 + x * size, y: y * size + size / 2 + 3, style: `font-size:9px;fill:${f > .5 ? '#fff' : '#1d2433'}`}, bytes(v)));
			}
			for (let x = 0; x < w; x++) grid.append(el('text', {x: 24 + x * size + size / 2 - 4, y: h * size + 14}, x));
			for (let y = 0; y < h; y++) grid.append(el('text', {x: 4, y: y * size + size / 2 + 4}, y));
			info.replaceChildren();
			if (state.core) {
				const [x, y] = state.core, on = R.buffers.map((b, k) => k).filter(k => part(R.buffers[k], x, y) && (peak || R.buffers[k].from <= at && at < R.buffers[k].to));
				info.append(el('h3', {}, `Core ${x},${y}: ${bytes(use[y][x])}`), on.length ? bufferTable('oncore', on, b => part(b, x, y)) : el('p', {class: 'note'}, 'nothing of this report is on it'));
			}
		}
		const unknown = R.buffers.filter(b => b.kind.startsWith('L1') && b.place < 0).length;
		show(el('div', {class: 'bar'}, slider, label), capacity > 0 && el('p', {class: 'note'}, `The darkest blue is the capacity of ${bytes(capacity)}; red is more. Click a core for what is on it.`),
			unknown > 0 && el('p', {class: 'note'}, `${unknown} sharded buffers have no pages in the report, so their cores aren't known.`), grid, info);
		draw();
	},

	core(n) {
		const [x, y] = n.split(',').map(Number);
		if (!(x >= 0 && x < R.cores[0] && y >= 0 && y < R.cores[1])) return missing(`core ${n} (the grid has ${R.cores[0]} by ${R.cores[1]})`);
		state.core = [x, y];
		pages.cores();
	},

	flow(focus) { flow(focus === undefined || focus === '' ? -1 : Number(focus)); },
};

const missing = what => show(el('p', {class: 'error'}, `There is no ${what} in this report.`));

// top reports whether a call is an operation: it has only loops and traces around it.
function top(i) {
	for (let p = R.ops[i].parent; p >= 0; p = R.ops[p].parent) if (!R.ops[p].group) return false;
	return true;
}
const operation = i => top(i) && !R.ops[i].group;
const late = t => R.tensors[t].buffer >= 0 ? R.buffers[R.tensors[t].buffer].late || 0 : 0;

function ticks(high) {
	let step = 1;
	while (high / step > 6) step *= step < 1024 ? 4 : 2;
	const out = [];
	for (let v = 0; v <= high * 1.06; v += step) out.push(v);
	return out;
}

const byPlace = R.places.map(() => null);
function part(b, x, y) {
	if (b.place < 0) return null;
	byPlace[b.place] ??= new Map(R.places[b.place].map(c => [c.x + ',' + c.y, c]));
	return byPlace[b.place].get(x + ',' + y);
}

// coreUse returns the bytes in use on each core at an event, or without one each core's peak.
function coreUse(at) {
	const [w, h] = R.cores, use = Array.from({length: h}, () => new Array(w).fill(0)), peak = Array.from({length: h}, () => new Array(w).fill(0));
	const device = R.devices.length ? R.devices[0].id : null;
	const several = new Set(R.devices.map(d => d.id)).size > 1;
	const add = (b, sign) => { for (const c of R.places[b.place]) if (c.x < w && c.y < h) { use[c.y][c.x] += sign * c.s; peak[c.y][c.x] = Math.max(peak[c.y][c.x], use[c.y][c.x]); } };
	const live = R.buffers.filter(b => b.place >= 0 && !b.inside && (!several || b.device === device || !R.devices.some(d => d.id === b.device)));
	if (at !== null) { live.filter(b => b.from <= at && at < b.to).forEach(b => add(b, 1)); return use; }
	live.flatMap(b => [[b.from, 1, b], [b.to, 0, b]]).sort((a, b) => a[0] - b[0] || a[1] - b[1]).forEach(([, start, b]) => add(b, start ? 1 : -1));
	return peak;
}

// source is the lines around a line of a source file.
const source = f => [el('p', {class: 'note'}, `${f.path}:${f.line}`), el('div', {class: 'stack', id: 'source'}, f.lines.map((l, i) => el('div', {class: f.first + i === f.line ? 'this' : ''}, `${String(f.first + i).padStart(5)}  ${l}`)))];

function bufferTable(id, rows, on) {
	const size = k => on ? on(R.buffers[k]).s : R.buffers[k].bank;
	const address = k => R.buffers[k].address + (on ? on(R.buffers[k]).o : 0);
	return table(id, [
		['kind', k => [R.buffers[k].kind, R.buffers[k].inside ? el('span', {class: 'note'}, ' in a buffer') : ''], k => R.buffers[k].kind], ['layout', k => R.buffers[k].layout || R.buffers[k].cores || '', k => R.buffers[k].layout || ''],
		['device', k => R.buffers[k].device, k => R.buffers[k].device, true], ['address', k => hex(address(k)), address, true], [on ? 'on this core' : 'in a bank', k => bytes(size(k)), size, true],
		['in all', k => bytes(R.buffers[k].size), k => R.buffers[k].size, true], ['from event', k => R.buffers[k].from, k => R.buffers[k].from, true], ['to', k => R.buffers[k].to < R.nodes ? R.buffers[k].to : 'the end', k => R.buffers[k].to, true],
		['late by', k => R.buffers[k].late ? `${R.buffers[k].late} operations` : '', k => R.buffers[k].late || 0, true], ['allocated in', k => R.buffers[k].op >= 0 ? opLink(R.buffers[k].op) : '', k => R.buffers[k].op],
		['tensors', k => list((R.buffers[k].tensors || []).slice(0, 4).map(t => link('tensor/' + t, R.tensors[t].id)), ''), k => (R.buffers[k].tensors || [])[0] ?? -1],
	], rows).element;
}

// The data flow: calls up to a level as boxes, calls that are open as frames around those inside, tensors from outside beside
// what takes them. Edges have the shapes of tensors and go around boxes, because dagre routes them through the ranks.
function visible() {
	const leaves = [], frames = [];
	const walk = (i, level, frame) => {
		const o = R.ops[i], kids = inside[i];
		const open = kids.length > 0 && !state.closed.has(i) && (o.group || level < state.level || state.open.has(i));
		if (!open) { leaves.push({op: i, frame}); return; }
		frames.push({op: i, frame});
		for (const k of kids) walk(k, o.group ? level : level + 1, i);
	};
	R.ops.forEach((o, i) => { if (o.parent < 0) walk(i, 1, -1); });
	return {leaves, frames};
}

function layout() {
	const {leaves, frames} = visible();
	const g = new dagre.graphlib.Graph({multigraph: true});
	// Without align, dagre takes the mean of four placements, of which two drift to the right with each skip connection.
	g.setGraph({rankdir: 'TB', align: 'UL', nodesep: 18, ranksep: 34, edgesep: 12, marginx: 20, marginy: 20, ranker: leaves.length > 600 ? 'longest-path' : 'network-simplex'});
	g.setDefaultEdgeLabel(() => ({}));
	const made = new Map(), edges = [], sources = [], rank = new Map();
	leaves.forEach(({op}, order) => {
		rank.set(op, order);
		for (const t of R.ops[op].in) {
			if (made.has(t)) edges.push([made.get(t), op, t]);
			else sources.push([t, op]);
		}
		for (const t of R.ops[op].out) made.set(t, op);
	});
	const linked = new Set(edges.flatMap(e => [e[0], e[1]]).concat(sources.map(s => s[1])));
	const shown = leaves.filter(l => linked.has(l.op) || R.ops[l.op].error || leaves.length === 1);
	const inFrame = new Set();
	const up = f => { while (f >= 0 && !inFrame.has(f)) { inFrame.add(f); f = frames.find(x => x.op === f).frame; } };
	shown.forEach(l => up(l.frame));
	for (const l of shown) {
		g.setNode('o' + l.op, {kind: 'op', op: l.op, width: 168, height: 36});
	}
	sources.forEach(([t, op], k) => { // one box for each use, so that weights stay beside their consumers
		g.setNode('t' + k, {kind: 'tensor', tensor: t, width: Math.max(60, 26 + 6.8 * Math.min(R.tensors[t].shape.length, 24)), height: 24});
		g.setEdge('t' + k, 'o' + op, {tensor: t, weight: 3, minlen: 1}, 's' + k);
	});
	edges.forEach(([a, b, t], k) => g.setEdge('o' + a, 'o' + b, {tensor: t, weight: rank.get(b) - rank.get(a) < 3 ? 4 : 1, width: 70, height: 12, labelpos: 'r', label: true, skip: rank.get(b) - rank.get(a) > 2}, 'e' + k));
	dagre.layout(g);
	// Frames are around the boxes that are laid out, the innermost first: dagre's own ones pull long graphs apart.
	const boxes = new Map(), parent = new Map(frames.map(f => [f.op, f.frame])), pad = 14;
	const grow = (f, x0, y0, x1, y1) => {
		const b = boxes.get(f) || {kind: 'frame', op: f, x0, y0, x1, y1};
		boxes.set(f, Object.assign(b, {x0: Math.min(b.x0, x0), y0: Math.min(b.y0, y0), x1: Math.max(b.x1, x1), y1: Math.max(b.y1, y1)}));
	};
	for (const {op, frame} of shown) {
		const n = g.node('o' + op);
		if (frame >= 0) grow(frame, n.x - n.width / 2, n.y - n.height / 2, n.x + n.width / 2, n.y + n.height / 2);
	}
	const depth = f => { let d = 0; for (let p = parent.get(f); p >= 0; p = parent.get(p)) d++; return d; };
	const inward = [...inFrame].sort((a, b) => depth(b) - depth(a));
	for (const f of inward) {
		const b = boxes.get(f);
		if (!b) continue;
		b.x0 -= pad; b.x1 += pad; b.y0 -= pad + 8; b.y1 += pad;
		if (parent.get(f) >= 0) grow(parent.get(f), b.x0, b.y0, b.x1, b.y1);
	}
	return {g, alone: leaves.length - shown.length, frames: inward.reverse().map(f => boxes.get(f)).filter(Boolean)};
}

function flow(focus) {
	const view = el('div', {class: 'view', id: 'flow', style: 'height:' + Math.max(innerHeight - 190, 320) + 'px'});
	const svg = el('svg', {});
	const root = el('g', {});
	view.append(svg);
	let at = {x: 0, y: 0, k: 1}, extent = {width: 1, height: 1};
	const place = () => root.setAttribute('transform', `translate(${at.x},${at.y}) scale(${at.k})`);
	const fit = () => { const k = Math.min(view.clientWidth / extent.width, view.clientHeight / extent.height, 1.2); at = {k, x: (view.clientWidth - extent.width * k) / 2, y: 8}; place(); };
	// start shows all if it can be read, and otherwise the first operations.
	const start = () => {
		fit();
		if (at.k < 0.5) { const k = Math.min(view.clientWidth / extent.width, 1); at = {k: Math.max(k, 0.5), x: 0, y: 8}; at.x = (view.clientWidth - extent.width * at.k) / 2; place(); }
	};
	const zoom = (factor, x, y) => { const k = Math.min(Math.max(at.k * factor, 0.02), 4); at = {k, x: x - (x - at.x) * k / at.k, y: y - (y - at.y) * k / at.k}; place(); };
	view.addEventListener('wheel', e => { e.preventDefault(); const r = view.getBoundingClientRect(); zoom(Math.exp(-e.deltaY / 400), e.clientX - r.left, e.clientY - r.top); }, {passive: false});
	let drag = null;
	view.addEventListener('pointerdown', e => { drag = {x: e.clientX - at.x, y: e.clientY - at.y}; });
	view.addEventListener('pointermove', e => { if (drag) { at.x = e.clientX - drag.x; at.y = e.clientY - drag.y; place(); } });
	view.addEventListener('pointerup', () => { drag = null; });
	view.addEventListener('pointerleave', () => { drag = null; });
	const focusOn = (g, op) => {
		const n = g.node('o' + op);
		if (!n) return false;
		at = {k: 1, x: view.clientWidth / 2 - n.x, y: view.clientHeight / 3 - n.y};
		place();
		return true;
	};
	function draw(keep) {
		const {g, frames, alone} = layout();
		extent = {width: g.graph().width || 1, height: g.graph().height || 1};
		root.replaceChildren(el('defs', {}, el('marker', {id: 'arrow', viewBox: '0 0 8 8', refX: 7, refY: 4, markerWidth: 7, markerHeight: 7, orient: 'auto'}, el('path', {d: 'M0,0 L8,4 L0,8 z', fill: '#667085'}))));
		const nodes = g.nodes().map(v => g.node(v)).filter(Boolean);
		for (const b of frames) {
			const o = R.ops[b.op];
			root.append(el('g', {class: 'group' + (o.group ? ' loop' : ''), 'data-op': b.op}, el('rect', {x: b.x0, y: b.y0, width: b.x1 - b.x0, height: b.y1 - b.y0, rx: 6}),
				el('text', {class: 'more', x: b.x0 + 8, y: b.y0 + 13, onclick: e => { e.stopPropagation(); state.closed.add(b.op); state.open.delete(b.op); draw(true); }}, '− ' + (o.group ? '⟳ ' : '') + o.name, el('title', {}, 'close'))));
		}
		for (const e of g.edges()) {
			const d = g.edge(e), p = d.points || [];
			if (p.length < 2) continue;
			let path = `M${p[0].x},${p[0].y}`;
			for (let i = 1; i < p.length - 1; i++) path += ` Q${p[i].x},${p[i].y} ${(p[i].x + p[i + 1].x) / 2},${(p[i].y + p[i + 1].y) / 2}`;
			path += ` L${p[p.length - 1].x},${p[p.length - 1].y}`;
			root.append(el('g', {class: 'edge' + (d.skip ? ' skip' : '')}, el('path', {d: path, 'marker-end': 'url(#arrow)'}, el('title', {}, `tensor ${R.tensors[d.tensor].id} ${tensorText(d.tensor)} ${R.tensors[d.tensor].memory}`)),
				d.label && el('text', {x: d.x - 30, y: d.y + 4}, R.tensors[d.tensor].shape)));
		}
		for (const n of nodes) {
			if (n.kind === 'op') {
				const o = R.ops[n.op], kids = inside[n.op].length;
				root.append(el('g', {class: 'op' + (kids ? ' inner' : '') + (n.op === focus ? ' sel' : ''), 'data-op': n.op, transform: `translate(${n.x - n.width / 2},${n.y - n.height / 2})`},
					el('rect', {width: n.width, height: n.height, rx: 5, fill: o.error ? '#f6c7cd' : color(short(o.name)), ondblclick: () => { location.hash = '#/op/' + n.op; }, onclick: () => pick(n.op)}, el('title', {}, `${o.name}\n${time(o.took)}`)),
					el('text', {x: 8, y: 15}, clip(short(o.name), kids ? 21 : 24)), el('text', {x: 8, y: 29, style: 'fill:#667085;font-size:10px'}, [time(o.took), o.out.length ? R.tensors[o.out[0]].shape : ''].filter(Boolean).join('  ')),
					kids > 0 && el('text', {class: 'more', x: n.width - 16, y: 16, onclick: e => { e.stopPropagation(); state.open.add(n.op); state.closed.delete(n.op); draw(true); }}, '+', el('title', {}, 'open'))));
			} else if (n.kind === 'tensor') {
				root.append(el('g', {class: 'src', 'data-tensor': n.tensor, transform: `translate(${n.x - n.width / 2},${n.y - n.height / 2})`}, el('rect', {width: n.width, height: n.height, rx: 10, onclick: () => { location.hash = '#/tensor/' + n.tensor; }},
					el('title', {}, `tensor ${R.tensors[n.tensor].id}\n${tensorText(n.tensor)} ${R.tensors[n.tensor].memory}`)), el('text', {x: 8, y: 16}, clip(R.tensors[n.tensor].shape || 'tensor', 24))));
			}
		}
		place();
		if (!keep && !(focus >= 0 && focusOn(g, focus))) start();
		count.textContent = `${nodes.filter(n => n.kind === 'op').length} operations, ${g.edgeCount()} edges` + (alone ? `; ${alone} calls that no tensor joins to others aren't drawn` : '');
	}
	const picked = el('span', {id: 'picked'});
	const pick = i => picked.replaceChildren(opLink(i), ' ', el('span', {class: 'note'}, `${time(R.ops[i].took)} · L1 at its peak ${bytes(R.ops[i].l1Peak)}`));
	const count = el('span', {class: 'note', id: 'count'});
	const deepest = Math.max(1, ...R.ops.map(o => o.depth + 1));
	if (focus >= 0 && R.ops[focus]) for (let p = R.ops[focus].parent; p >= 0; p = R.ops[p].parent) { state.open.add(p); state.closed.delete(p); }
	svg.append(root);
	show(el('div', {class: 'bar'}, el('label', {}, 'open up to level ', el('select', {id: 'level', onchange: e => { state.level = Number(e.target.value); state.open.clear(); state.closed.clear(); draw(); }},
		Array.from({length: Math.min(deepest, 8)}, (_, k) => el('option', {value: k + 1, ...(state.level === k + 1 ? {selected: ''} : {})}, k + 1)))),
		el('button', {id: 'fit', onclick: fit}, 'all'), el('button', {onclick: () => zoom(1.4, view.clientWidth / 2, view.clientHeight / 2)}, '+'), el('button', {onclick: () => zoom(1 / 1.4, view.clientWidth / 2, view.clientHeight / 2)}, '−'), count, picked),
		view, el('p', {class: 'note'}, 'Drag to move, wheel to zoom; + opens what an operation calls. Violet edges skip operations; dashed boxes are tensors from before the capture or from outside of functions.'));
	draw();
}
const clip = (s, n) => s.length > n ? s.slice(0, n - 1) + '…' : s;

function route() {
	const [, page, arg] = (location.hash || '#/ops').match(/^#\/([a-z]+)\/?(.*)$/) || [null, 'ops', ''];
	document.getElementById('nav').replaceChildren(...[['ops', 'operations'], ['tensors', 'tensors'], ['memory', 'memory'], ['cores', 'cores'], ['flow', 'data flow']].map(([p, name]) =>
		el('a', {href: '#/' + p, class: p === page || {op: 'ops', tensor: 'tensors', core: 'cores'}[page] === p ? 'here' : ''}, name)));
	(pages[page] || (() => missing('page ' + page)))(decodeURIComponent(arg || ''));
	document.body.dataset.page = page;
	scrollTo(0, 0);
}
document.getElementById('facts').textContent = [`${R.ops.length} calls`, `${R.nodes} events`, `format ${R.format}`, ...R.devices.map(d => `device ${d.id} ${d.arch}`).slice(0, 2), R.devices.length > 2 ? `${R.devices.length} devices` : '', R.captured].filter(Boolean).join(' · ');
addEventListener('hashchange', route);
route();
})();
