// Plots over time or over events, with one axis: what is zoomed or pointed at in one is so in all of a page.

// instants are when each event was, in nanoseconds: what functions' starts and ends say, and evenly between them.
const instants = (() => {
	const t = new Array(R.nodes + 1).fill(null);
	t[0] = 0;
	t[R.nodes] = R.total;
	for (const o of R.ops) { t[o.from] = o.start; t[o.to] = Math.max(t[o.to] ?? 0, o.start + o.took); }
	for (let i = 1, known = 0; i <= R.nodes; i++) {
		if (t[i] === null) continue;
		t[i] = Math.max(t[i], t[known]);
		for (let k = known + 1; k < i; k++) t[k] = t[known] + (t[i] - t[known]) * (k - known) / (i - known);
		known = i;
	}
	return t;
})();
const timed = R.total > 4 * R.ops.length; // without durations, every call takes a nanosecond
state.events = !timed;
const axisName = () => state.events ? 'events' : 'time';
const at = event => state.events ? event : instants[event];
const end = () => at(R.nodes);
// eventAt is the last event up to a place on the axis.
function eventAt(x) {
	let low = 0, high = R.nodes - 1;
	while (low < high) { const mid = (low + high + 1) >> 1; if (at(mid) <= x) low = mid; else high = mid - 1; }
	return low;
}
// opAt is the innermost call at an event, or -1.
function opAt(event) { let best = -1; R.ops.forEach((o, i) => { if (o.from <= event && event <= o.to) best = i; }); return best; }
const moment = event => timed ? `${time(instants[event]) || '0 ns'} (event ${event})` : `event ${event}`;

// times spells the ticks of an axis in one unit, with as many digits as their distance needs.
function times(u, ticks) {
	const high = Math.max(...ticks.map(Math.abs), 1), step = ticks.length > 1 ? ticks[1] - ticks[0] : high;
	const [unit, size] = [['s', 1e9], ['ms', 1e6], ['µs', 1e3], ['ns', 1]].find(([, d]) => high >= d);
	const digits = Math.min(6, Math.max(0, Math.ceil(-Math.log10(step / size) - 1e-9)));
	return ticks.map(t => `${(t / size).toFixed(Math.abs(Math.round(step / size * 10 ** digits) - step / size * 10 ** digits) < 1e-6 ? digits : digits + 1)} ${unit}`);
}

function ticks(high) {
	let step = 1;
	while (high / step > 6) step *= step < 1024 ? 4 : 2;
	const out = [];
	for (let v = 0; v <= high * 1.2; v += step) out.push(v);
	return out;
}

// squeeze maps addresses to places on an axis on which unused ranges are short. It returns place and its inverse, the length,
// and the ranges in use.
function squeeze(spans) {
	const used = [];
	for (const [low, high] of spans.slice().sort((a, b) => a[0] - b[0])) {
		const last = used[used.length - 1];
		if (last && low <= last.high) last.high = Math.max(last.high, high); else used.push({low, high});
	}
	const total = used.reduce((n, u) => n + u.high - u.low, 0), gap = Math.max(total * .08, 1);
	let p = 0;
	used.forEach((u, i) => { if (i) p += Math.min(u.low - used[i - 1].high, gap); u.at = p; p += u.high - u.low; });
	const place = a => { let k = 0; while (k + 1 < used.length && used[k + 1].low <= a) k++; return used[k].at + a - used[k].low; };
	const address = p => { let k = 0; while (k + 1 < used.length && used[k + 1].at <= p) k++; return used[k].low + p - used[k].at; };
	return {used, length: Math.max(p, 1), place, address};
}

let plots = null; // those of the page that is shown

// Plots are the plots of a page. note says what is pointed at.
class Plots {
	constructor() {
		if (plots) plots.close();
		plots = this;
		this.all = [];
		this.note = el('p', {id: 'where', class: 'note'});
		this.help();
	}
	help() { this.note.replaceChildren('Drag to zoom, double-click for all; click a function, a buffer or an event for its page.'); }
	close() { for (const u of this.all) u.destroy(); this.all = []; }

