// Functions, memory in use and addresses of a chip, over time.

const inDRAM = b => b.kind === 'DRAM' || b.kind === 'TRACE';

pages.memory = event => {
	const p = new Plots();
	if (event) { const e = Number(event); p.zoom = {min: at(Math.max(0, e - 40)), max: at(Math.min(R.nodes, e + 60))}; }
	const here = R.buffers.map((b, k) => k).filter(k => live(R.buffers[k])), c = chip();
	const marks = dram => here.filter(k => R.buffers[k].late && inDRAM(R.buffers[k]) === dram).map(k => Math.min(R.buffers[k].to, R.nodes - 1));
	const late = here.filter(k => R.buffers[k].late).sort((a, b) => R.buffers[b].late * R.buffers[b].bank - R.buffers[a].late * R.buffers[a].bank);
	const used = most(c.dram) > 0, again = () => pages.memory();
	show(el('div', {class: 'bar'}, chipSelector(again), timed && el('label', {}, 'over ', el('select', {id: 'axis', onchange: e => { state.events = e.target.value === 'events'; again(); }},
		['time', 'events'].map(v => el('option', {value: v, selected: v === axisName() ? '' : null}, v)))), p.note),
		el('h3', {}, 'Functions'), p.functions('functions'),
		el('h3', {}, 'L1 of the fullest core'), p.curve('l1', 'in use', [{name: 'buffers', color: '#1668b4', fill: 'rgba(22,104,180,.16)', values: c.buffers}, {name: 'with what programs take', color: '#c2570c', values: c.l1}], capacity(), marks(false)),
		p.addresses('l1-addresses', 'addresses of L1', here.filter(k => !inDRAM(R.buffers[k]))) || el('p', {class: 'note'}, 'The capture allocated nothing in L1.'),
		el('h3', {}, 'DRAM'), used ? [p.curve('dram', 'in use', [{name: 'buffers in all banks', color: '#4d7c0f', fill: 'rgba(77,124,15,.14)', values: c.dram}], device() ? device().dram : 0, marks(true)),
			p.addresses('dram-addresses', 'addresses of DRAM', here.filter(k => inDRAM(R.buffers[k])))] : el('p', {class: 'note', id: 'dram'}, 'The capture allocated nothing in DRAM.'),
		el('p', {class: 'note'}, 'Addresses are those of the fullest bank; buffers have the colour of the operation that allocated them, orange is what programs take. Unused ranges are left out.'),
		el('h3', {}, 'Freed late'), el('p', {class: 'note'}, 'Operations ran after the last use of these before they were freed; red marks under the curves are their ends.'),
		late.length ? bufferTable('late', late) : el('p', {class: 'note'}, 'none'));
};
