-- Collapses the pages of schemas before 3.1, as ttnn-visualizer does when it reads them.
INSERT INTO buffer_chunks SELECT operation_id, device_id, address, bank_id, core_x, core_y, min(page_address),
	max(page_address + page_size) - min(page_address), max(page_size), count(*), buffer_type, rank
FROM buffer_pages GROUP BY operation_id, device_id, address, bank_id, core_x, core_y, buffer_type, rank;
DROP TABLE buffer_pages;