	// make makes a plot when its box is in the page.
	make(id, opts, data, y) {
		const box = el('div', {id, class: 'plot'}), self = this;
		let down = [0, 0];
		Object.assign(opts, {
			width: Math.max(main.clientWidth - 8, 400), legend: {show: false},
			cursor: {sync: {key: 'events', filters: {pub: type => type === 'mousemove' || type === 'mouseleave'}}, drag: {x: true, y: !!y, uni: 24}, points: {show: false},
				bind: {dblclick: u => () => { u.setScale('x', {min: 0, max: end()}); if (y) u.setScale('y', {min: y[0], max: y[1]}); return null; }}},
		});
		opts.scales.x = {time: false, range: (u, low, high) => [low, high]};
		const values = (u, ticks) => {
			const text = state.events ? ticks.map(String) : times(u, ticks);
			box.setAttribute('aria-label', `${id} from ${text[0]} to ${text[text.length - 1]}`);
			return text;
		};
		opts.axes[0] = {label: state.events ? 'event' : 'time of the host in functions', labelSize: 20, size: 34, values};
		opts.hooks.setScale = [(u, key) => {
			if (key !== 'x') return;
			for (const o of self.all) if (o !== u && (o.scales.x.min !== u.scales.x.min || o.scales.x.max !== u.scales.x.max)) o.setScale('x', {min: u.scales.x.min, max: u.scales.x.max});
		}];
		setTimeout(() => {
			if (!box.isConnected) return;
			const u = new uPlot(opts, data, box);
			this.all.push(u);
			u.over.addEventListener('mousedown', e => { down = [e.clientX, e.clientY]; });
			u.over.addEventListener('click', e => { if (Math.hypot(e.clientX - down[0], e.clientY - down[1]) < 4 && opts.pick) opts.pick(u); });
			u.over.addEventListener('mouseleave', () => this.help());
			if (this.zoom) u.setScale('x', this.zoom);
		});
		return box;
	}

	// curve draws bytes in use over time. limit is the capacity, marks are events to mark below.
	curve(id, title, curves, limit, marks) {
		const top = Math.max(1, ...curves.map(c => most(c.values)));
		const near = limit < top * 4, high = limit && near ? Math.max(limit, top) : top, xs = chip().at.map(at);
		const capacity = limit ? 'capacity ' + bytes(limit) + (near ? '' : ', off the scale') : '';
		const close = xs[xs.length - 1] < end(); // lines go on to the end
		const data = [close ? [...xs, end()] : xs, ...curves.map(c => close ? [...c.values, c.values[c.values.length - 1]] : c.values)];
		const box = this.make(id, {
			title: '', height: 210, scales: {y: {range: () => [0, high * 1.2]}}, axes: [null, {label: title, labelSize: 22, size: 84, values: (u, v) => v.map(bytes), splits: () => ticks(high)}],
			series: [{}, ...curves.map(c => ({stroke: c.color, fill: c.fill, width: 1.5, paths: uPlot.paths.stepped({align: 1}), points: {show: false}}))],
			pick: u => { const o = opAt(eventAt(u.posToVal(u.cursor.left, 'x'))); if (o >= 0) location.hash = '#/op/' + o; },
			hooks: {
				draw: [u => {
					const c = u.ctx, px = devicePixelRatio, {left, top, width, height} = u.bbox;
					c.save();
					if (capacity) {
						c.strokeStyle = c.fillStyle = '#b00020'; c.textAlign = 'right'; c.textBaseline = 'top'; c.font = `${11 * px}px sans-serif`;
						const y = near ? u.valToPos(limit, 'y', true) : top;
						if (near) { c.setLineDash([6 * px, 4 * px]); c.beginPath(); c.moveTo(left, y); c.lineTo(left + width, y); c.stroke(); }
						c.fillText(capacity, left + width - 6 * px, y + 3 * px);
					}
					c.setLineDash([]); c.font = `${11 * px}px sans-serif`; c.textAlign = 'left'; c.textBaseline = 'top';
					let x = left + 8 * px;
					for (const k of curves) { c.fillStyle = k.color; c.fillRect(x, top + 8 * px, 10 * px, 3 * px); c.fillText(k.name, x + 14 * px, top + 4 * px); x += 30 * px + c.measureText(k.name).width; }
					c.fillStyle = '#b00020';
					for (const m of marks) {
						const x = u.valToPos(at(m), 'x', true), y = top + height;
						if (x < left || x > left + width) continue;
						c.beginPath(); c.moveTo(x, y - 7 * px); c.lineTo(x - 4 * px, y); c.lineTo(x + 4 * px, y); c.fill();
					}
					c.restore();
				}],
				setCursor: [u => {
					if (u.cursor.left < 0 || !u.over.matches(':hover')) return;
					const event = eventAt(u.posToVal(u.cursor.left, 'x')), o = opAt(event), k = lastUpTo(chip().at, event);
					this.note.replaceChildren(moment(event) + ': ', o >= 0 ? opLink(o) : 'outside of functions', ` · L1 ${bytes(chip().l1[k])} · DRAM ${bytes(chip().dram[k])}`);
				}],
			},
		}, data);
		box.setAttribute('aria-description', capacity);
		return box;
	}

