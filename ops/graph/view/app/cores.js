// The grid of cores of a chip, and what is on one.

pages.cores = () => {
	const [w, h] = R.cores;
	if (!w || !h) return show(el('p', {}, 'The report names no cores.'));
	const size = Math.max(14, Math.min(54, Math.floor((main.clientWidth - 60) / w)));
	const grid = el('svg', {id: 'grid', width: w * size + 26, height: h * size + 22}), info = el('div', {id: 'core'});
	const slider = el('input', {type: 'range', min: -1, max: chip().at.length - 1, value: Math.min(state.at, chip().at.length - 1), id: 'at', style: 'width:28em', oninput: e => { state.at = Number(e.target.value); draw(); }});
	const label = el('span', {class: 'note', id: 'when'});
	const plots = new Plots();
	function draw() {
		const peak = state.at < 0, at = peak ? 0 : chip().at[state.at], use = coreUse(peak ? null : at);
		const o = peak ? -1 : opAt(at);
		label.replaceChildren(...(peak ? ['the peak of each core; move the slider for a time'] : [`after ${moment(at)}`, o >= 0 ? [', in ', opLink(o)] : []].flat()));
		const top = Math.max(capacity(), most(use.flat()), 1);
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
		plots.close();
		if (!state.core) return;
		const [x, y] = state.core, all = R.buffers.map((b, k) => k).filter(k => live(R.buffers[k]) && part(R.buffers[k], x, y));
		const on = all.filter(k => peak || R.buffers[k].from <= at && at < R.buffers[k].to);
		info.append(el('h3', {}, `Core ${x},${y}: ${bytes(use[y][x])}`));
		if (all.length) info.append(plots.note, plots.addresses('oncore-addresses', `addresses of core ${x},${y}`, all, k => part(R.buffers[k], x, y)) || '');
		info.append(on.length ? bufferTable('oncore', on, b => part(b, x, y)) : el('p', {class: 'note'}, 'nothing of this report is on it'));
	}
	const unknown = R.buffers.filter(b => live(b) && b.kind.startsWith('L1') && b.place < 0).length;
	show(el('div', {class: 'bar'}, chipSelector(pages.cores), slider, label), capacity() > 0 && el('p', {class: 'note'}, `The darkest blue is the capacity of ${bytes(capacity())}; red is more. Click a core for what is on it.`),
		unknown > 0 && el('p', {class: 'note'}, `${unknown} sharded buffers have no pages in the report, so their cores aren't known.`), grid, info);
	draw();
};

pages.core = n => {
	const [x, y] = n.split(',').map(Number);
	if (!(x >= 0 && x < R.cores[0] && y >= 0 && y < R.cores[1])) return missing(`core ${n} (the grid has ${R.cores[0]} by ${R.cores[1]})`);
	state.core = [x, y];
	pages.cores();
};

// coreUse returns the bytes in use on each core of the chip at an event, or without one each core's peak.
function coreUse(at) {
	const [w, h] = R.cores, use = Array.from({length: h}, () => new Array(w).fill(0)), peak = Array.from({length: h}, () => new Array(w).fill(0));
	const add = (b, sign) => { for (const c of R.places[b.place]) if (c.x < w && c.y < h) { use[c.y][c.x] += sign * c.s; peak[c.y][c.x] = Math.max(peak[c.y][c.x], use[c.y][c.x]); } };
	const here = R.buffers.filter(b => b.place >= 0 && !b.inside && live(b));
	if (at !== null) { here.filter(b => b.from <= at && at < b.to).forEach(b => add(b, 1)); return use; }
	here.flatMap(b => [[b.from, 1, b], [b.to, 0, b]]).sort((a, b) => a[0] - b[0] || a[1] - b[1]).forEach(([, start, b]) => add(b, start ? 1 : -1));
	return peak;
}
