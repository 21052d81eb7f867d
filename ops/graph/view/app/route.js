// Each page has an address after #: #/ops, #/op/N, #/tensors, #/tensor/N, #/memory, #/memory/EVENT, #/cores, #/core/X,Y, #/flow, #/findings and #/finding/N.

function route() {
	const [, page, arg] = (location.hash || '#/ops').match(/^#\/([a-z]+)\/?(.*)$/) || [null, 'ops', ''];
	document.getElementById('nav').replaceChildren(...[['ops', 'operations'], ['tensors', 'tensors'], ['memory', 'over time'], ['cores', 'cores'], ['flow', 'data flow'], ...(R.findings ? [['findings', 'findings']] : [])].map(([p, name]) =>
		el('a', {href: '#/' + p, class: p === page || {op: 'ops', tensor: 'tensors', core: 'cores', finding: 'findings'}[page] === p ? 'here' : ''}, name)));
	if (plots) plots.close();
	(pages[page] || (() => missing('page ' + page)))(decodeURIComponent(arg || ''));
	document.body.dataset.page = page;
	scrollTo(0, 0);
}
document.getElementById('facts').textContent = [`${R.ops.length} calls`, `${R.nodes} events`, `format ${R.format}`, ...R.devices.map(d => `device ${d.id} ${d.arch}`).slice(0, 2), R.devices.length > 2 ? `${R.devices.length} devices` : '', R.captured].filter(Boolean).join(' · ');
addEventListener('hashchange', route);
route();
