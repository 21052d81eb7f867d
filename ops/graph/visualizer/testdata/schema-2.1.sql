CREATE TABLE IF NOT EXISTS devices (device_id int, num_y_cores int, num_x_cores int, num_y_compute_cores int, num_x_compute_cores int,
	worker_l1_size int, l1_num_banks int, l1_bank_size int, address_at_first_l1_bank int, address_at_first_l1_cb_buffer int,
	num_banks_per_storage_core int, num_compute_cores int, num_storage_cores int, total_l1_memory int, total_l1_for_tensors int,
	total_l1_for_interleaved_buffers int, total_l1_for_sharded_buffers int, cb_limit int);
CREATE TABLE IF NOT EXISTS operations (operation_id int UNIQUE, name text, duration float);
CREATE TABLE IF NOT EXISTS operation_arguments (operation_id int, name text, value text);
CREATE TABLE IF NOT EXISTS tensors (tensor_id int UNIQUE, shape text, dtype text, layout text, memory_config text, device_id int, address int,
	buffer_type int, size int);
CREATE TABLE IF NOT EXISTS device_tensors (tensor_id int, device_id int, address int);
CREATE TABLE IF NOT EXISTS buffers (operation_id int, device_id int, address int, max_size_per_bank int, buffer_type int, buffer_layout int);
CREATE TABLE IF NOT EXISTS captured_graph (operation_id int, captured_graph text);
CREATE TABLE IF NOT EXISTS nodes (operation_id int, unique_id int, node_operation_id int, name text);
CREATE TABLE IF NOT EXISTS edges (operation_id int, source_unique_id int, sink_unique_id int, source_output_index int, sink_input_index int,
	key int);
CREATE TABLE IF NOT EXISTS report_metadata (key text UNIQUE, value text);
CREATE TABLE IF NOT EXISTS errors (operation_id int, operation_name text, error_type text, error_message text, stack_trace text, timestamp text);
CREATE TABLE IF NOT EXISTS source_files (id INTEGER PRIMARY KEY, path text UNIQUE NOT NULL, contents text);
CREATE TABLE IF NOT EXISTS stack_traces (operation_id int, stack_trace text, source_file_id int REFERENCES source_files(id));
CREATE INDEX IF NOT EXISTS idx_stack_traces_source_file_id ON stack_traces(source_file_id);
CREATE TABLE IF NOT EXISTS input_tensors (operation_id int, input_index int, tensor_id int);
CREATE TABLE IF NOT EXISTS output_tensors (operation_id int, output_index int, tensor_id int);
CREATE TABLE IF NOT EXISTS local_tensor_comparison_records (tensor_id int, golden_tensor_id int, matches int, desired_pcc float, actual_pcc float);
CREATE TABLE IF NOT EXISTS global_tensor_comparison_records (tensor_id int, golden_tensor_id int, matches int, desired_pcc float, actual_pcc float);
CREATE TABLE IF NOT EXISTS buffer_pages (operation_id int, device_id int, address int, core_y int, core_x int, bank_id int, page_index int,
	page_address int, page_size int, buffer_type int);
INSERT INTO report_metadata VALUES ('schema_version', '2.1');
INSERT INTO operations VALUES (1, 'old', 1), (20001, 'older', 1);
INSERT INTO tensors VALUES (500, 'Shape([1])', '', '', '', 0, 64, 1, 32);
INSERT INTO buffer_pages VALUES (1, 0, 64, 0, 0, 0, 0, 64, 32, 1), (20001, 0, 64, 1, 2, 0, 0, 96, 32, 1), (20001, 0, 64, 1, 2, 0, 0, 64, 16, 1);
