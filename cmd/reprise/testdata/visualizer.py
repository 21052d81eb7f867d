"""Compares two folders that ttnn-visualizer opens, TT-NN's and ours of one capture: table by table, and answer by answer of the
back end. Prints what differs but for what known() says: visualizer.py THEIRS OURS, with ttnn-visualizer's Python."""
import collections, json, logging, os, re, sqlite3, sys, tempfile

os.environ["APP_DATA_DIRECTORY"] = os.environ["REPORT_DATA_DIRECTORY"] = data = tempfile.mkdtemp()
theirs, ours = sys.argv[1:3]

differences = []


def differs(what, a, b):
    differences.append(f"{what}: theirs {a!r}, ours {b!r}")


def normal(v):
    """Python's and Go's texts of the same JSON or boolean are one value."""
    if isinstance(v, bool):
        return str(v).lower()
    if isinstance(v, str):
        try:
            return json.dumps(json.loads(v.lower() if v in ("True", "False") else v), sort_keys=True)
        except ValueError:
            pass
    return v


def tables(folder):
    db = sqlite3.connect(os.path.join(folder, "db.sqlite"))
    out = {}
    for (table,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'"):
        columns = [r[1] for r in db.execute(f"PRAGMA table_info({table})")]
        out[table] = columns, [dict(zip(columns, map(normal, row))) for row in db.execute(f"SELECT * FROM {table}")]
    return out


def compare_tables():
    a, b = tables(theirs), tables(ours)
    for name in sorted(a.keys() | b.keys()):
        if name not in a or name not in b:
            differs(f"table {name}", name in a, name in b)
            continue
        (columns, rows), (ours_columns, ours_rows) = a[name], b[name]
        if columns != [c for c in ours_columns if c in columns]:
            differs(f"columns of {name}", columns, ours_columns)
        if name == "captured_graph":
            continue  # the operations' graphs are compared as answers
        left, right = (collections.Counter(json.dumps({c: r.get(c) for c in columns}, sort_keys=True) for r in t) for t in (rows, ours_rows))
        for row in sorted((left - right).elements()):
            differs(f"{name}", json.loads(row), None)
        for row in sorted((right - left).elements()):
            differs(f"{name}", None, json.loads(row))


def diff(path, a, b):
    if isinstance(a, dict) and isinstance(b, dict):
        for k in sorted(a.keys() | b.keys()):
            diff(f"{path}.{k}", a.get(k), b.get(k))
    elif isinstance(a, list) and isinstance(b, list):
        a, b = ({x.get("id", i) if isinstance(x, dict) else i: x for i, x in enumerate(rows)} for rows in (a, b))
        for k in sorted(a.keys() | b.keys()):
            diff(f"{path}[{k}]", a.get(k), b.get(k))
    elif a != b:
        differs(path, a, b)


def sorted_answer(v):
    """Lists of rows in an order that doesn't depend on the database's."""
    if isinstance(v, list):
        v = [sorted_answer(x) for x in v]
        if v and isinstance(v[0], dict) and "node_type" not in v[0] and "name" not in v[0]:
            v.sort(key=lambda r: json.dumps([r.get("id", ""), r], sort_keys=True))
        return v
    return {k: sorted_answer({} if k == "params" and x is None else x) for k, x in v.items()} if isinstance(v, dict) else normal(v)


def compare_answers():
    from ttnn_visualizer.app import create_app
    from ttnn_visualizer.instances import create_instance_from_local_paths

    logging.disable(logging.WARNING)
    app = create_app()
    with app.app_context():
        instances = [create_instance_from_local_paths(profiler_path=p, performance_path=None).instance_id for p in (theirs, ours)]
    client = app.test_client()

    def ask(route):
        out = []
        for i in instances:
            answer = client.get(f"/api/{route}{'&' if '?' in route else '?'}instanceId={i}")
            out.append(sorted_answer(answer.get_json() if answer.status_code == 200 else answer.status_code))
        return out

    operations, our_operations = ask("operations")
    routes = ["operations", "tensors", "buffers", "devices", "errors", "report-metadata", "config", "cluster-descriptor", "mesh-descriptor",
              "buffer-pages", "operation-buffers", "operation-history"]
    for operation in operations:
        routes += [f"operations/{operation['id']}", f"operation-buffers/{operation['id']}", f"buffer-pages?operation_id={operation['id']}"]
    for tensor in ask("tensors")[0]:
        routes.append(f"tensors/{tensor['id']}")
    for route in routes:
        diff(route, *ask(route))
    print(f"{len(routes)} answers of {len(operations)} operations")


def known():
    """Patterns of differences that have a reason."""
    a = tables(theirs)
    with open(os.path.join(theirs, "..", "report.json")) as f:
        nodes = json.load(f)["graph"]
    graph = {int(n["params"]["tensor_id"]) for n in nodes if n["node_type"] == "tensor"}
    number = lambda ids: "(%s)" % "|".join(map(str, sorted(ids))) if ids else "none"
    python = number({r["tensor_id"] for r in a["tensors"][1]} - graph)
    failed = {r["operation_id"] for r in a["errors"][1]}
    inner = number({r["tensor_id"] for r in a["output_tensors"][1] if r["operation_id"] in failed})
    failed = number(failed)
    yield from (
        r"report.metadata.*git_(url|sha)",  # of the repository that TT-NN happens to be installed in
        # TT-NN's tables have no sizes. Without, the visualizer finds none of a tensor that is freed next.
        r"tensors(/|\[)\d+\]?\.size: theirs None",
        # TT-NN has no places of tensors that only Python numbered, and takes the shape of the first tensor that was made inside.
        rf"(device_tensors|tensors): .*'tensor_id': {python}\b",
        rf".*(/|\[){python}\]?\.device_addresses(\[0\])?: theirs (\[\]|None), ours",
        rf".*(/|\[){python}\]?\.shape: theirs 'Shape\(\[1, 1, 64, 64\]\)', ours 'Shape\(\[64, 64\]\)'",
        # TT-NN takes what a failed operation made and freed for its output, and repeats the node.
        rf"(edges|output_tensors|tensor_producers): .*'operation_id': {failed}\b",
        rf"tensor_lifetime: .*'tensor_id': {inner}\b",
        rf"operations(/|\[){failed}\]?\.(device_operations|outputs)\[",
        rf"tensors(/|\[){inner}\]?\.(lifetime|producers)",
    )
    if {"key": "schema_version", "value": "3.3"} in a["report_metadata"][1]:
        yield from (
            r"table (execution_sub_devices|operation_executions|sub_device_managers|sub_devices): theirs False",
            r"report.metadata.*schema_version",
            # A tensor of the device that is at another's place.
            r"(tensors|tensor_lifetime|device_tensors): theirs None",
            r"tensors\[\d+\]: theirs None",
            # C++'s names, and a host's tensor in DRAM.
            rf".*(/|\[){python}\]?\.(dtype|layout): theirs '(?P<kind>DataType|Layout)::(?P<name>\w+)', ours '(?P=kind)\.(?P=name)'",
        )


compare_tables()
compare_answers()
reasons = list(known())
found = [d for d in differences if not any(re.match(r, d) for r in reasons)]
print(f"{len(differences) - len(found)} known differences")
print("\n".join(found))
sys.exit(len(found) > 0)
