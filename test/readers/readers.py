# Reads streams and trajectories of a directory with the programs that others wrote for them. A reader that is not
# installed is skipped with a line; a file that one of the others refuses is a failure.
import importlib
import json
import pathlib
import sys


def find(*names):
    """The modules with these names, or None and the reason why they are not there."""
    try:
        return [importlib.import_module(name) for name in names], ""
    except Exception as error:  # A module may also fail for a version of Python.
        return None, str(error).splitlines()[0]


def nat_streams():
    modules, reason = find("nat.atof.scripts.atof_to_atif_converter", "nat.atof.io", "nat.atof.extractors")
    if modules is None:
        return None, reason
    converter, io, extractors = modules
    extractors.register_anthropic_messages_v1()
    extractors.register_gemini_generate_content_v1()
    return (lambda path: converter.convert(io.read_jsonl(path))), ""


def nat_trajectories():
    modules, reason = find("nat.atif.trajectory")
    if modules is None:
        return None, reason
    return (lambda path: modules[0].Trajectory.model_validate(json.loads(path.read_text()))), ""


def harbor_trajectories():
    modules, reason = find("harbor.models.trajectories")
    if modules is None:
        return None, reason
    return (lambda path: modules[0].Trajectory.model_validate(json.loads(path.read_text()))), ""


def phoenix_trajectories():
    modules, reason = find("phoenix.client.helpers.atif")
    if modules is None:
        return None, reason
    return (lambda path: modules[0]._convert_atif_trajectories_to_spans([json.loads(path.read_text())])), ""


readers = [
    ("NeMo Agent Toolkit, streams", "*.jsonl", nat_streams),
    ("NeMo Agent Toolkit, trajectories", "*.json", nat_trajectories),
    ("Harbor, trajectories", "*.json", harbor_trajectories),
    ("Phoenix, trajectories", "*.json", phoenix_trajectories),
]


def main(directory):
    refused = 0
    for name, pattern, make in readers:
        read, reason = make()
        if read is None:
            print(f"{name}: skipped: {reason}")
            continue
        paths = sorted(directory.glob(pattern))
        wrong = []
        for path in paths:
            try:
                read(path)
            except Exception as error:
                wrong.append(f"  {path.name}: {type(error).__name__}: {str(error)[:500]}")
        refused += len(wrong)
        print(f"{name}: {len(paths) - len(wrong)} of {len(paths)}")
        print("\n".join(wrong), end="\n" if wrong else "")
    return 1 if refused > 0 else 0


sys.exit(main(pathlib.Path(sys.argv[1])))
