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

// layout places the operations. dagre has four placements, of which some drift to a side with each skip connection and others are
// a column; by default it takes their mean. Here the first narrow one is taken, or the narrowest.
function layout() {
	const seen = visible();
	let best = null;
	for (const align of seen.leaves.length > 600 ? ['UL', 'UR'] : ['UL', 'UR', 'DL', 'DR']) {
		const l = placed(seen, align);
		if (!best || l.g.graph().width < best.g.graph().width) best = l;
		if (best.g.graph().width < 1500) break;
	}
	return best;
}

function placed({leaves, frames}, align) {
	const g = new dagre.graphlib.Graph({multigraph: true});
	g.setGraph({rankdir: 'TB', align, nodesep: 18, ranksep: 34, edgesep: 12, marginx: 20, marginy: 20, ranker: leaves.length > 600 ? 'longest-path' : 'network-simplex'});
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
	const shown = leaves.filter(l => linked.has(l.op) || R.ops[l.op].error || R.ops[l.op].group || leaves.length === 1);
	// Around an operation there is room for the frames that it is in: beside it, above the first operations of each, below the last.
	const parent = new Map(frames.map(f => [f.op, f.frame])), side = 14, over = 22, under = 14;
	const around = new Map(shown.map(l => { const all = []; for (let f = l.frame; f >= 0; f = parent.get(f)) all.push(f); return [l.op, all]; }));
	const inFrame = new Set([...around.values()].flat());
	const after = new Map(shown.map(l => [l.op, new Set()])), before = new Map(shown.map(l => [l.op, new Set()])); // frames inside of which an operation follows another one, or is followed
	for (const [a, b] of edges) for (const f of around.get(a)) if (around.get(b).includes(f)) { before.get(a).add(f); after.get(b).add(f); }
	for (const {op} of shown) {
		const all = around.get(op), above = (all.length - after.get(op).size) * over, below = (all.length - before.get(op).size) * under;
		g.setNode('o' + op, {kind: 'op', op, width: 168 + 2 * side * all.length, height: 36 + above + below, down: (above - below) / 2});
	}
	// A loop or a trace that no tensor joins to others follows what was called before it.
	shown.forEach((l, i) => { if (i && !linked.has(l.op)) g.setEdge('o' + shown[i - 1].op, 'o' + l.op, {order: true, weight: 0}, 'h' + i); });
	sources.forEach(([t, op], k) => { // one box for each use, so that weights stay beside their consumers
		g.setNode('t' + k, {kind: 'tensor', tensor: t, width: Math.max(60, 26 + 6.8 * Math.min(R.tensors[t].shape.length, 24)), height: 24});
		g.setEdge('t' + k, 'o' + op, {tensor: t, weight: 3, minlen: 1}, 's' + k);
	});
	edges.forEach(([a, b, t], k) => g.setEdge('o' + a, 'o' + b, {tensor: t, weight: rank.get(b) - rank.get(a) < 3 ? 4 : 1, width: 70, height: 12, labelpos: 'r', label: true, skip: rank.get(b) - rank.get(a) > 2}, 'e' + k));
	dagre.layout(g);
	for (const {op} of shown) { const n = g.node('o' + op); Object.assign(n, {y: n.y + n.down, width: 168, height: 36}); }
	for (const e of g.edges()) { // from box to box
		const p = g.edge(e).points || [], to = (v, q) => {
			const n = g.node(v), x = Math.min(Math.max(q.x, n.x - n.width / 2), n.x + n.width / 2), y = Math.min(Math.max(q.y, n.y - n.height / 2), n.y + n.height / 2);
			return Math.hypot(x - q.x, y - q.y) > 1 ? [{x, y}] : [];
		};
		if (p.length) g.edge(e).points = [...to(e.v, p[0]), ...p, ...to(e.w, p[p.length - 1])];
	}
	// Frames are around the boxes that are laid out, the innermost first: dagre's own ones pull long graphs apart.
	const boxes = new Map();
	const grow = (f, x0, y0, x1, y1) => {
		const b = boxes.get(f) || {kind: 'frame', op: f, x0, y0, x1, y1};
		boxes.set(f, Object.assign(b, {x0: Math.min(b.x0, x0), y0: Math.min(b.y0, y0), x1: Math.max(b.x1, x1), y1: Math.max(b.y1, y1)}));
	};
	for (const {op, frame} of shown) {
		const n = g.node('o' + op);
		if (frame >= 0) grow(frame, n.x - n.width / 2, n.y - n.height / 2, n.x + n.width / 2, n.y + n.height / 2);
	}
	sources.forEach(([, op], k) => { // as wide as these too, but not as high: what comes before a frame is in the rank of its first sources
		const n = g.node('t' + k), l = shown.find(l => l.op === op), o = g.node('o' + op);
		if (l && l.frame >= 0 && n) grow(l.frame, n.x - n.width / 2, o.y, n.x + n.width / 2, o.y);
	});
	const depth = f => { let d = 0; for (let p = parent.get(f); p >= 0; p = parent.get(p)) d++; return d; };
	const inward = [...inFrame].sort((a, b) => depth(b) - depth(a));
	for (const f of inward) {
		const b = boxes.get(f);
		if (!b) continue;
		b.x0 -= side; b.x1 += side; b.y0 -= over; b.y1 += under;
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
	const start = g => {
		fit();
		if (at.k >= 0.5) return;
		const k = Math.max(Math.min(view.clientWidth / extent.width, 1), 0.5), first = g.nodes().map(v => g.node(v)).find(n => n && n.kind === 'op');
		at = {k, x: (view.clientWidth - extent.width * k) / 2, y: 8};
		if (extent.width * k > view.clientWidth && first) at.x = Math.max(Math.min(view.clientWidth / 2 - first.x * k, 0), view.clientWidth - extent.width * k);
		place();
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
			if (p.length < 2 || d.order) continue;
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
					el('text', {x: 8, y: 15}, clip((o.group ? '⟳ ' : '') + short(o.name), kids ? 21 : 24)), el('text', {x: 8, y: 29, style: 'fill:#667085;font-size:10px'}, [time(o.took), o.out.length ? R.tensors[o.out[0]].shape : ''].filter(Boolean).join('  ')),
					kids > 0 && el('text', {class: 'more', x: n.width - 16, y: 16, onclick: e => { e.stopPropagation(); state.open.add(n.op); state.closed.delete(n.op); draw(true); }}, '+', el('title', {}, 'open'))));
			} else if (n.kind === 'tensor') {
				root.append(el('g', {class: 'src', 'data-tensor': n.tensor, transform: `translate(${n.x - n.width / 2},${n.y - n.height / 2})`}, el('rect', {width: n.width, height: n.height, rx: 10, onclick: () => { location.hash = '#/tensor/' + n.tensor; }},
					el('title', {}, `tensor ${R.tensors[n.tensor].id}\n${tensorText(n.tensor)} ${R.tensors[n.tensor].memory}`)), el('text', {x: 8, y: 16}, clip(R.tensors[n.tensor].shape || 'tensor', 24))));
			}
		}
		place();
		if (!keep && !(focus >= 0 && focusOn(g, focus))) start(g);
		count.textContent = `${nodes.filter(n => n.kind === 'op').length} operations, ${g.edges().filter(e => !g.edge(e).order).length} edges` + (alone ? `; calls that no tensor joins to others aren't drawn: ${alone}` : '');
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

pages.flow = focus => flow(focus === undefined || focus === '' ? -1 : Number(focus));