	// boxes draws rectangles: each is {x0, x1, y0, y1, color, text}. point says in the note what one is, pick goes to its page.
	boxes(id, items, y, options, point, pick) {
		let drawn = [];
		const hit = u => {
			const x = u.cursor.left, y = u.cursor.top;
			for (let i = drawn.length - 1; i >= 0; i--) { const d = drawn[i]; if (d[0] - 1 <= x && x <= d[2] + 1 && d[1] <= y && y <= d[3]) return d[4]; }
			return null;
		};
		return this.make(id, {
			...options, scales: {y: {range: y, dir: options.dir || 1}}, series: [{}, {show: true, stroke: 'transparent', points: {show: false}}],
			pick: u => { const b = hit(u); if (b) pick(b); },
			hooks: {
				draw: [u => {
					const c = u.ctx, px = devicePixelRatio, {left, top, width, height} = u.bbox;
					c.save();
					c.beginPath(); c.rect(left, top, width, height); c.clip();
					c.font = `${11 * px}px sans-serif`; c.textBaseline = 'middle'; c.textAlign = 'left'; c.lineWidth = px * .6;
					drawn = [];
					const low = u.scales.x.min, high = u.scales.x.max;
					for (const b of items) {
						if (b.x1 < low || b.x0 > high) continue;
						const x0 = Math.max(u.valToPos(b.x0, 'x', true), left - 2), x1 = Math.min(u.valToPos(b.x1, 'x', true), left + width + 2), ya = u.valToPos(b.y0, 'y', true), yb = u.valToPos(b.y1, 'y', true);
						const y0 = Math.min(ya, yb), h = Math.max(Math.abs(yb - ya), px), w = Math.max(x1 - x0, px);
						if (y0 > top + height || y0 + h < top) continue;
						drawn.push([(x0 - left) / px, (y0 - top) / px, (x0 - left + w) / px, (y0 - top + h) / px, b]);
						c.fillStyle = b.color; c.fillRect(x0, y0, w, h);
						if (w > 3 * px && h > 3 * px) { c.strokeStyle = '#7a8699'; c.strokeRect(x0, y0, w, h); }
						const visible = Math.min(x1, left + width) - Math.max(x0, left);
						if (b.text && h >= 12 * px && visible > 26 * px) { c.fillStyle = '#1d2433'; const n = Math.floor((visible - 6 * px) / (6.2 * px)); c.fillText(clip(b.text, n), Math.max(x0, left) + 4 * px, y0 + h / 2); }
					}
					if (options.over) options.over(u, c, px);
					c.restore();
				}],
				setCursor: [u => {
					if (u.cursor.left < 0 || !u.over.matches(':hover')) return;
					const b = hit(u);
					u.over.style.cursor = b ? 'pointer' : 'crosshair';
					if (b) this.note.replaceChildren(...point(b)); else this.note.replaceChildren(moment(eventAt(u.posToVal(u.cursor.left, 'x'))));
				}],
			},
		}, [[0, end()], [null, null]], y);
	}

	// functions draws the calls by level.
	functions(id) {
		const levels = Math.max(1, ...R.ops.map(o => o.depth + 1));
		const items = R.ops.map((o, i) => ({op: i, x0: at(o.from), x1: state.events ? o.to + 1 : o.start + o.took, y0: o.depth + .04, y1: o.depth + .96, color: o.error ? '#f6c7cd' : o.group ? '#f7e3c4' : color(short(o.name)), text: (o.group ? '⟳ ' : '') + short(o.name)}));
		return this.boxes(id, items, [0, levels], {height: Math.min(levels, 16) * 22 + 60, dir: -1, axes: [null, {label: 'level', labelSize: 22, size: 84, grid: {show: false}, ticks: {show: false}, splits: () => Array.from({length: levels}, (_, k) => k + .5), values: (u, v) => v.map(x => x + .5)}]},
			b => { const o = R.ops[b.op]; return [opLink(b.op), ` from ${moment(o.from)}, ${time(o.took) || '–'}`, o.device ? `, ${time(o.device)} on the device` : '', ` · L1 at its peak ${bytes(o.l1Peak)}`]; },
			b => { location.hash = '#/op/' + b.op; });
	}

