-- Tables that follow from others. The first file and line of a stack trace are the operation's.
DELETE FROM tensor_consumers;
INSERT OR IGNORE INTO tensor_consumers SELECT tensor_id, operation_id, input_index, rank FROM input_tensors;
DELETE FROM tensor_producers;
INSERT OR IGNORE INTO tensor_producers SELECT tensor_id, operation_id, output_index, rank FROM output_tensors;
DELETE FROM tensor_lifetime;
WITH
use AS (SELECT tensor_id, rank, operation_id, name IN ('ttnn::deallocate', 'ttnn.deallocate', 'Tensor::deallocate') AS frees
	FROM input_tensors JOIN operations USING (operation_id, rank)),
used AS (SELECT tensor_id, rank, max(operation_id) FILTER (WHERE NOT frees) AS last, min(operation_id) FILTER (WHERE frees) AS freed
	FROM use GROUP BY tensor_id, rank),
made AS (SELECT tensor_id, rank, min(operation_id) AS first FROM output_tensors GROUP BY tensor_id, rank),
named AS (SELECT operation_id, rank, substr(stack_trace, instr(stack_trace, 'File "') + 6) AS text FROM stack_traces
	WHERE stack_trace LIKE '%File "%", line %'),
place AS (SELECT operation_id, rank, substr(text, 1, instr(text, '"') - 1) AS file,
	CAST(substr(text, instr(text, '", line ') + 8) AS INTEGER) AS line FROM named)
INSERT INTO tensor_lifetime SELECT tensor_id, first, last, freed, p.file, p.line, u.file, u.line, tensors.rank
FROM tensors LEFT JOIN made USING (tensor_id, rank) LEFT JOIN used USING (tensor_id, rank)
	LEFT JOIN place p ON p.operation_id = first AND p.rank = tensors.rank LEFT JOIN place u ON u.operation_id = last AND u.rank = tensors.rank;
