// What all pages use. The report is the document of model.go.
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

// A chip is chosen for all pages that show memory: at first the one whose L1 is the fullest. live says whether a buffer is on it.
const most = values => values.reduce((a, b) => Math.max(a, b), 0);
state.chip = R.chips.reduce((best, c, i) => most(c.l1) > most(R.chips[best].l1) ? i : best, 0);
const chip = () => R.chips[state.chip];
const live = b => chip().devices.includes(b.device);
const device = () => R.devices.find(d => d.id === chip().id) || R.devices[0];
const capacity = () => device() ? device().l1 : 0;
function chipSelector(draw) {
	if (R.chips.length < 2) return null;
	const title = c => { const d = R.devices.find(d => d.id === c.id); return `chip ${c.id}${d && d.arch ? ' ' + d.arch : ''}${c.place ? ' at ' + c.place : ''}, L1 up to ${bytes(most(c.l1))}`; };
	return el('label', {}, el('select', {id: 'chip', onchange: e => { state.chip = Number(e.target.value); draw(); }}, R.chips.map((c, i) => el('option', {value: i, selected: i === state.chip ? '' : null}, title(c)))));
}

function tiles() {
	return el('div', {class: 'tiles'}, R.peaks.map(p => el('div', {class: 'tile'}, el('span', {class: 'note'}, p.name), el('b', {}, bytes(p.bytes)),
		p.inBuffers > 0 && el('span', {class: 'note', id: 'twice'}, `${bytes(p.inBuffers)} of it are circular buffers in buffers, counted twice`))),
		el('div', {class: 'tile'}, el('span', {class: 'note'}, 'time in functions'), el('b', {}, time(R.total) || '–')));
}

// pages are the pages by their names in the address.
const pages = {};

const missing = what => show(el('p', {class: 'error'}, `There is no ${what} in this report.`));

// top reports whether a call is an operation: it has only loops and traces around it.
function top(i) {
	for (let p = R.ops[i].parent; p >= 0; p = R.ops[p].parent) if (!R.ops[p].group) return false;
	return true;
}
const operation = i => top(i) && !R.ops[i].group;
const late = t => R.tensors[t].buffer >= 0 ? R.buffers[R.tensors[t].buffer].late || 0 : 0;

const byPlace = R.places.map(() => null);
function part(b, x, y) {
	if (b.place < 0) return null;
	byPlace[b.place] ??= new Map(R.places[b.place].map(c => [c.x + ',' + c.y, c]));
	return byPlace[b.place].get(x + ',' + y);
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
