CREATE TABLE IF NOT EXISTS devices (device_id int, num_y_cores int, num_x_cores int, num_y_compute_cores int, num_x_compute_cores int,
	worker_l1_size int, l1_num_banks int, l1_bank_size int, address_at_first_l1_bank int, address_at_first_l1_cb_buffer int,
	num_banks_per_storage_core int, num_compute_cores int, num_storage_cores int, total_l1_memory int, total_l1_for_tensors int,
	total_l1_for_interleaved_buffers int, total_l1_for_sharded_buffers int, cb_limit int, rank int NOT NULL DEFAULT 0);
CREATE TABLE IF NOT EXISTS operations (operation_id int, name text, duration float, rank int NOT NULL DEFAULT 0, UNIQUE(operation_id, rank));
CREATE TABLE IF NOT EXISTS operation_arguments (operation_id int, name text, value text, rank int NOT NULL DEFAULT 0);
CREATE TABLE IF NOT EXISTS sub_device_managers (device_id int, sub_device_manager_id int, rank int NOT NULL DEFAULT 0,
	UNIQUE(device_id, sub_device_manager_id, rank));
CREATE TABLE IF NOT EXISTS sub_devices (device_id int, sub_device_manager_id int, sub_device_id int, worker_core_ranges text,
	rank int NOT NULL DEFAULT 0, UNIQUE(device_id, sub_device_manager_id, sub_device_id, rank));
CREATE TABLE IF NOT EXISTS operation_executions (execution_id int, operation_id int, device_id int, physical_device_id int, runtime_id int,
	global_call_count int, command_queue_id int, rank int NOT NULL DEFAULT 0, UNIQUE(execution_id, rank));
CREATE TABLE IF NOT EXISTS execution_sub_devices (execution_id int, device_id int, sub_device_manager_id int, sub_device_id int,
	rank int NOT NULL DEFAULT 0, UNIQUE(execution_id, device_id, sub_device_manager_id, sub_device_id, rank));
CREATE TABLE IF NOT EXISTS tensors (tensor_id int, shape text, dtype text, layout text, memory_config text, device_id int, address int,
	buffer_type int, rank int NOT NULL DEFAULT 0, storage_type text, size int, UNIQUE(tensor_id, rank));
CREATE TABLE IF NOT EXISTS device_tensors (tensor_id int, device_id int, address int, rank int NOT NULL DEFAULT 0);
CREATE TABLE IF NOT EXISTS buffers (operation_id int, device_id int, address int, max_size_per_bank int, buffer_type int, buffer_layout int,
	rank int NOT NULL DEFAULT 0);
CREATE TABLE IF NOT EXISTS captured_graph (operation_id int, captured_graph text, rank int NOT NULL DEFAULT 0);
CREATE TABLE IF NOT EXISTS nodes (operation_id int, unique_id int, node_operation_id int, name text, rank int NOT NULL DEFAULT 0);
CREATE TABLE IF NOT EXISTS edges (operation_id int, source_unique_id int, sink_unique_id int, source_output_index int, sink_input_index int,
	key int, rank int NOT NULL DEFAULT 0);
CREATE TABLE IF NOT EXISTS report_metadata (key text UNIQUE, value text);
CREATE TABLE IF NOT EXISTS errors (operation_id int, operation_name text, error_type text, error_message text, stack_trace text, timestamp text,
	rank int NOT NULL DEFAULT 0);
CREATE TABLE IF NOT EXISTS source_files (id INTEGER PRIMARY KEY, path text UNIQUE NOT NULL, contents text);
CREATE TABLE IF NOT EXISTS stack_traces (operation_id int, stack_trace text, source_file_id int REFERENCES source_files(id),
	rank int NOT NULL DEFAULT 0);
CREATE INDEX IF NOT EXISTS idx_stack_traces_source_file_id ON stack_traces(source_file_id);
CREATE TABLE IF NOT EXISTS input_tensors (operation_id int, input_index int, tensor_id int, rank int NOT NULL DEFAULT 0);
CREATE TABLE IF NOT EXISTS output_tensors (operation_id int, output_index int, tensor_id int, rank int NOT NULL DEFAULT 0);
CREATE TABLE IF NOT EXISTS tensor_lifetime (tensor_id int, producer_operation_id int, last_use_operation_id int, deallocate_operation_id int,
	producer_source_file text, producer_source_line int, last_use_source_file text, last_use_source_line int, rank int NOT NULL DEFAULT 0,
	UNIQUE(tensor_id, rank));
CREATE TABLE IF NOT EXISTS tensor_consumers (tensor_id int, operation_id int, input_index int, rank int NOT NULL DEFAULT 0,
	UNIQUE(tensor_id, operation_id, input_index, rank));
CREATE TABLE IF NOT EXISTS tensor_producers (tensor_id int, operation_id int, output_index int, rank int NOT NULL DEFAULT 0,
	UNIQUE(tensor_id, operation_id, output_index, rank));
CREATE TABLE IF NOT EXISTS local_tensor_comparison_records (tensor_id int, golden_tensor_id int, matches int, desired_pcc float,
	actual_pcc float, rank int NOT NULL DEFAULT 0, UNIQUE(tensor_id, rank));
CREATE TABLE IF NOT EXISTS global_tensor_comparison_records (tensor_id int, golden_tensor_id int, matches int, desired_pcc float,
	actual_pcc float, rank int NOT NULL DEFAULT 0, UNIQUE(tensor_id, rank));
CREATE TABLE IF NOT EXISTS buffer_chunks (operation_id int, device_id int, address int, bank_id int, core_x int, core_y int,
	chunk_address int, chunk_size int, page_size int, num_pages int, buffer_type int, rank int NOT NULL DEFAULT 0);
-- of schemas before 3.1
CREATE TABLE IF NOT EXISTS buffer_pages (operation_id int, device_id int, address int, core_y int, core_x int, bank_id int, page_index int,
	page_address int, page_size int, buffer_type int, rank int NOT NULL DEFAULT 0);