	// addresses draws which buffers occupy which addresses when; part gives a buffer's place and size if not its fullest bank's.
	addresses(id, title, rows, part) {
		rows = rows.filter(k => !R.buffers[k].inside && R.buffers[k].address >= 0);
		const low = k => R.buffers[k].address + (part ? part(k).o : 0), size = k => Math.max(part ? part(k).s : R.buffers[k].bank, 1);
		if (!rows.length) return null;
		if (rows.length > 1 && rows.every(k => R.buffers[k].address === 0)) return el('p', {class: 'note', id}, `${title}: the capture has no addresses; one without dispatch gives none.`);
		const s = squeeze(rows.map(k => [low(k), low(k) + size(k)]));
		const items = rows.map(k => {
			const b = R.buffers[k], t = (b.tensors || [])[0];
			return {k, x0: at(b.from), x1: at(b.to), y0: s.place(low(k)), y1: s.place(low(k)) + size(k), color: ['CB', 'DFB', 'scratchpad'].includes(b.kind) ? 'rgba(243,181,122,.75)' : b.op >= 0 ? color(short(R.ops[ownerOf(b.op)].name)) : '#d8dbe0',
				text: t === undefined ? b.kind : R.tensors[t].shape || b.kind};
		});
		const splits = (u, axis, min, max) => {
			let step = 1, out = [];
			while ((max - min) / step > 7) step *= 2;
			const room = (max - min) / 14;
			for (const r of s.used) {
				if (r.at > max || r.at + r.high - r.low < min) continue;
				for (let a = r.low; a < r.high; a = (Math.floor(a / step) + 1) * step) { const p = s.place(a); if (p >= min && p <= max && (!out.length || p - out[out.length - 1] >= room)) out.push(p); }
			}
			return out;
		};
		return this.boxes(id, items, [0, s.length], {
			height: 300, axes: [null, {label: title, labelSize: 22, size: 84, splits, values: (u, v) => v.map(p => hex(Math.round(s.address(p))))}],
			over: (u, c, px) => { // where unused addresses are left out
				c.setLineDash([2 * px, 3 * px]); c.strokeStyle = '#98a2b3'; c.fillStyle = '#667085'; c.textAlign = 'right';
				s.used.forEach((r, i) => {
					if (!i) return;
					const p = s.used[i - 1], y0 = u.valToPos(p.at + p.high - p.low, 'y', true), y1 = u.valToPos(r.at, 'y', true), y = (y0 + y1) / 2;
					c.beginPath(); c.moveTo(u.bbox.left, y); c.lineTo(u.bbox.left + u.bbox.width, y); c.stroke();
					if (y0 - y1 > 12 * px) c.fillText(bytes(r.low - p.high) + ' unused', u.bbox.left + u.bbox.width - 6 * px, y);
				});
				c.setLineDash([]); c.textAlign = 'left';
			},
		}, b => {
			const x = R.buffers[b.k];
			return [`${x.kind} ${bytes(size(b.k))} at ${hex(low(b.k))}`, part ? '' : ` of ${bytes(x.size)} in all`, x.op >= 0 ? [', by ', opLink(x.op)] : '', (x.tensors || []).slice(0, 3).map(t => [', ', tensorLink(t)]), `, from ${moment(x.from)} to ${x.to < R.nodes ? moment(x.to) : 'the end'}`].flat(9).filter(Boolean);
		}, b => { const x = R.buffers[b.k]; location.hash = (x.tensors || []).length ? '#/tensor/' + x.tensors[0] : '#/op/' + Math.max(x.op, 0); });
	}
}

// ownerOf is the operation that a call is part of.
function ownerOf(i) { while (R.ops[i].parent >= 0 && !R.ops[R.ops[i].parent].group) i = R.ops[i].parent; return i; }

// lastUpTo is the index of the last value up to v.
function lastUpTo(values, v) { let low = 0, high = values.length - 1; while (low < high) { const mid = (low + high + 1) >> 1; if (values[mid] <= v) low = mid; else high = mid - 1; } return low; }
